package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

func TestChangesAreDeliveredCheckpointedAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(250), newFakeStore(), &collector{}
		r := start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning})
		pause(time.Second)
		source.write("0", 7)
		pause(10 * time.Second)
		if got := h.got(); !slices.Equal(got, to(257)) {
			t.Errorf("got %v", got)
		}
		if doc := leases.doc("0"); doc.Continuation != "257" || doc.Owner == "" {
			t.Errorf("%+v", doc)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if doc := leases.doc("0"); doc.Continuation != "257" || doc.Owner != "" {
			t.Errorf("after the stop: %+v", doc)
		}
	})
}

func TestCrashBetweenNowAndTheFirstChangeLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(5), newFakeStore()
		r := start(t, Config{Source: source, Leases: leases, Handler: &collector{}})
		pause(time.Second)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		source.write("0", 3) // while no host runs
		h := &collector{}
		start(t, Config{Source: source, Leases: leases, Handler: h})
		pause(10 * time.Second)
		if got := h.got(); !slices.Equal(got, []int64{6, 7, 8}) {
			t.Errorf("got %v", got)
		}
	})
}

// Another implementation has created a lease without a position, which means the
// configured start. If that is now, the host must store the position of "now" before it
// delivers a change.
func TestNowOfALeaseWithoutPositionIsStoredBeforeTheFirstBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(5), newFakeStore()
		leases.marker = time.Now()
		leases.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full()})
		stored := true
		leases.before = func(w fakeWrite) error {
			if w.lease.Continuation == "5" && stored {
				source.write("0", 3)
				stored = false
				return errors.New("503")
			}
			return nil
		}
		handled := HandlerFunc(func(_ context.Context, b *Batch) error {
			if doc := leases.doc("0"); doc.Continuation != "5" {
				t.Errorf("delivered before a position was stored: %q", doc.Continuation)
			}
			if b.Changes[0].LSN != 6 {
				t.Errorf("began at %d", b.Changes[0].LSN)
			}
			stored = true
			return nil
		})
		start(t, Config{Source: source, Leases: leases, Handler: handled})
		pause(10 * time.Second)
		if !stored {
			t.Error("nothing was delivered")
		}
	})
}

func TestFailingHandlerGetsTheSameBatchAgainInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, said := onePartition(20), newFakeStore(), &notes{}
		h := &collector{fails: []error{errors.New("no"), errors.New("still no")}}
		panicked := false
		handler := HandlerFunc(func(ctx context.Context, b *Batch) error {
			if !panicked {
				panicked = true
				panic(fmt.Errorf("bad: %w", feed.ErrNoID))
			}
			return h.Handle(ctx, b)
		})
		start(t, Config{Source: source, Leases: leases, Handler: handler, MaxItems: 10, Start: fromBeginning, Notify: said.add})
		pause(20 * time.Second)
		if got := h.got(); !slices.Equal(got, to(20)) {
			t.Errorf("got %v", got)
		}
		failures := said.of(Failed)
		if len(failures) != 3 {
			t.Fatalf("%d errors", len(failures))
		}
		for i, note := range failures {
			failure, ok := errors.AsType[*HandlerError](note.Err)
			if !ok || note.LeaseToken != "0" || failure.FirstLSN != 1 || failure.LastLSN != 10 || failure.Op != "handle" {
				t.Errorf("%v", note.Err)
			}
			if panic := i == 0; panic != (failure.Stack != nil) || panic != errors.Is(note.Err, feed.ErrNoID) {
				t.Errorf("%v: stack %d bytes", note.Err, len(failure.Stack))
			}
		}
		if len(said.of(Acquired)) != 1 || len(said.of(Released)) != 0 {
			t.Error("the lease moved because of a handler's error")
		}
	})
}

