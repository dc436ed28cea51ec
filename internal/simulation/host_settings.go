package simulation

import (
	"log/slog"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/hook"
	"github.com/changefeed-go/changefeed/lease"
)

// settings contains the part of a host's configuration that may differ between hosts. It
// does not change after the host has joined.
type settings struct {
	times               times
	maxItems, readAhead int
	concurrency         int
	failure             changefeed.Failure
	onHistoryLost       func(lease.Lease, *feed.HistoryLostError) bool
	checkpoint          changefeed.Checkpointing
	// minLeases and maxLeases bound the number of the host's leases. Zero means no bound.
	minLeases, maxLeases int
	discards             bool // the leases, when it starts
}

// settings returns the settings of the world, which the hosts have by default.
func (c worldConfig) settings() settings {
	return settings{times: c.times, maxItems: c.maxItems, readAhead: c.readAhead, concurrency: 1, checkpoint: c.checkpoint}
}

// config returns the configuration of the host's processor. The processor's seed comes
// from the simulation's seed.
func (h *host) config() changefeed.Config {
	w, t := h.world, h.settings.times
	cfg := changefeed.Config{
		Logger:    slog.New(slog.DiscardHandler),
		Processor: "sim", Instance: h.instance,
		Source: &hostSource{host: h, inner: h.source, waits: w.waits},
		Leases: dialectContainer{&hostContainer{host: h, inner: w.engine.leases()}, w.dialect},
		Observer: func(l lease.Lease) (changefeed.Observer, error) {
			return w.observe(h, l)
		},
		Start: w.start, Mode: w.mode, Range: w.keys, MaxItems: h.settings.maxItems, ReadAhead: h.settings.readAhead, Checkpoint: h.settings.checkpoint,
		PollInterval: t.poll, AcquireInterval: t.acquire, RenewInterval: t.renew,
		ExpirationInterval: t.expiration, RequestTimeout: t.timeout, DrainTimeout: t.drain,
		MinLeases: h.settings.minLeases, MaxLeases: h.settings.maxLeases, DiscardLeases: h.settings.discards, OnHistoryLost: h.settings.onHistoryLost,
	}
	if t.drain == 0 {
		cfg.DrainTimeout = -1
	}
	processorSeed := newDraw(w.seed, 0, "host", h.id)
	hook.SetSeed(&cfg, processorSeed.next()|1)
	hook.SetClock(&cfg, h.clock.now)
	if cfg.Failure = h.settings.failure; h.keyed() {
		cfg.ReadAhead = max(0, cfg.ReadAhead) // it cannot be switched off
		hook.SetConcurrency(&cfg, h.settings.concurrency)
	}
	if w.passes != nil {
		cfg.Filter = w.filter
	}
	return cfg
}

// keyed reports whether the host handles the changes of each key in order, and not those of each
// lease.
func (h *host) keyed() bool { return h.settings.concurrency > 1 || h.settings.failure.Attempts > 0 }
