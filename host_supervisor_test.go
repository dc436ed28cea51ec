package changefeed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// runOnce runs a new processor and returns the error with which Run ends by itself.
func runOnce(t *testing.T, cfg Config) error {
	t.Helper()
	cfg.Processor, cfg.seed, cfg.Handler = "test", 1, &collector{}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	err = p.Run(ctx)
	if ctx.Err() != nil {
		t.Error("Run did not return by itself")
	}
	return err
}

// pickySource is a source that refuses every start at a time.
type pickySource struct{ *fakeSource }

func (pickySource) CheckStart(_ context.Context, from feed.Start, _ feed.Mode) error {
	if from.Kind() == feed.StartTime {
		return fmt.Errorf("a start at a time: %w", feed.ErrUnsupported)
	}
	return nil
}

// If the source refuses Config.Start for new leases, Run must return, because a retry
// would never succeed. If the leases exist, they have positions, and Run must continue.
func TestRunReturnsWhenNewLeasesCantStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, source := newFakeStore(), pickySource{newFakeSource("0")}
		at := feed.At(time.Now().Add(-time.Hour))
		err := runOnce(t, Config{Source: source, Leases: leases, Start: at})
		if _, ok := errors.AsType[*SourceError](err); !ok || !errors.Is(err, feed.ErrUnsupported) || leases.size() != 0 {
			t.Errorf("%v, with %d leases; want the source's refusal, and none", err, leases.size())
		}
		leases.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: "0"})
		if err := leases.SetInitialized(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		p, err := New(Config{Processor: "test", Source: source, Leases: leases, Start: at, Handler: &collector{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := p.Run(ctx); err != nil || leases.doc("0").Owner != "" || len(source.requests()) == 0 {
			t.Errorf("with leases: %v, %d reads", err, len(source.requests()))
		}
	})
}

// A container that does not keep all versions refuses to start at now in all versions and
// deletes mode. Then Run must return if there are no leases yet.
func TestRunReturnsWhenNewLeasesCantStartNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, source := newFakeStore(), newFakeSource("0")
		source.fail = func(int, feed.Request) error { return fmt.Errorf("all versions: %w", feed.ErrUnsupported) }
		err := runOnce(t, Config{Source: source, Leases: leases, Mode: feed.AllVersionsAndDeletes})
		if _, ok := errors.AsType[*SourceError](err); !ok || !errors.Is(err, feed.ErrUnsupported) || leases.size() != 0 {
			t.Errorf("%v, with %d leases; want the source's refusal, and none", err, leases.size())
		}
		// If the leases exist, Run retries the read, because the container may get a
		// retention later.
		leases.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: "0", Mode: feed.AllVersionsAndDeletes})
		if err := leases.SetInitialized(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		r := start(t, Config{Source: source, Leases: leases, Handler: &collector{}, Mode: feed.AllVersionsAndDeletes})
		pause(time.Minute)
		if leases.doc("0").Owner == "" {
			t.Error("the lease is not held")
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestRunReturnsWhenTheConfigurationContradictsTheStoredLeases(t *testing.T) {
	for _, c := range []struct {
		name, field string
		cfg         Config
		prepare     func(*fakeStore)
	}{
		{"one continuation for two leases", "Start", Config{Start: feed.After("7")}, func(*fakeStore) {}},
		{"leases of another mode", "Mode", Config{Mode: feed.AllVersionsAndDeletes}, func(s *fakeStore) {
			s.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: "3"})
		}},
		{"discard under a live owner", "DiscardLeases", Config{DiscardLeases: true}, func(s *fakeStore) {
			s.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full(), Owner: "somebody/00000000"})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leases := newFakeStore()
				c.prepare(leases)
				before := leases.size()
				c.cfg.Source, c.cfg.Leases = newFakeSource("0", "1"), leases
				refusal, ok := errors.AsType[*ConfigError](runOnce(t, c.cfg))
				if !ok || refusal.Field != c.field {
					t.Error(refusal)
				}
				if leases.size() != before || len(leases.sent()) != 0 {
					t.Errorf("%+v was written", leases.sent())
				}
			})
		})
	}
}

func TestContinuationStartsOneLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &collector{}
		start(t, Config{Source: onePartition(10), Leases: newFakeStore(), Handler: h, Start: feed.After("7")})
		pause(10 * time.Second)
		if got := h.got(); !slices.Equal(got, []int64{8, 9, 10}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestStartIsHonouredOnlyWhenLeasesAreFirstCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(10), newFakeStore()
		first, second := &collector{}, &collector{}
		r := start(t, Config{Source: source, Leases: leases, Handler: first, Start: fromBeginning})
		pause(10 * time.Second)
		if err := r.end(); err != nil {
			t.Error(err)
		}
		source.write("0", 2)
		r = start(t, Config{Source: source, Leases: leases, Handler: second, Start: fromBeginning})
		pause(10 * time.Second)
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if len(first.got()) != 10 || !slices.Equal(second.got(), []int64{11, 12}) {
			t.Errorf("%v %v", first.got(), second.got())
		}
	})
}

func TestDiscardStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(10), newFakeStore()
		leases.marker = time.Now()
		leases.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: "8", Owner: "dead/00000000"})
		pause(61 * time.Second)
		h := &collector{}
		failed := false
		leases.before = func(w fakeWrite) error {
			if w.op == "delete" && !failed {
				failed = true
				return errors.New("503")
			}
			return nil
		}
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning, DiscardLeases: true})
		pause(10 * time.Second)
		if got := h.got(); !slices.Equal(got, to(10)) {
			t.Errorf("got %v", got)
		}
		if !leases.marked() {
			t.Error("not initialised again")
		}
	})
}

func TestMarkerComesAfterEveryLeaseAndNowBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := newFakeSource("0", "1", "2"), newFakeStore(), &collector{}
		source.write("1", 4)
		failures := 0
		leases.before = func(w fakeWrite) error {
			if w.op == "create" && w.lease.Token == "1" && failures < 2 {
				failures++
				if leases.marked() {
					t.Error("marked before every lease exists")
				}
				source.write("1", 1) // written after Run resolved "now", so it is delivered
				return errors.New("503")
			}
			return nil
		}
		start(t, Config{Source: source, Leases: leases, Handler: h})
		pause(20 * time.Second)
		if !leases.marked() || leases.size() != 3 {
			t.Errorf("%+v", leases.sent())
		}
		if got := h.got(); !slices.Equal(got, []int64{5, 6}) {
			t.Errorf("got %v", got)
		}
		for _, w := range leases.sent() {
			if w.op == "create" && w.lease.Continuation == "" {
				t.Errorf("%s was created without a position", w.lease.Token)
			}
		}
	})
}

func TestHealingAllVersionsNotifiesTheUserOfLostVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0", "1"), newFakeStore()
		source.write("1", 3)
		leases.marker = time.Now()
		leases.put(lease.Lease{
			ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Range{Max: "40"},
			Mode: feed.AllVersionsAndDeletes, Continuation: "0",
		})
		said := &notes{}
		start(t, Config{Source: source, Leases: leases, Handler: &collector{}, Mode: feed.AllVersionsAndDeletes, Notify: said.add})
		pause(50 * time.Second)
		if leases.doc("1").ID != "" {
			t.Fatal("healed before the expiration was over")
		}
		pause(60 * time.Second)
		if doc := leases.doc("1"); doc.Continuation != "3" || doc.Owner == "" {
			t.Errorf("%+v", doc)
		}
		failures := said.of(Failed)
		if len(failures) != 1 || failures[0].LeaseToken != "1" || !strings.Contains(failures[0].Err.Error(), "40-FF") {
			t.Fatalf("%+v", failures)
		}
		if _, ok := errors.AsType[*feed.HistoryLostError](failures[0].Err); !ok {
			t.Errorf("%v", failures[0].Err)
		}
	})
}

func TestStartIsRetriedUnlessTheErrorIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err   error
			fatal bool
		}{
			{errors.New("503"), false},
			{&feed.ThrottledError{RetryAfter: time.Second}, false},
			{feed.ErrNotFound, true},
			{&lease.DialectError{Found: "partitioned by /x", Remedy: "make one partitioned by /id"}, true},
		} {
			failures := 3
			leases := &failingContainer{newFakeStore(), &failures, c.err}
			if c.fatal {
				if err := runOnce(t, Config{Source: onePartition(1), Leases: leases}); !errors.Is(err, c.err) {
					t.Errorf("%v", err)
				}
				continue
			}
			h, said := &collector{}, &notes{}
			r := start(t, Config{Source: onePartition(1), Leases: leases, Handler: h, Start: fromBeginning, Notify: said.add})
			pause(20 * time.Second)
			if err := r.end(); err != nil || len(h.got()) != 1 || len(said.of(Failed)) != 3 {
				t.Errorf("%v, %v, %d errors", err, h.got(), len(said.of(Failed)))
			}
		}
	})
}

type failingContainer struct {
	*fakeStore
	failures *int
	err      error
}

func (f *failingContainer) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	if *f.failures > 0 {
		*f.failures--
		return nil, f.err
	}
	return f.fakeStore.Open(ctx, k)
}

func TestAcquireWhoseAnswerWasLostNeedsNoExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(5), newFakeStore(), &collector{}
		lost := 0
		leases.after = func(w fakeWrite) error {
			if w.op == "update" && lost < 1 {
				lost++
				return errors.New("connection reset")
			}
			return nil
		}
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning})
		pause(5 * time.Second)
		if lost != 1 || len(h.got()) != 5 {
			t.Errorf("%d lost, %v", lost, h.got())
		}
	})
}

func TestSlowLeaseStoreDelaysNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := newFakeSource("0", "1"), newFakeStore(), &collector{}
		leases.before = func(w fakeWrite) error {
			if w.op == "update" && w.lease.Token == "1" {
				time.Sleep(9 * time.Second) // the cycle waits until lease 1 can be acquired
				return errors.New("503")
			}
			return nil
		}
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning, PollInterval: time.Second})
		pause(15 * time.Second)
		if leases.doc("0").Owner == "" {
			t.Fatal("lease 1 came first: the order depends on the seed")
		}
		source.write("0", 3)
		pause(2 * time.Second)
		if len(h.got()) != 3 {
			t.Errorf("got %v while the cycle waits for the store", h.got())
		}
	})
}

func TestTwoProcessorsOfDifferentNamesEachGetEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := onePartition(10)
		one, two := &collector{}, &collector{}
		start(t, Config{Processor: "one", Source: source, Leases: newFakeStore(), Handler: one, Start: fromBeginning})
		start(t, Config{Processor: "two", Source: source, Leases: newFakeStore(), Handler: two, Start: fromBeginning, seed: 2})
		pause(10 * time.Second)
		if len(one.got()) != 10 || len(two.got()) != 10 {
			t.Errorf("%v %v", one.got(), two.got())
		}
	})
}

func TestThrottledLeaseDelaysNoOtherAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		leases.before = func(w fakeWrite) error {
			if w.op == "update" && w.lease.Token == "0" {
				return &feed.ThrottledError{RetryAfter: 4 * time.Second}
			}
			return nil
		}
		start(t, Config{Source: newFakeSource("0", "1", "2", "3"), Leases: leases, Handler: &collector{}})
		pause(time.Minute)
		for _, token := range []string{"1", "2", "3"} {
			if leases.doc(token).Owner == "" {
				t.Errorf("lease %s was not acquired", token)
			}
		}
		leases.setBefore(nil)
		pause(30 * time.Second)
		if leases.doc("0").Owner == "" {
			t.Error("lease 0 was not acquired after the store allowed it")
		}
	})
}

