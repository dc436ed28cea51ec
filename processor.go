package changefeed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Processor is one host of a change feed processor, and shares the monitored container's
// leases with the other hosts that have its name. Create it with [New] and call [Processor.Run]
// once.
type Processor struct {
	cfg     Config
	metrics *metrics
	health  *health
	used    atomic.Bool
}

// New returns a processor for cfg, without any I/O. Its error is a [*ConfigError].
func New(cfg Config) (*Processor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Concurrency = cmp.Or(cfg.concurrency, cfg.Concurrency)
	m, err := newMetrics(cfg.Metrics, cfg.Processor)
	if err != nil {
		return nil, &ConfigError{"Metrics", err.Error()}
	}
	return &Processor{cfg: cfg, metrics: m, health: newHealth()}, nil
}

// Run processes changes until ctx ends. A second call returns [ErrUsed].
//
// When ctx ends (a handler may end it, too), no new batch is delivered. Running handlers
// may finish within [Config.DrainTimeout]; then their context ends. Each lease is
// released with its position, and Run returns nil if every handler has returned.
// Otherwise it waits one request timeout longer and returns a [*StillRunningError] that
// names the leases whose handlers still run, and that therefore expire. If ctx ends
// before Run has listed the leases once, Run returns an error with the last failure.
//
// Run also returns if it cannot start because of an error that waiting does not heal:
//   - The monitored container or the lease container does not exist ([feed.ErrNotFound]).
//   - A container refuses the configuration, for instance the key ([feed.ErrMisconfigured]).
//   - The leases have another dialect ([*lease.DialectError]).
//   - New leases cannot start at [Config.Start] ([feed.ErrUnsupported]).
//   - The configuration contradicts the stored leases ([*ConfigError]).
//
// The start ends when Run has listed the leases, created the missing ones, and acquired
// its first share. Any other error, and every error after the start, is notified and the
// operation retried.
func (p *Processor) Run(ctx context.Context) error {
	if p.used.Swap(true) {
		return ErrUsed
	}
	h := newHost(p.cfg)
	h.metrics, h.health = p.metrics, p.health
	p.health.began(h)
	defer p.health.over()
	if err := h.begin(ctx); err != nil {
		if ctx.Err() != nil {
			return h.stopped(err)
		}
		return err
	}
	return newSupervisor(h).run(ctx)
}

// begin takes the steps before the first balance cycle.
func (h *host) begin(ctx context.Context) error {
	if err := h.open(ctx); err != nil {
		return err
	}
	h.checkHosts(ctx)
	if err := h.checkStart(ctx); err != nil {
		return err
	}
	if h.cfg.DiscardLeases {
		return h.discard(ctx)
	}
	return nil
}

// stopped returns the result of a run that the end of its context has ended. That is nil if
// the leases were listed at least once. Otherwise it is an error with the cause last, because
// a program that never reached its leases would look as if it had worked. If nothing had
// failed, the end of the context is the cause.
func (h *host) stopped(last error) error {
	switch {
	case h.health.found.Load():
		return nil
	case last == nil:
		return fmt.Errorf("changefeed: Run was stopped before it had listed the leases once: %w", context.Canceled)
	}
	return fmt.Errorf("changefeed: Run was stopped before it had listed the leases once; the last error was: %w", last)
}

// open binds the host to its containers.
func (h *host) open(ctx context.Context) error {
	return retry(ctx, backoff{jitter: newJitter(h.seed, "open")}, func() error {
		store, identity, err := protocol.Open(ctx, h.cfg.Source, h.cfg.Leases,
			lease.Key{Processor: h.cfg.Processor, Mode: h.cfg.Mode, Start: h.cfg.Start}, h.cfg.RequestTimeout)
		if err != nil {
			return openingError(err)
		}
		h.container, h.accountHost = identity.ContainerRID, identity.AccountHost
		h.traces = newTraces(h.cfg, identity, h.owner)
		if h.cfg.keyed() {
			if h.keyReader, err = newKeyReader(identity.KeyPaths, h.cfg); err != nil {
				return err
			}
		}
		if err := h.openLetters(ctx, identity, store); err != nil {
			return err
		}
		h.opened, h.costs = store, newLeaseCosts(h.metrics, store)
		if h.dialect == lease.JavaHandleChanges {
			store = upgradableStore{store}
		}
		h.store = watchedStore{store, h}
		return nil
	}, hopeless, func(err error) { h.fail("", err) })
}

// openingError returns an error of protocol.Open as the error of the party that has failed.
func openingError(err error) error {
	if refused, ok := errors.AsType[*protocol.ContainersError](err); ok {
		return &ConfigError{"Leases", refused.Problem}
	}
	failed, ok := errors.AsType[*protocol.OpenError](err)
	switch {
	case !ok:
		return err
	case failed.AtSource:
		return &SourceError{Op: failed.Op, Err: failed.Err}
	}
	return &LeaseStoreError{Op: failed.Op, Err: failed.Err}
}

// checkHosts warns if the lease container has leases of this processor and container under
// another account host. Lease ids contain the host of the endpoint, so hosts at localhost and
// at 127.0.0.1 are two groups, each of which delivers everything.
func (h *host) checkHosts(ctx context.Context) {
	store, ok := h.opened.(interface {
		OtherHosts(ctx context.Context) ([]string, error)
	})
	if !ok {
		return
	}
	limited, cancel := h.requestContext(ctx)
	defer cancel()
	others, err := store.OtherHosts(limited)
	if err != nil {
		if ctx.Err() == nil {
			h.report("", &LeaseStoreError{Op: "look for leases under other account hosts", Err: err})
		}
		return
	}
	for _, other := range others {
		h.cfg.Logger.Warn("leases of this processor exist under another account host; hosts that use that endpoint deliver every change as well; "+
			"give all hosts the same endpoint, and delete the other leases", "processor", h.cfg.Processor, "instance", h.owner,
			"host", h.accountHost, "other", other)
	}
}

// checkStart asks the source whether new leases can start at Config.Start. If the leases
// exist, a refusal is ignored, because they have positions of their own.
func (h *host) checkStart(ctx context.Context) error {
	err := retry(ctx, backoff{jitter: newJitter(h.seed, "start")}, func() error {
		ctx, cancel := h.requestContext(ctx)
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

// hopeless reports whether a start that failed with err must not be retried.
func hopeless(err error) bool {
	_, otherDialect := errors.AsType[*lease.DialectError](err)
	_, misconfigured := errors.AsType[*ConfigError](err)
	return otherDialect || misconfigured || errors.Is(err, feed.ErrNotFound) || errors.Is(err, feed.ErrUnsupported) ||
		errors.Is(err, feed.ErrMisconfigured)
}
