package changefeed

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Processor reads a monitored container's change feed together with the other
// hosts of its name. It is made by [New] and of single use.
type Processor struct {
	cfg     Config
	metrics *metrics
	health  *health
	used    atomic.Bool
}

// New checks cfg and returns a processor; it does no I/O. Its error is a
// [*ConfigError].
func New(cfg Config) (*Processor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics, cfg.Processor)
	if err != nil {
		return nil, &ConfigError{"Metrics", err.Error()}
	}
	return &Processor{cfg: cfg, metrics: m, health: newHealth()}, nil
}

// Run works until ctx ends. It may be called once; a second call returns
// [ErrUsed].
//
// When ctx ends, from wherever (a handler may end it), no new batch is handed
// out; handlers may finish within [Config.DrainTimeout]; then their context ends.
// Each lease is released with its position. Run returns nil when every handler
// had returned, else, one request timeout later, a [*StillRunningError] that names
// the leases whose handlers still run; those leases are left to expire.
//
// Before that Run returns only when it can't begin: the monitored or the lease
// container doesn't exist ([feed.ErrNotFound]), one of them refuses the
// configuration, its key for instance ([feed.ErrMisconfigured]), the leases are of
// another kind ([*lease.DialectError]), new leases can't start where [Config.Start]
// says ([feed.ErrUnsupported]), or the configuration doesn't fit what is stored
// ([*ConfigError]). Run has begun when it has listed the leases, created those that
// are missing, and acquired its first share. From then on, and whatever else goes
// wrong before, an error is notified and the work that failed is retried.
func (p *Processor) Run(ctx context.Context) error {
	if p.used.Swap(true) {
		return ErrUsed
	}
	h := newHost(p.cfg)
	h.metrics, h.health = p.metrics, p.health
	p.health.began(h)
	defer p.health.over()
	if err := h.open(ctx); err != nil {
		return unlessOver(ctx, err)
	}
	if err := h.checkStart(ctx); err != nil {
		return unlessOver(ctx, err)
	}
	if p.cfg.DiscardLeases {
		if err := h.discard(ctx); err != nil {
			return unlessOver(ctx, err)
		}
	}
	return newSupervisor(h).run(ctx)
}

// unlessOver returns err, or nil when it came from the end of ctx.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// open finds out who the monitored container is, and opens its leases.
func (h *host) open(ctx context.Context) error {
	var identity feed.Identity
	err := retry(ctx, backoff{jitter: newJitter(h.seed, "identity")}, func() (err error) {
		ctx, cancel := h.request(ctx)
		defer cancel()
		identity, err = h.cfg.Source.Identity(ctx)
		return err
	}, hopeless, func(err error) { h.fail("", &SourceError{Op: "identify the monitored container", Err: err}) })
	if err != nil {
		return &SourceError{Op: "identify the monitored container", Err: err}
	}
	h.container = identity.ContainerRID
	key := lease.Key{Processor: h.cfg.Processor, Identity: identity, Mode: h.cfg.Mode, Start: h.cfg.Start}
	err = retry(ctx, backoff{jitter: newJitter(h.seed, "open")}, func() error { return h.openLeases(ctx, key) }, hopeless,
		func(err error) { h.fail("", &LeaseStoreError{Op: "open the lease container", Err: err}) })
	if _, same := errors.AsType[*ConfigError](err); same || err == nil {
		return err
	}
	return &LeaseStoreError{Op: "open the lease container", Err: err}
}

// openLeases opens the lease container. It refuses the monitored container, where each write of a lease would be a
// change to deliver, whose checkpoint is a write of the lease: a loop that never ends.
func (h *host) openLeases(ctx context.Context, key lease.Key) error {
	ctx, cancel := h.request(ctx)
	defer cancel()
	store, err := h.cfg.Leases.Open(ctx, key)
	if err != nil {
		return err
	}
	if same, err := feed.SameContainer(ctx, h.cfg.Source, store); err != nil {
		return err
	} else if same {
		return &ConfigError{"Leases", fmt.Sprintf("is the monitored container, %s of database %s: each lease write would be a change of its feed; "+
			"use another container for the leases", key.Identity.Container, key.Identity.Database)}
	}
	h.store = watchedStore{store, h}
	h.costs = newLeaseCosts(h.metrics, store)
	return nil
}

// checkStart asks the source whether it can start where new leases do. Where the leases
// have been made before, they have positions of their own, and the start doesn't matter.
func (h *host) checkStart(ctx context.Context) error {
	err := retry(ctx, backoff{jitter: newJitter(h.seed, "start")}, func() error {
		ctx, cancel := h.request(ctx)
		defer cancel()
		err := h.cfg.Source.CheckStart(ctx, h.cfg.Start, h.cfg.Mode)
		if err == nil || !errors.Is(err, feed.ErrUnsupported) || h.cfg.DiscardLeases {
			return err
		}
		if listing, failed := h.store.List(ctx); failed != nil {
			return &LeaseStoreError{Op: "list the leases", Err: failed}
		} else if !listing.Initialized.IsZero() {
			return nil
		}
		return err
	}, hopeless, func(err error) { h.fail("", err) })
	if err != nil {
		return &SourceError{Op: "start at " + h.cfg.Start.String(), Err: err}
	}
	return nil
}

// hopeless tells the errors after which a start is not tried again.
func hopeless(err error) bool {
	_, strange := errors.AsType[*lease.DialectError](err)
	_, misfit := errors.AsType[*ConfigError](err)
	return strange || misfit || errors.Is(err, feed.ErrNotFound) || errors.Is(err, feed.ErrUnsupported) ||
		errors.Is(err, feed.ErrMisconfigured)
}
