package changefeed

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// waiting is a handler that returns when its context ends. ended receives the time of
// that.
type waiting struct {
	ctx   chan context.Context
	ended chan time.Time
}

func newWaiting() *waiting {
	return &waiting{ctx: make(chan context.Context, 1), ended: make(chan time.Time, 1)}
}

func (w *waiting) Handle(ctx context.Context, _ *Batch) error {
	w.ctx <- ctx
	<-ctx.Done()
	w.ended <- time.Now()
	return ctx.Err()
}

// Trust must count from the time at which the host sends a renewal. The store may stamp
// the document then. If trust counted from the answer, it would outlast the lease.
func TestTrustCountsFromTheStartOfTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, h := newFakeStore(), newWaiting()
		var sent time.Time
		leases.after = func(w fakeWrite) error {
			if w.op == "update" && !sent.IsZero() {
				return nil
			}
			if w.op == "update" && w.lease.ETag != "1" { // the first renewal
				sent = w.at
				time.Sleep(8 * time.Second)
				leases.setBefore(func(fakeWrite) error { return errors.New("503") })
			}
			return nil
		}
		idle(t, leases, Config{Source: onePartition(1), Handler: h, Start: fromBeginning})
		ended := <-h.ended
		if trust := ended.Sub(sent); trust < 53*time.Second || trust > 54*time.Second {
			t.Errorf("trusted for %s after the attempt that was answered late", trust)
		}
	})
}

func TestRenewalsAreCountedFromTheStartOfTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		idle(t, leases, Config{AcquireInterval: time.Hour})
		before := len(leases.sent())
		leases.setBefore(func(fakeWrite) error { time.Sleep(8 * time.Second); return nil })
		pause(10 * time.Minute)
		if n := len(leases.sent()) - before; n < 45 {
			t.Errorf("%d renewals in 10 minutes of slow answers", n)
		}
	})
}

// When the store receives a release, another host may begin. So the host must end its
// trust before it sends the release.
func TestTrustIsGivenUpBeforeTheReleaseIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		contexts := make(chan context.Context, 1)
		h := HandlerFunc(func(ctx context.Context, _ *Batch) error { contexts <- ctx; return nil })
		r, _ := idle(t, leases, Config{Source: onePartition(1), Handler: h, Start: fromBeginning})
		ctx, released := <-contexts, false
		leases.setBefore(func(w fakeWrite) error {
			if w.lease.Owner == "" {
				released = true
				if !errors.Is(context.Cause(ctx), lease.ErrLost) {
					t.Error("the lease is released, and the handler's context lives")
				}
			} else if ctx.Err() != nil {
				t.Error("the handler's context ended before the release")
			}
			return nil
		})
		if err := r.end(); err != nil || !released {
			t.Error(released, err)
		}
	})
}

// The user's Notify function blocks the worker. The handler's context must still end in
// time, so that the lease is not used after trust has ended.
func TestHandlersContextEndsInTimeThoughTheWorkerIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, h, block := newFakeStore(), newWaiting(), make(chan struct{})
		p, err := New(Config{
			Processor: "p", Source: onePartition(1), Leases: leases, Handler: h, Start: fromBeginning, seed: 1,
			Notify: func(n Notification) {
				if n.Event == Failed {
					<-block
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		pause(time.Second)
		leases.setBefore(func(fakeWrite) error { return errors.New("503") })
		began := time.Now()
		over := <-h.ended
		if took := over.Sub(began); took > 54*time.Second {
			t.Errorf("after %s", took)
		}
		close(block)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A lease with a short expiration must survive a short outage of the store. Several
// attempts to renew it must fit in before trust ends.
func TestShortOutageDoesNotCostALeaseOfShortExpiration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		_, said := idle(t, leases, Config{
			AcquireInterval: time.Second, RenewInterval: time.Second, RequestTimeout: time.Second, ExpirationInterval: 5 * time.Second,
		})
		for range 20 {
			leases.setBefore(func(fakeWrite) error { return errors.New("503") })
			pause(1700 * time.Millisecond)
			leases.setBefore(nil)
			pause(5 * time.Second)
		}
		if released := said.of(Released); len(released) != 0 {
			t.Errorf("%+v", released)
		}
	})
}

func TestAtMostTwoBatchesAreNotCoveredByTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, h := newFakeStore(), &collector{}
		leases.before = func(w fakeWrite) error {
			if w.lease.Continuation != "" {
				return &feed.ThrottledError{RetryAfter: 3 * time.Second}
			}
			return nil
		}
		idle(t, leases, Config{Source: onePartition(100), Handler: h, Start: fromBeginning, MaxItems: 10})
		pause(30 * time.Second)
		if n := len(h.got()); n != 20 {
			t.Errorf("%d changes handled while no checkpoint is possible", n)
		}
		leases.setBefore(nil)
		pause(10 * time.Second)
		if n := len(h.got()); n != 100 {
			t.Errorf("%d changes handled", n)
		}
	})
}

