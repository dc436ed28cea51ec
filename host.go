package changefeed

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// host is one run of a processor: what the supervisor, its cycles and its workers
// share. Nothing in it changes once the supervisor runs, so all of them read it.
type host struct {
	cfg   Config
	terms lease.Terms
	seed  uint64
	// dialect is that of the lease documents.
	dialect lease.Dialect
	// container is the rid of the monitored container.
	container string
	// owner is the text that marks a lease as held by this run.
	owner string
	store lease.Store
	// metrics may be nil.
	metrics *metrics
	health  *health
	costs   leaseCosts
	// origin is where the monotonic clock counts from.
	origin time.Time
}

func newHost(cfg Config) *host {
	seed := cfg.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	return &host{
		cfg:     cfg,
		terms:   cfg.terms(),
		seed:    seed,
		dialect: cfg.Leases.Dialect(),
		owner:   lease.NewOwner(cfg.Instance, uint32(hashWord(seed, "owner"))),
		origin:  time.Now(),
	}
}

// clock looks at the two clocks.
func (h *host) clock() lease.Reading {
	now := time.Now()
	return lease.Reading{Mono: now.Sub(h.origin), Wall: now.Round(0)}
}

// request bounds one request to the source or the store.
func (h *host) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, h.cfg.RequestTimeout)
}

// notify logs a notification, counts it and passes it to the user.
func (h *host) notify(n Notification) {
	log := h.cfg.Logger.With("processor", h.cfg.Processor, "instance", h.owner)
	if n.LeaseToken != "" {
		log = log.With("lease", n.LeaseToken)
	}
	switch n.Event {
	case Acquired:
		log.Info("lease acquired")
	case Released:
		switch n.Reason {
		case Abandoned:
			log.Warn("lease not released; it expires", "reason", n.Reason.String(), "error", n.Err)
		case Lost:
			log.Info("lease lost", "reason", n.Reason.String())
		case Gone:
			log.Info("lease deleted", "reason", n.Reason.String())
		case Shutdown, HandedOver, Shadowed:
			log.Info("lease released", "reason", n.Reason.String())
		}
	case Failed:
		log.Warn("something failed and is tried again", "error", n.Err)
		var long interface{ Details() string }
		if errors.As(n.Err, &long) {
			log.Debug("details of the error", "details", long.Details())
		}
	}
	h.metrics.notified(n)
	if h.cfg.Notify == nil {
		return
	}
	if stack := callAside(func() { h.cfg.Notify(n) }); stack != nil {
		log.Warn("notification function failed", "error", errGoexit, "stack", string(stack))
	}
}

// fail tells the user of an error; token names the lease that it concerns, or is
// empty.
func (h *host) fail(token string, err error) {
	h.notify(Notification{Event: Failed, LeaseToken: token, Err: err})
}