func TestOneWritePerCheckpointAndPerRenewalAndOneListingPerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(0), newFakeStore(), &collector{}
		start(t, Config{Source: source, Leases: leases, Handler: h, PollInterval: time.Second})
		pause(5 * time.Minute)
		rest := len(leases.sent())
		lists := leases.listings()
		pause(10 * time.Minute) // no changes for ten minutes
		writes := len(leases.sent()) - rest
		if writes < 45 || writes > 52 { // one renewal every 11.7 to 13 s
			t.Errorf("%d renewals in 10 minutes", writes)
		}
		if n := leases.listings() - lists; n < 31 || n > 40 { // one listing every 17 s, plus or minus 10 %
			t.Errorf("%d listings in 10 minutes", n)
		}
		rest = len(leases.sent())
		for range 600 { // one change a second for ten minutes
			source.write("0", 1)
			pause(time.Second)
		}
		if n := len(leases.sent()) - rest; n < 595 || n > 601 {
			t.Errorf("%d writes for 600 batches", n)
		}
		if got := h.got(); !slices.Equal(got, to(600)) {
			t.Errorf("%d changes", len(got))
		}
	})
}

func TestIdleRangeAdvancesWithTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		filter := func(feed.Change) bool { return false }
		start(t, Config{Source: source, Leases: leases, Handler: &collector{}, Filter: filter})
		pause(time.Second)
		source.write("0", 9) // the filter rejects them all, so no position is due at once
		before := len(leases.sent())
		pause(20 * time.Second)
		if doc := leases.doc("0"); doc.Continuation != "9" {
			t.Errorf("at %q", doc.Continuation)
		}
		if n := len(leases.sent()) - before; n > 2 {
			t.Errorf("%d writes", n)
		}
	})
}

func TestFilterPassesTheSameChangesOnRedelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(30), newFakeStore()
		h := &collector{fails: []error{errors.New("once")}}
		calls := 0
		filter := func(c feed.Change) bool {
			calls++
			if calls == 3 {
				panic("filter")
			}
			return c.LSN%3 == 0
		}
		said := &notes{}
		start(t, Config{Source: source, Leases: leases, Handler: h, Filter: filter, Start: fromBeginning, Notify: said.add})
		pause(20 * time.Second)
		if got := h.got(); !slices.Equal(got, []int64{3, 6, 9, 12, 15, 18, 21, 24, 27, 30}) {
			t.Errorf("got %v", got)
		}
		if doc := leases.doc("0"); doc.Continuation != "30" {
			t.Errorf("at %q", doc.Continuation)
		}
		if calls != 33 || len(said.of(Failed)) != 2 {
			t.Errorf("the filter was called %d times, %d errors", calls, len(said.of(Failed)))
		}
	})
}

func TestCheckpointByChangesAndByInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			every    Checkpointing
			min, max int
		}{
			{Checkpointing{Changes: 50}, 6, 10},              // 300 changes
			{Checkpointing{Interval: 5 * time.Second}, 5, 8}, // a checkpoint every 5 s, for 30 s
			{Checkpointing{Changes: 50, Interval: 5 * time.Second}, 6, 13},
		} {
			source, leases, h := newFakeSource("0"), newFakeStore(), &collector{}
			r := start(t, Config{
				Source: source, Leases: leases, Handler: h, Checkpoint: c.every, PollInterval: 100 * time.Millisecond,
				RenewInterval: 40 * time.Second,
			})
			pause(time.Second)
			before := len(leases.sent())
			for range 30 {
				source.write("0", 10)
				pause(time.Second)
			}
			if n := len(leases.sent()) - before; n < c.min || n > c.max {
				t.Errorf("%+v: %d writes", c.every, n)
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
			if doc := leases.doc("0"); doc.Continuation != "300" || len(h.got()) != 300 {
				t.Errorf("%+v: released at %q after %d changes", c.every, doc.Continuation, len(h.got()))
			}
		}
	})
}

func TestReadsRunAheadOfASlowHandlerByABoundedNumberOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ ahead, most int }{{-1, 1}, {1, 2}, {700, 5}} {
			source, leases := onePartition(1000), newFakeStore()
			h := &collector{took: time.Minute}
			start(t, Config{Source: source, Leases: leases, Handler: h, MaxItems: 10, ReadAhead: c.ahead, Start: fromBeginning})
			pause(30 * time.Second)
			if n := len(source.requests()); n < c.most || n > c.most+1 { // 10 changes are about 200 bytes
				t.Errorf("ReadAhead %d: %d pages read while the first is handled", c.ahead, n)
			}
		}
	})
}

