package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// health records for [Processor.Healthy] which operations of a processor fail. For each
// kind of operation it keeps the start of the first attempt since the last success. So a
// call that never returns counts like a failure. Times are readings of the host's
// monotonic clock.
type health struct {
	// listed is the start of the last listing that succeeded. Before the first one it is
	// the start of Run.
	listed atomic.Int64
	// writing is pending while lease writes fail: from the start of the first write that
	// was not answered until the store answers one. A conflict is an answer, too. refused
	// is the end of the last write that failed. When it is two expirations ago, Healthy
	// ignores writing. So a host that has nothing to write becomes healthy again.
	writing pending
	refused atomic.Int64
	// found reports whether a listing has succeeded. complete reports whether the first
	// leases existed, by the last listing or the last write of the marker.
	found, complete atomic.Bool

	mu sync.Mutex // guards the fields below; held for lookups only
	// host is the running host. It is nil until Run has opened the leases.
	host  *host
	ended bool
	// workers holds the workers that run at present.
	workers map[*worker]bool
}

// pending records the start of the first attempt at an operation that has not succeeded
// yet. The zero value means that there is no such operation. It is safe for concurrent
// use.
type pending struct {
	since atomic.Int64 // the monotonic time of the first attempt plus 1, or 0 if there is none
}

// begin records that an attempt starts at now. It has no effect if an earlier attempt has
// not succeeded yet.
func (p *pending) begin(now time.Duration) { p.since.CompareAndSwap(0, int64(now)+1) }

// end records that the operation succeeded or was given up.
func (p *pending) end() { p.since.Store(0) }

// lasts returns the time since the first attempt, or 0 if no operation is pending.
func (p *pending) lasts(now time.Duration) time.Duration {
	since := p.since.Load()
	if since == 0 {
		return 0
	}
	return now - time.Duration(since-1)
}

func newHealth() *health { return &health{workers: map[*worker]bool{}} }

// began records the host that Run has started.
func (h *health) began(run *host) {
	h.listed.Store(int64(run.clock().Mono))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.host = run
}

func (h *health) over() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
}

func (h *health) add(w *worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.workers[w] = true
}

func (h *health) remove(w *worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.workers, w)
}

// watchedStore is a lease.Store that records in health which of its calls succeed.
type watchedStore struct {
	lease.Store
	h *host
}

// List implements [lease.Store].
func (s watchedStore) List(ctx context.Context) (lease.Listing, error) {
	began := s.h.clock().Mono
	listing, err := s.Store.List(ctx)
	if err == nil {
		s.h.health.listed.Store(int64(began))
		s.h.health.found.Store(true)
		s.h.health.complete.Store(!listing.Initialized.IsZero())
		s.h.worked(atLeases, "")
	}
	return listing, err
}

// Create implements [lease.Store].
func (s watchedStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	s.begin()
	answer, err := s.Store.Create(ctx, l)
	return answer, s.answered(l.Token, err)
}

// Update implements [lease.Store].
func (s watchedStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	s.begin()
	answer, err := s.Store.Update(ctx, l)
	return answer, s.answered(l.Token, err)
}

// Delete implements [lease.Store].
func (s watchedStore) Delete(ctx context.Context, l lease.Lease) error {
	s.begin()
	return s.answered(l.Token, s.Store.Delete(ctx, l))
}

// SetInitialized implements [lease.Store].
func (s watchedStore) SetInitialized(ctx context.Context, initialised bool) error {
	s.begin()
	err := s.Store.SetInitialized(ctx, initialised)
	if err == nil {
		s.h.health.complete.Store(initialised)
	}
	return s.answered("", err)
}

func (s watchedStore) begin() { s.h.health.writing.begin(s.h.clock().Mono) }

// answered records the result err of a write of a lease and returns err. A conflict and "not found"
// count as success, because the store has answered.
func (s watchedStore) answered(token string, err error) error {
	_, conflict := errors.AsType[*lease.ConflictError](err)
	if err == nil || conflict || errors.Is(err, feed.ErrNotFound) {
		s.h.health.writing.end()
		s.h.worked(atLeases, token)
	} else {
		s.h.health.refused.Store(int64(s.h.clock().Mono))
	}
	return err
}

// errEnded is the error of [Processor.Healthy] once Run has returned.
var errEnded = errors.New("changefeed: not healthy: Run has returned")

// alive returns an error once Run has returned. Nothing else is cured by a restart.
func (p *Processor) alive() error {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	if p.health.ended {
		return errEnded
	}
	return nil
}

// ready returns an error unless the processor is healthy and its leases exist.
func (p *Processor) ready() error {
	if err := p.Healthy(); err != nil {
		return err
	}
	if !p.health.complete.Load() {
		return errors.New("changefeed: not ready: the leases have not been found or created yet")
	}
	return nil
}

// Healthy returns nil if the processor works as it should. Since it does no I/O and is safe for
// concurrent use, a health probe may call it ([HealthHandler] is one).
//
// The error names each of these that is true:
//   - Run was not called, or has returned.
//   - No listing of the leases has succeeded for two expirations ([Config.ExpirationInterval]).
//   - All lease writes (acquire, renew, checkpoint, release) have failed for two expirations.
//   - All reads of a lease's feed have failed or not returned for two expirations and
//     the poll interval.
//   - So many letters were written that no more are ([Failure.Breaker]).
//   - A lease's partition is gone, and its children's leases could not be created for two
//     expirations.
//
// So a processor has two expirations to find its leases after its start, and a host
// without leases can be healthy. Failures that a retry has overcome are not reported
// here, but by [Config.Notify] and the metrics.
//
// Nor are handlers' failures, because a restart would deliver the same batch again.
// Watch their errors and their lag (package estimator) instead.
func (p *Processor) Healthy() error {
	h := p.health
	h.mu.Lock()
	host, ended := h.host, h.ended
	workers := make([]*worker, 0, len(h.workers))
	for w := range h.workers {
		workers = append(workers, w)
	}
	h.mu.Unlock()
	switch {
	case ended:
		return errEnded
	case host == nil:
		return errors.New("changefeed: not healthy: Run was not called")
	}
	now := host.clock().Mono
	limit := 2 * host.terms.Expiration
	var problems []string
	late := func(lasts, limit time.Duration, problem string) {
		if lasts > limit {
			problems = append(problems, fmt.Sprintf("%s for %s", problem, lasts.Round(time.Second)))
		}
	}
	late(now-time.Duration(h.listed.Load()), limit, "the leases could not be listed")
	if refused := time.Duration(h.refused.Load()); now-refused <= limit {
		late(h.writing.lasts(refused), limit, "lease writes have failed")
	}
	late(host.breaker.lasts(now), 0, host.breaker.problem())
	fixed := len(problems)
	for _, w := range workers {
		late(w.reading.lasts(now), limit+host.cfg.PollInterval, "lease "+w.token+" could not be read")
		late(w.splitting.lasts(now), limit, "no leases took over from "+w.token+", whose partition is gone,")
	}
	slices.Sort(problems[fixed:])
	if len(problems) == 0 {
		return nil
	}
	return errors.New("changefeed: not healthy: " + strings.Join(problems, "; "))
}