// A host stops while the outcome of its last checkpoint is unknown. It must determine the
// outcome before it releases the lease. Otherwise the store would refuse the release
// because of an old ETag.
func TestStopDeterminesTheOutcomeOfTheLastWriteBeforeItReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := newFakeSource("0"), newFakeStore(), &collector{}
		leases.after = func(w fakeWrite) error {
			if w.lease.Continuation == "1" {
				return errors.New("connection reset")
			}
			return nil
		}
		r, _ := idle(t, leases, Config{Source: source, Handler: h, PollInterval: 80 * time.Millisecond})
		source.write("0", 1)
		pause(200 * time.Millisecond)
		source.write("0", 1)
		pause(200 * time.Millisecond)
		if doc := leases.doc("0"); len(h.got()) != 2 || doc.Continuation != "1" {
			t.Fatalf("%v, %+v", h.got(), doc)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if doc := leases.doc("0"); doc.Owner != "" || doc.Continuation != "2" {
			t.Errorf("%+v", doc)
		}
	})
}

// An acquire or a renewal takes 8 s, and then the user's Notify function blocks the worker.
// The handler's context must end when trust ends, counted from the time at which that write
// was sent.
func TestHandlersContextIsTimedFromTheStartOfASlowAcquire(t *testing.T) {
	handlersContextAfterASlowUpdate(t, 1)
}

func TestHandlersContextIsTimedFromTheStartOfASlowRenewal(t *testing.T) {
	handlersContextAfterASlowUpdate(t, 2)
}

