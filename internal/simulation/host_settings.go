package simulation

import (
	"log/slog"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/internal/hook"
	"github.com/changefeed-go/changefeed/lease"
)

// settings contains the part of a host's configuration that may differ between hosts. It
// does not change after the host has joined.
type settings struct {
	times               times
	maxItems, readAhead int
	concurrency         int
	attempts            int // before a letter; zero without letters
	checkpoint          changefeed.Checkpointing
	// minLeases and maxLeases bound the number of the host's leases. Zero means no bound.
	minLeases, maxLeases int
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
		Source: &hostSource{host: h, inner: w.engine.source(), waits: w.waits},
		Leases: dialectContainer{&hostContainer{host: h, inner: w.engine.leases()}, w.dialect},
		Observer: func(l lease.Lease) (changefeed.Observer, error) {
			return w.observe(h, l)
		},
		Start: w.start, Mode: w.mode, Range: w.keys, MaxItems: h.settings.maxItems, ReadAhead: h.settings.readAhead, Checkpoint: h.settings.checkpoint,
		PollInterval: t.poll, AcquireInterval: t.acquire, RenewInterval: t.renew,
		ExpirationInterval: t.expiration, RequestTimeout: t.timeout, DrainTimeout: t.drain,
		MinLeases: h.settings.minLeases, MaxLeases: h.settings.maxLeases, DiscardLeases: h.discard != nil,
	}
	if t.drain == 0 {
		cfg.DrainTimeout = -1
	}
	processorSeed := newDraw(w.seed, 0, "host", h.id)
	hook.SetSeed(&cfg, processorSeed.next()|1)
	hook.SetClock(&cfg, h.clock.now)
	if cfg.Failure = h.failure(); h.keyed() {
		cfg.ReadAhead = max(0, cfg.ReadAhead) // it cannot be switched off
		hook.SetConcurrency(&cfg, h.settings.concurrency)
	}
	if w.passes != nil {
		cfg.Filter = w.filter
	}
	if w.retention > 0 {
		cfg.OnHistoryLost = w.onHistoryLost(h)
	}
	return cfg
}

// configure draws the settings of a host.
func (r *run) configure(h *host) {
	if r.scenario.has(differentHosts) {
		r.differ(h)
	}
	if r.scenario.has(parallelCalls) {
		d := newDraw(r.scenario.seed, 0, "concurrency", h.id)
		h.settings.concurrency = []int{1, 2, 3, 8, 64}[d.intn(5)]
	}
	if r.scenario.has(lettersOfHosts) {
		d := newDraw(r.scenario.seed, 0, "attempts", h.id)
		h.settings.attempts = d.between(1, 5)
	}
	if r.scenario.has(leaseLimits) && !r.world.isCalm() {
		r.limit(h)
	}
}

// keyed reports whether the host handles the changes of each key in order, and not those of each
// lease.
func (h *host) keyed() bool { return h.settings.concurrency > 1 || h.settings.attempts > 0 }

// limit draws the bounds of the number of a host's leases. Some hosts have none.
func (r *run) limit(h *host) {
	d := newDraw(r.scenario.seed, 0, "limits", h.id)
	s := &h.settings
	most := r.scenario.partitions + 2
	if d.chance(0.6) {
		s.maxLeases = d.between(1, most)
		most = s.maxLeases
	}
	if d.chance(0.5) {
		s.minLeases = d.between(1, most)
	}
}

// differ draws settings that differ between the hosts. The expiration interval is the
// same on all hosts, because the protocol requires it. The other intervals are at most
// those of the scenario, so the limits of the rules remain valid.
func (r *run) differ(h *host) {
	d := newDraw(r.scenario.seed, 0, "settings", h.id)
	s := &h.settings
	t := &s.times
	t.acquire = d.span(t.acquire/3, t.acquire+1)
	t.renew = d.span(t.renew/2, t.renew+1)
	t.timeout = d.span(t.timeout/2, t.timeout+1)
	t.poll = d.span(t.poll/3, t.poll+1)
	if t.drain > 0 {
		t.drain = d.span(time.Millisecond, t.drain+1)
	}
	s.maxItems, s.readAhead = drawPages(&d)
	switch kind := d.intn(3); {
	case kind == 0: // as the scenario has it
	case kind == 1 && !s.checkpoint.Manual:
		s.checkpoint = drawDeferred(&d)
	default:
		s.checkpoint = changefeed.Checkpointing{}
	}
}
