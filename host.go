package changefeed

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/internal/seeded"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// host holds the values of one run of a processor that its supervisor, cycles and workers
// share. The values do not change while the supervisor runs, so they are read without a
// lock.
type host struct {
	cfg   Config
	terms protocol.Terms
	seed  uint64
	// dialect is the dialect of the lease documents.
	dialect lease.Dialect
	// container is the rid of the monitored container, and accountHost the host of its
	// account as lease ids have it.
	container, accountHost string
	// owner identifies this run as the owner of leases.
	owner string
	// store is what the host calls, and opened the store underneath, as the lease container
	// opened it.
	store, opened lease.Store
	// metrics is nil if the user has not set Config.Metrics.
	metrics *metrics
	// traces is nil if the user has not set Config.Traces.
	traces  *traces
	health  *health
	costs   leaseCosts
	journal *journal
	// keyReader finds the keys of changes. It is nil if all changes of a lease are handled in
	// order.
	keyReader *keyReader
	// letters holds the letters of the processor. It is nil without Config.Failure.Letters.
	letters letters.Store
	// lettersRID is the rid of the container for letters, if its engine tells it.
	lettersRID string
	breaker    *breaker
	// origin is the time at which the host's monotonic clock is zero.
	origin time.Time
}

func newHost(cfg Config) *host {
	seed := cfg.seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	return &host{
		cfg:     cfg,
		terms:   cfg.terms(),
		seed:    seed,
		dialect: cfg.Leases.Dialect(),
		owner:   protocol.NewOwner(cfg.Instance, uint32(seeded.Mix(seeded.Hash(seed, "owner")))),
		origin:  time.Now(),
		journal: newJournal(),
		breaker: newBreaker(cfg.Failure.Breaker),
	}
}

// clock returns the present readings of the monotonic clock and the wall clock.
func (h *host) clock() protocol.Reading {
	if h.cfg.now != nil {
		mono, wall := h.cfg.now()
		return protocol.Reading{Mono: mono, Wall: wall}
	}
	now := time.Now()
	return protocol.Reading{Mono: now.Sub(h.origin), Wall: now.Round(0)}
}

// requestContext returns a context for one request to the source or the lease store. It ends
// after Config.RequestTimeout.
func (h *host) requestContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, h.cfg.RequestTimeout)
}

// log returns the logger for messages about a lease. token may be empty.
func (h *host) log(token string) *slog.Logger {
	log := h.cfg.Logger.With("processor", h.cfg.Processor, "instance", h.owner)
	if token != "" {
		log = log.With("lease", token)
	}
	return log
}

// notify writes a notification to the log and the metrics, and passes it to
// Config.Notify.
func (h *host) notify(n Notification) {
	log := h.log(n.LeaseToken)
	if user, ok := errors.AsType[*HandlerError](n.Err); ok && user.Stack != nil {
		log = log.With("stack", string(user.Stack))
	}
	switch n.Event {
	case Acquired:
		write := n.takeover.log(log).Info
		if h.journal.outages[atLeases].Regained(n.LeaseToken) {
			write = n.takeover.log(log).Debug
		}
		write("lease acquired")
	case Released:
		switch n.Reason {
		case Abandoned:
			log.Warn("lease not released; it expires", "reason", n.Reason.String(), "error", n.Err)
		case Lost:
			write := log.Info
			if h.journal.outages[atLeases].Lost(h.log(""), h.clock().Mono, n.LeaseToken) {
				write = log.Debug
			}
			write("lease lost", "reason", n.Reason.String())
		case Gone:
			log.Info("lease deleted", "reason", n.Reason.String())
		case Shutdown, HandedOver, Shadowed:
			log.Info("lease released", "reason", n.Reason.String())
		}
	case Failed:
		if n.Attempt > 0 {
			log = log.With("attempt", n.Attempt)
		}
		if n.Delay > 0 {
			log = log.With("delay", n.Delay.Round(time.Millisecond))
		}
		if n.final {
			h.journal.report(log, h.clock().Mono, "problem found", n.Err)
		} else {
			h.journal.failed(log, h.clock().Mono, n.LeaseToken, n.Err)
		}
		var long interface{ Details() string }
		if errors.As(n.Err, &long) {
			log.Debug("details of the error", "details", long.Details())
		}
	case Stopped:
		log.Warn("lease is stopped; `changefeed leases resume` makes it go on", "error", n.Err)
	case Resumed:
		log.Info("lease is resumed")
	case Paused:
		log.Warn("the handler fails with everything, so no letters are written until it succeeds", "error", n.Err)
	case Unpaused:
		log.Info("the handler succeeds again, so letters are written")
	case GivenUp:
		log.Warn("change given up; its letter is written", "attempts", n.Attempt, "error", n.Err)
	}
	h.metrics.notified(n)
	if h.cfg.Notify == nil {
		return
	}
	failure, failed := errors.AsType[*HandlerError](callUser("notify", nil, func() error { h.cfg.Notify(n); return nil }))
	if failed { // nobody can be notified of it
		h.log(n.LeaseToken).Warn("notification function failed", "error", failure.Err, "stack", string(failure.Stack))
	}
}

// worked records that a request to p succeeded. token names its lease, or is empty.
func (h *host) worked(p party, token string) {
	if o := &h.journal.outages[p]; o.Lasts() {
		o.Worked(h.log(""), h.clock().Mono, token)
	}
}

// report notifies the user of a problem that the host does not retry, because somebody
// else must act, or because it was the last call of an observer. token names the lease that
// it concerns, or is empty.
func (h *host) report(token string, err error) {
	h.notify(Notification{Event: Failed, LeaseToken: token, Err: err, final: true})
}

// fail notifies the user of an error of an operation that is retried. token names the
// lease that the error concerns, or is empty.
func (h *host) fail(token string, err error) {
	h.notify(Notification{Event: Failed, LeaseToken: token, Err: err})
}
