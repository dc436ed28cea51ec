package changefeed

import (
	"context"
	"errors"
	"maps"
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

	// cycling reports whether a balance cycle is running.
	cycling bool
	memory  balance.Memory
	pace    balance.Pace
	starts  *starts
	shadows *shadows
	// listed reports whether a cycle has succeeded. Before that, an error that waiting
	// cannot heal ends Run.
	listed bool
	// regularAt is the time of the next regular cycle and quickAt that of the next quick
	// one, by the host's monotonic clock. A quick cycle is never later than the next
	// regular one.
	regularAt, quickAt time.Duration
	failure            backoff
	jitter             jitter

	// again makes the supervisor start the next cycle at once.
	again bool

	// group waits for the cycle and the workers.
	group sync.WaitGroup
	// stillRunning holds the tokens of the leases whose handlers did not return in time.
	stillRunning []string
	// fatal is the error that must end the run, or nil. failed is the error of the last cycle
	// that failed, if possible not one that the end of the run has caused.
	fatal, failed error
}

// never is a time that no clock reaches.
const never = time.Duration(math.MaxInt64)

func newSupervisor(h *host) *supervisor {
	return &supervisor{
		host:    h,
		workers: map[string]*worker{},
		inbox:   make(chan func()),
		shadows: &shadows{},
		starts:  &starts{plain: h.cfg.Start.Kind() != feed.StartNow},
		quickAt: never,
		failure: backoff{
			jitter: newJitter(h.seed, "list"), yields: true,
			first: min(backoffFirst, h.cfg.AcquireInterval/4), most: h.cfg.AcquireInterval,
		},
		jitter: newJitter(h.seed, "cycle"),
	}
}

// run starts cycles and workers until ctx has ended and every worker has finished.
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
	if s.fatal == nil {
		return s.stopped(s.failed)
	}
	return s.fatal
}

// step starts a cycle if one is due. It returns the time until the next one.
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
		regular: now >= s.regularAt, memory: s.memory, workers: maps.Clone(s.workers),
		starts: s.starts, shadows: s.shadows, first: !s.listed,
		acquired: func(a acquisition) {
			s.inbox <- func() { s.start(ctx, a) }
		},
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

// cycled handles the result of a cycle and schedules the next cycle.
func (s *supervisor) cycled(out cycleResult) {
	s.cycling = false
	s.costs.count()
	s.memory, s.fatal = out.memory, out.fatal
	for _, id := range out.shadowed {
		if w := s.workers[id]; w != nil {
			select {
			case w.shadowed <- struct{}{}:
			default: // the worker was signalled before
			}
		}
	}
	now := s.clock().Mono
	if out.err != nil {
		if s.failed == nil || !errors.Is(out.err, context.Canceled) {
			s.failed = out.err
		}
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

// scaled returns the delay before a quick cycle. pause is the delay for the default
// acquire interval; scaled shortens it in proportion to a shorter interval.
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

// ended handles the result of the worker of lease l.
func (s *supervisor) ended(l lease.Lease, r result) {
	delete(s.workers, l.ID)
	if r.stillRunning {
		s.stillRunning = append(s.stillRunning, l.Token)
	}
	// New children are acquired by a cycle, like any lease. Start one at once, so that
	// they do not wait.
	s.again = s.again || r.children > 0
}