func TestReadErrorIsRetriedInPlaceAndTheLeaseKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, said, h := onePartition(10), newFakeStore(), &notes{}, &collector{}
		began := time.Now()
		source.fail = func(int, feed.Request) error {
			switch d := time.Since(began); {
			case d < time.Minute:
				return errors.New("503")
			case d < 2*time.Minute:
				return &feed.ThrottledError{RetryAfter: 50 * time.Second}
			}
			return nil
		}
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning, Notify: said.add})
		pause(3 * time.Minute)
		if got := h.got(); !slices.Equal(got, to(10)) {
			t.Errorf("got %v", got)
		}
		if n := len(said.of(Failed)); n < 5 || n > 9 { // attempts after 0, 1, 3, 7, 15 and 31 s, then one or two more
			t.Errorf("%d errors", n)
		}
		for _, note := range said.of(Failed) {
			if _, ok := errors.AsType[*SourceError](note.Err); !ok {
				t.Errorf("%v", note.Err)
			}
		}
		if len(said.of(Acquired)) != 1 || len(said.of(Released)) != 0 {
			t.Error("the lease moved because of the source")
		}
	})
}

func TestHistoryLostIsNeverSkippedSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, skip := range []bool{false, true} {
			source, leases, said, h := onePartition(10), newFakeStore(), &notes{}, &collector{}
			source.fail = func(_ int, r feed.Request) error {
				if r.From.Kind() == feed.StartBeginning {
					return &feed.HistoryLostError{Reason: "past the retention", Oldest: "4"}
				}
				return nil
			}
			cfg := Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning, Notify: said.add}
			if skip {
				cfg.OnHistoryLost = func(l lease.Lease, lost *feed.HistoryLostError) bool {
					return l.Token == "0" && lost.Oldest == "4"
				}
			}
			r := start(t, cfg)
			pause(time.Minute)
			if err := r.end(); err != nil {
				t.Error(err)
			}
			want := []int64{5, 6, 7, 8, 9, 10}
			if !skip {
				want = nil
			}
			if got := h.got(); !slices.Equal(got, want) {
				t.Errorf("skip %v: got %v", skip, got)
			}
			if len(said.of(Failed)) == 0 {
				t.Errorf("skip %v: the user was not notified", skip)
			}
		}
	})
}

// A source reports lost history and names its oldest position. The host skips to it, and
// the source reports lost history there as well. The host must retry with growing delays
// and not ask the user again.
func TestReadSkipsToTheOldestPositionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, said, h := onePartition(10), newFakeStore(), &notes{}, &collector{}
		failing := true
		source.fail = func(int, feed.Request) error {
			if failing {
				return &feed.HistoryLostError{Reason: "past the retention", Oldest: "4"}
			}
			return nil
		}
		questions := 0
		start(t, Config{
			Source: source, Leases: leases, Handler: h, Start: fromBeginning, Notify: said.add,
			OnHistoryLost: func(lease.Lease, *feed.HistoryLostError) bool { questions++; return true },
		})
		pause(time.Minute)
		reads, failures := len(source.requests()), len(said.of(Failed))
		if questions != 1 || reads < 5 || reads > 9 || failures != reads {
			t.Errorf("%d questions, %d reads and %d errors in a minute; want 1, 5 to 9, and as many errors as reads", questions, reads, failures)
		}
		source.mu.Lock()
		failing = false
		source.mu.Unlock()
		pause(time.Minute)
		if got := h.got(); !slices.Equal(got, []int64{5, 6, 7, 8, 9, 10}) {
			t.Errorf("got %v; want 5 to 10", got)
		}
	})
}

func TestRefusedStartTimeFallsBackToTheBeginningWithoutOlderChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(10), newFakeStore(), &collector{}
		pause(time.Hour)
		source.write("0", 5)
		source.fail = func(_ int, r feed.Request) error {
			if r.From.Kind() == feed.StartTime {
				return fmt.Errorf("start time on a merged partition: %w", feed.ErrUnsupported)
			}
			return nil
		}
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: feed.At(time.Now().Add(-time.Minute))})
		pause(10 * time.Second)
		if got := h.got(); !slices.Equal(got, []int64{11, 12, 13, 14, 15}) {
			t.Errorf("got %v", got)
		}
	})
}

