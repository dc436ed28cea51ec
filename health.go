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

// health is what a processor knows of whether it gets on, for [Processor.Healthy].
// Times are of the host's monotonic clock.
//
// It looks at what has begun and was not answered with success since, so a call that
// never returns counts like one that fails.
type health struct {
	// listed is when the last listing that succeeded began, or Run.
	listed atomic.Int64
	// writing is when the first lease write began since the last one that the
	// store answered, be it with a conflict; refused, when the last one that failed
	// was over. A host that has nothing to write isn't ill by an old failure.
	writing pending
	refused atomic.Int64

	mu sync.Mutex // guards what follows; held for lookups only
	// host is the run's; nil: Run was not called, or has not begun to work.
	host  *host
	ended bool
	// workers are those at work.
	workers map[*worker]bool
}

// pending is when something began that was tried since, and not done. Its zero value
// is that there is no such thing. It may be read by anybody.
type pending struct {
	since atomic.Int64 // a moment of the monotonic clock, and 1
}

// begin says that it begins, or is tried again.
func (p *pending) begin(now time.Duration) { p.since.CompareAndSwap(0, int64(now)+1) }

// end says that it is done, or given up.
func (p *pending) end() { p.since.Store(0) }

// lasts is for how long it has been going on.
func (p *pending) lasts(now time.Duration) time.Duration {
	since := p.since.Load()
	if since == 0 {
		return 0
	}
	return now - time.Duration(since-1)
}

func newHealth() *health { return &health{workers: map[*worker]bool{}} }

// began says that Run works; ended that it is over.
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

// watchedStore tells health how its calls are answered.
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
	}
	return listing, err
}

// Create implements [lease.Store].
func (s watchedStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	s.begin()
	answer, err := s.create(ctx, l)
	return answer, s.answered(err)
}

// Update implements [lease.Store].
func (s watchedStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	s.begin()
	answer, err := s.Store.Update(ctx, l)
	return answer, s.answered(err)
}

// Delete implements [lease.Store].
func (s watchedStore) Delete(ctx context.Context, l lease.Lease) error {
	s.begin()
	return s.answered(s.Store.Delete(ctx, l))
}

// Mark implements [lease.Store].
func (s watchedStore) Mark(ctx context.Context, initialised bool) error {
	s.begin()
	return s.answered(s.Store.Mark(ctx, initialised))
}

func (s watchedStore) begin() { s.h.health.writing.begin(s.h.clock().Mono) }

// answered takes a write's error: a store that answers with a conflict, or that there
// is no such document, works.
func (s watchedStore) answered(err error) error {
	_, conflict := errors.AsType[*lease.ConflictError](err)
	if err == nil || conflict || errors.Is(err, feed.ErrNotFound) {
		s.h.health.writing.end()
	} else {
		s.h.health.refused.Store(int64(s.h.clock().Mono))
	}
	return err
}

// Healthy tells whether the processor gets on with its work, for a health probe. It
// asks nobody, so it may be called as often as wanted, from any goroutine.
//
// It returns nil while Run works and none of the following is the case, else an error
// that says which:
//   - Run was not called yet, or has returned.
//   - The leases were not listed for two expirations ([Config.ExpirationInterval]).
//   - Lease writes (acquire, renew, checkpoint, release) have only failed for two expirations.
//   - Reads of a lease's feed have failed, or not returned, for two expirations and
//     the poll interval.
//   - The partition of a lease is gone, and it was tried for two expirations to make
//     the leases that take over from it.
//
// So a start has two expirations to find its leases, and a host without leases is as
// healthy as one with many: both may be left alone. What was tried again with success
// in the meantime doesn't show at all; [Config.Notify] and the metrics tell of it.
//
// It says nothing of handlers. One that fails or hangs is the user's own to judge, by
// its errors and by its lag (package estimator): a restart brings the same batch again.
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
		return errors.New("changefeed: not healthy: Run has returned")
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