// handlersContextAfterASlowUpdate tests how long the handler's context lives if the update
// with the number slow is the last one that succeeds. The first one acquires the lease.
func handlersContextAfterASlowUpdate(t *testing.T, slow int32) {
	synctest.Test(t, func(t *testing.T) {
		leases, h, block := newFakeStore(), newWaiting(), make(chan struct{})
		sent := make(chan time.Time, 1)
		var updates atomic.Int32
		leases.after = func(w fakeWrite) error {
			if w.op == "update" && updates.Add(1) == slow {
				sent <- w.at
				leases.setBefore(func(fakeWrite) error { return errors.New("503") })
				time.Sleep(8 * time.Second)
			}
			return nil
		}
		p, err := New(Config{
			Processor: "p", Source: onePartition(1), Leases: leases, Handler: h, Start: fromBeginning, seed: 1,
			Notify: func(n Notification) {
				if n.Event == Failed {
					<-block
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		if trust := (<-h.ended).Sub(<-sent); trust < 53*time.Second || trust > 54*time.Second {
			t.Errorf("the handler's context lasted %s after update %d was sent", trust, slow)
		}
		close(block)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// countingObserver is an observer that counts the calls of its Open.
type countingObserver struct {
	Observer
	opened *atomic.Int32
}

func (o countingObserver) Open(context.Context, lease.Lease) error {
	o.opened.Add(1)
	return nil
}

// The user's code takes long to create an observer. Meanwhile the wall clock shows that the
// host was suspended, so its trust has ended. The host must not open the observer.
func TestObserverIsNotOpenedAfterTrustHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		var opened atomic.Int32
		created := make(chan struct{})
		cfg := Config{
			Source: onePartition(1), Leases: newFakeStore(), Start: fromBeginning,
			Observer: func(lease.Lease) (Observer, error) {
				<-created
				return countingObserver{plainObserver{&collector{}}, &opened}, nil
			},
		}
		origin := time.Now()
		cfg.now = func() (time.Duration, time.Time) {
			return time.Since(origin), time.Now().Add(time.Duration(ahead.Load()))
		}
		start(t, cfg)
		pause(time.Second) // the host has acquired the lease
		ahead.Store(int64(5 * time.Minute))
		close(created)
		synctest.Wait()
		if opened.Load() != 0 {
			t.Error("the observer was opened after trust had ended")
		}
		pause(2 * time.Minute) // the lease has expired, and the host acquires it again
		if n := opened.Load(); n != 1 {
			t.Errorf("after the host has acquired the lease again, the observer was opened %d times", n)
		}
	})
}

// A machine is suspended while a handler runs. Its monotonic clock and all timers stand
// still meanwhile, and only the wall clock shows that trust has ended. After the machine has
// resumed, the handler's context must end soon, because another host may own the lease. The
// worker has nothing to do until the next renewal, so it must look at the clocks by itself.
func TestHandlersContextEndsSoonAfterASuspendedMachineResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		h := newWaiting()
		cfg := Config{
			Source: onePartition(1), Leases: newFakeStore(), Start: fromBeginning, Handler: h,
			ReadAhead: -1, RenewInterval: 40 * time.Second,
		}
		origin := time.Now()
		cfg.now = func() (time.Duration, time.Time) {
			return time.Since(origin), time.Now().Add(time.Duration(ahead.Load()))
		}
		start(t, cfg)
		ctx := <-h.ctx
		pause(5 * time.Second)
		resumed := time.Now()
		ahead.Store(int64(5 * time.Minute))
		if late := (<-h.ended).Sub(resumed); late > time.Second {
			t.Errorf("the handler's context ended %s after the machine had resumed", late)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrLost) {
			t.Errorf("it ended with %v", cause)
		}
	})
}

// The answer to a renewal arrives just before trust ends, and the worker is not scheduled for
// a moment after it has read the clock. Meanwhile the timer of trust ends the handlers'
// context. If the renewal then prolonged the trust, the host would keep the lease and call
// the handler with the ended context without end.
func TestTrustThatEndsWhileTheWorkerHandlesARenewalIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(1), newFakeStore()
		var handled, dead atomic.Int32
		var said notes
		cfg := Config{
			Source: source, Leases: leases, Start: fromBeginning, Checkpoint: Checkpointing{Manual: true}, Notify: said.add,
			Handler: HandlerFunc(func(ctx context.Context, b *Batch) error {
				if ctx.Err() != nil {
					dead.Add(1)
					return context.Cause(ctx)
				}
				handled.Add(int32(len(b.Changes)))
				return nil
			}),
		}
		var late atomic.Bool // the next reading of the clock takes a millisecond
		origin := time.Now()
		cfg.now = func() (time.Duration, time.Time) {
			now := time.Now()
			if late.CompareAndSwap(true, false) {
				time.Sleep(time.Millisecond)
			}
			return now.Sub(origin), now
		}
		var updates atomic.Int32
		var acquired time.Time
		leases.before = func(w fakeWrite) error {
			if w.op != "update" {
				return nil
			}
			switch updates.Add(1) {
			case 1:
				acquired = w.at.Add(-time.Millisecond) // the fake store takes a millisecond
			case 2:
				time.Sleep(time.Until(acquired.Add(54*time.Second - 100*time.Microsecond)))
				late.Store(true)
			}
			return nil
		}
		start(t, cfg)
		pause(time.Minute)
		if lost := said.of(Released); len(lost) != 1 || lost[0].Reason != Lost {
			t.Errorf("after the context of the handlers has ended, these releases are notified: %+v", lost)
		}
		pause(2 * time.Minute) // the lease has expired, and the host acquires it again
		handled.Store(0)
		dead.Store(0)
		source.write("0", 1)
		pause(time.Minute)
		if handled.Load() != 1 || dead.Load() != 0 {
			t.Errorf("a later change: %d handled, %d calls with an ended context", handled.Load(), dead.Load())
		}
	})
}