// growing is an operation that fails as often as the test wants. It records the time of
// each attempt.
type growing struct {
	mu sync.Mutex // guards the fields below
	at []time.Time
	// fail is the number of attempts that still fail.
	fail int
}

// try makes one attempt and returns its error.
func (g *growing) try() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = append(g.at, time.Now())
	if g.fail > 0 {
		g.fail--
		return errors.New("503")
	}
	return nil
}

// failNext makes the next n attempts fail and forgets the recorded times.
func (g *growing) failNext(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at, g.fail = nil, n
}

// delays returns the times between the attempts since failNext.
func (g *growing) delays() []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var delays []time.Duration
	for i := 1; i < len(g.at); i++ {
		delays = append(delays, g.at[i].Sub(g.at[i-1]))
	}
	return delays
}

// An operation has failed so often that its retry delay is half a minute. After one
// success, the delay must start again at a second.
func TestRetryDelayStartsOverAfterASuccess(t *testing.T) {
	for name, attempts := range map[string]func(g *growing, source *fakeSource, leases *fakeStore) Handler{
		"handler": func(g *growing, _ *fakeSource, _ *fakeStore) Handler {
			return HandlerFunc(func(context.Context, *Batch) error { return g.try() })
		},
		"checkpoint": func(g *growing, _ *fakeSource, leases *fakeStore) Handler {
			leases.setBefore(func(fakeWrite) error { return g.try() })
			return &collector{}
		},
		"read": func(g *growing, source *fakeSource, _ *fakeStore) Handler {
			source.fail = func(int, feed.Request) error { return g.try() }
			return &collector{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, source, leases := &growing{}, onePartition(1), newFakeStore()
				idle(t, leases, Config{Source: source, Handler: attempts(g, source, leases), Start: fromBeginning, PollInterval: 100 * time.Millisecond})
				for _, failures := range []int{4, 1} {
					g.failNext(failures)
					source.write("0", 1)
					pause(20 * time.Second)
					delays := g.delays()
					if len(delays) < failures {
						t.Fatalf("%d failures: tried again after %v", failures, delays)
					}
					if first := delays[0]; first > 1500*time.Millisecond {
						t.Errorf("%d failures: tried again only after %s", failures, first)
					}
					if last := delays[failures-1]; failures > 1 && last < 4*time.Second {
						t.Errorf("after %d failures it is tried again after %s: the delay doesn't grow", failures, last)
					}
				}
			})
		})
	}
}

// Config.Observer returns no observer and no error. Once the host called it again without a
// delay. It must notify the user and call it again later.
func TestMissingObserverIsReportedAndCreatedAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, reported := 0, 0
		notify := func(n Notification) {
			if errors.Is(n.Err, errNoObserver) {
				reported++
			}
		}
		observer := func(lease.Lease) (Observer, error) {
			if calls++; calls <= 3 {
				return nil, nil
			}
			return plainObserver{&collector{}}, nil
		}
		start(t, Config{Source: onePartition(5), Leases: newFakeStore(), Observer: observer, Notify: notify})
		pause(time.Minute)
		if calls != 4 || reported != 3 {
			t.Errorf("the observer was created %d times after %d notifications; want 4 and 3", calls, reported)
		}
	})
}

// A worker that left the order of its phases could use a lease that it has released, or release
// one that a foreign host may still use. It must panic instead.
func TestWorkerPanicsInsteadOfAPhaseOutOfOrder(t *testing.T) {
	for _, c := range []struct{ from, to phase }{
		{phaseReleased, phaseWorking},
		{phaseReleased, phaseEnding},
		{phaseOver, phaseWorking},
		{phaseEnding, phaseWorking},
		{phaseWorking, phaseReleased},
		{phaseGone, phaseReleased},
		{phaseClaiming, phaseReleased},
		{phaseWithdrawn, phaseReleased},
		{phaseWithdrawn, phaseWorking},
	} {
		w := &worker{phase: c.from}
		func() {
			defer func() { _ = recover() }()
			w.enter(c.to)
		}()
		if w.phase != c.from {
			t.Errorf("a worker went from phase %d to %d", c.from, c.to)
		}
	}
}