// The start is now, and two partitions merge after their positions were resolved. A
// position of an old partition may be after changes of the merged one. So the host must
// resolve "now" again, or those changes would be lost.
func TestNowIsResolvedAgainForAMergedPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, h := newFakeStore(), &collector{}
		source := &lateSource{fakeSource: newFakeSource("0", "1")}
		source.write("0", 10)
		source.late = func() { // "now" is read for the two listed partitions
			source.mu.Lock()
			defer source.mu.Unlock()
			source.partitions = []feed.Partition{{ID: "2", Range: feed.Full(), Parents: []string{"0", "1"}}}
		}
		start(t, Config{Source: source, Leases: leases, Handler: h})
		pause(10 * time.Second)
		source.write("2", 5)
		pause(10 * time.Second)
		if got := h.got(); !slices.Equal(got, to(5)) {
			t.Errorf("got %v", got)
		}
	})
}

// A discard that fails halfway must have deleted the marker already. Otherwise the next
// host would recreate the deleted leases from the marker's time instead of from now.
func TestInterruptedDiscardLeavesAStoreThatStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0", "1"), newFakeStore()
		for i, id := range []string{"0", "1"} {
			leases.put(lease.Lease{ID: "lease-" + id, Token: id, PartitionID: id, Range: source.partitions[i].Range, Continuation: "8"})
		}
		leases.marker = time.Now()
		pause(time.Minute)
		source.write("0", 10)
		source.write("1", 10)
		leases.before = func(w fakeWrite) error {
			if w.op == "delete" && w.lease.Token == "1" {
				return errors.New("503")
			}
			return nil
		}
		r := start(t, Config{Source: source, Leases: leases, Handler: &collector{}, DiscardLeases: true})
		pause(10 * time.Second)
		if err := r.end(); err != nil || leases.size() != 1 {
			t.Fatalf("%v, %d leases are left", err, leases.size())
		}
		leases.setBefore(nil)
		h := &collector{}
		start(t, Config{Source: source, Leases: leases, Handler: h})
		pause(5 * time.Minute)
		if got := h.got(); !slices.Equal(got, []int64{9, 10}) { // from partition 1, whose lease was not deleted
			t.Errorf("got %v", got)
		}
	})
}

// A fatal error ends the run while a handler ignores its context. Run's error must
// contain that fatal error and the lease of the handler.
func TestRunReturnsItsFatalErrorAndTheHandlersThatStillRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, source, release := newFakeStore(), onePartition(1), make(chan struct{})
		r, _ := idle(t, leases, Config{
			Source: source, Start: feed.After("0"),
			Handler: HandlerFunc(func(context.Context, *Batch) error { <-release; return nil }),
		})
		// Delete all leases and give the container two partitions. Run must fail, because
		// Start is a continuation, which cannot start two leases.
		leases.setBefore(func(fakeWrite) error { return errors.New("503") })
		leases.mu.Lock()
		clear(leases.docs)
		leases.marker = time.Time{}
		leases.mu.Unlock()
		source.mu.Lock()
		source.partitions = newFakeSource("1", "2").partitions
		source.mu.Unlock()
		err := <-r.ended
		r.ended <- err
		running, ok := errors.AsType[*StillRunningError](err)
		if !ok || !slices.Equal(running.LeaseTokens, []string{"0"}) {
			t.Fatalf("%v", err)
		}
		if cause, ok := errors.AsType[*ConfigError](err); !ok || cause.Field != "Start" || !strings.Contains(err.Error(), cause.Problem) {
			t.Errorf("%v", err)
		}
		close(release)
		synctest.Wait()
	})
}

// After the store's clock was set back, the answer to an acquire looks older than the
// listing, by more than the expiration. The host must not acquire the lease again. It would
// do so without end, and with two workers of one lease, Run would never return.
func TestClockSetBackAfterAListingAcquiresALeaseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		leases.behind = 2 * time.Minute
		var mu sync.Mutex // Notify is called concurrently
		acquired := map[string]int{}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		p, err := New(Config{
			Processor: "test", Source: newFakeSource("0", "1"), Leases: leases, Handler: &collector{}, Start: fromBeginning,
			Notify: func(n Notification) {
				if n.Event != Acquired {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if acquired[n.LeaseToken]++; acquired[n.LeaseToken] > 1 {
					stop() // otherwise the host would acquire the lease again and again
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		if want := map[string]int{"0": 1, "1": 1}; !maps.Equal(acquired, want) {
			t.Errorf("leases acquired: %v, want %v", acquired, want)
		}
	})
}
