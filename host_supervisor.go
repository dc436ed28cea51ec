package changefeed

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/lease"
)

// supervisor runs a host. It starts a balance cycle every acquire interval, quick cycles
// between them while leases move, and a worker for each acquired lease. Its goroutine
// alone starts and stops workers and owns all of its state. It does no I/O. Cycles and
// workers run on goroutines of their own, and send their results to its inbox.
//
// A lease that a cycle acquires gets a worker even if Run is already ending. That worker
// releases it at once. While a lease has a worker, it is not acquired again, so a handler
// never runs twice for one lease.
type supervisor struct {
	*host
	workers map[string]*worker // by lease ID
	inbox   chan func()

	// cycling reports whether a cycle is running.
	cycling bool
	memory  balance.Memory
	pace    balance.Pace
	starts  *starts
	// listed reports whether a cycle has succeeded.
	listed bool
	// regularAt and quickAt are the times of the next cycles. A quick cycle is never
	// later than the next regular one.
	regularAt, quickAt time.Duration
	failure            backoff
	jitter             jitter

	// again requests a cycle at once.
	again bool

	// group waits for the cycle and the workers.
	group sync.WaitGroup
	// stillRunning holds the leases whose handlers did not return in time.
	stillRunning []string
	// fatal ends the run.
	fatal error
}

const never = time.Duration(math.MaxInt64)

func newSupervisor(h *host) *supervisor {
	return &supervisor{
		host:    h,
		workers: map[string]*worker{},
		inbox:   make(chan func()),
		starts:  &starts{plain: h.cfg.Start.Kind() != feed.StartNow},
		quickAt: never,
		failure: backoff{
			jitter: newJitter(h.seed, "list"), yields: true,
			first: min(backoffFirst, h.cfg.AcquireInterval/4), most: h.cfg.AcquireInterval,
		},
		jitter: newJitter(h.seed, "cycle"),
	}
}

// run supervises until ctx has ended and every worker has finished.
func (s *supervisor) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(never)
	defer timer.Stop()
	stopped := ctx.Done()
	for {
		if s.fatal != nil {
			cancel()
		}
		if due := s.step(ctx); due != never {
			timer.Reset(due)
		}
		if ctx.Err() != nil && !s.cycling && len(s.workers) == 0 {
			break
		}
		select {
		case answer := <-s.inbox:
			answer()
		case <-timer.C:
		case <-stopped:
			stopped = nil
		}
	}
	s.group.Wait()
	s.costs.count()
	if len(s.stillRunning) > 0 {
		slices.Sort(s.stillRunning)
		return &StillRunningError{LeaseTokens: s.stillRunning, Err: s.fatal}
	}
	return s.fatal
}

// step starts a cycle when one is due, and returns the time until the next.
func (s *supervisor) step(ctx context.Context) time.Duration {
	if s.cycling || ctx.Err() != nil {
		return never
	}
	now := s.clock().Mono
	if due := min(s.regularAt, s.quickAt); now < due && !s.again {
		return due - now
	}
	c := &cycle{
		host: s.host, ctx: ctx, base: context.WithoutCancel(ctx),
		regular: now >= s.regularAt, memory: s.memory, running: map[string]bool{},
		starts: s.starts, first: !s.listed,
		acquired: func(a acquisition) {
			s.inbox <- func() { s.start(ctx, a) }
		},
	}
	for id := range s.workers {
		c.running[id] = true
	}
	if c.regular {
		const spread = 0.1
		s.regularAt = now + s.jitter.spread(s.cfg.AcquireInterval, spread)
	}
	s.quickAt, s.again, s.cycling = never, false, true
	s.group.Go(func() { //nolint:contextcheck // a cycle carries Run's context, for reads, and one that never ends, for writes
		out := c.run()
		s.inbox <- func() { s.cycled(out) }
	})
	return never
}

// cycled takes the result of a cycle and schedules the next one.
func (s *supervisor) cycled(out cycleResult) {
	s.cycling = false
	s.costs.count()
	s.memory, s.fatal = out.memory, out.fatal
	for _, id := range out.shadowed {
		if w := s.workers[id]; w != nil {
			select {
			case w.shadowed <- struct{}{}:
			default: // already signalled
			}
		}
	}
	now := s.clock().Mono
	if out.err != nil {
		retry := now + s.failure.after(out.err)
		if out.Regular && !out.listed {
			s.regularAt = min(s.regularAt, retry)
		} else {
			s.quickAt = retry
		}
		return
	}
	s.listed = true
	s.failure.done()
	pace, pause, quick := s.pace.After(out.Cycle)
	if s.pace = pace; quick {
		const spread = 0.1
		s.quickAt = now + s.jitter.spread(s.scaled(pause), spread)
	}
}

// scaled returns the delay before a quick cycle. The delay is defined for the default
// acquire interval and shrinks with a shorter one.
func (s *supervisor) scaled(pause time.Duration) time.Duration {
	if s.cfg.AcquireInterval >= defaultAcquire {
		return pause
	}
	return time.Duration(float64(pause) * float64(s.cfg.AcquireInterval) / float64(defaultAcquire))
}

// start starts a worker for an acquired lease.
func (s *supervisor) start(ctx context.Context, a acquisition) {
	w, l := newWorker(ctx, s.host, a), a.lease
	s.workers[l.ID] = w
	s.group.Go(func() { //nolint:contextcheck // Run's context stops a worker; its writes outlive that context
		r := w.run()
		s.inbox <- func() { s.ended(l, r) }
	})
}

// ended takes a worker's result.
func (s *supervisor) ended(l lease.Lease, r result) {
	delete(s.workers, l.ID)
	if r.stillRunning {
		s.stillRunning = append(s.stillRunning, l.Token)
	}
	// The leases of children are acquired through a listing, like any lease. A cycle at
	// once saves them the wait.
	s.again = s.again || r.children > 0
}
