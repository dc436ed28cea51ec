package estimator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
)

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func TestLagCountsUnreadTransactionsAndTheirAge(t *testing.T) {
	both(t, func(t *testing.T, remote bool) {
		w := newWorld(t, 1, remote)
		w.write(4)
		time.Sleep(time.Minute)
		w.write(1) // overwrites the first document; the oldest unread LSN is now 5
		w.write(1)
		time.Sleep(30 * time.Second)
		w.create(whole(`"2"`))
		r := w.report()
		lag := r.Lags[0]
		if lag.LSNs != 4 || lag.Reference() != 4 || lag.Age != 90*time.Second || lag.LeaseToken != "0" ||
			lag.Partition != "0" || lag.Continuation != `"2"` || lag.Owner != "" || lag.Err != nil || lag.Charge <= 0 || lag.Modified.IsZero() {
			t.Errorf("%+v", lag)
		}
		if r.Total.LSNs != 4 || r.Total.Age != 90*time.Second || r.Total.Reference != 4 || r.Total.Charge < lag.Charge {
			t.Errorf("%+v", r.Total)
		}
		if remote && r.Total.Charge == lag.Charge {
			t.Error("the listing costs nothing")
		}
	})
}

func TestLagIsZeroAfterTheLastChange(t *testing.T) {
	both(t, func(t *testing.T, remote bool) {
		w := newWorld(t, 1, remote)
		w.write(4)
		w.create(whole(`"4"`))
		time.Sleep(time.Hour)
		if lag := w.report().Lags[0]; lag.LSNs != 0 || lag.Reference() != 0 || lag.Age != 0 || !lag.Oldest.IsZero() {
			t.Errorf("%+v", lag)
		}
	})
}

func TestLagFollowsAProcessor(t *testing.T) {
	both(t, func(t *testing.T, remote bool) {
		w := newWorld(t, 4, remote)
		w.write(100)
		release := make(chan struct{})
		stop := w.processor(changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error {
			<-release
			return nil
		}))
		defer stop()
		time.Sleep(10 * time.Second)
		r := w.report()
		if r.Total.Leases != 4 || r.Total.Owned != 4 || r.Total.LSNs < 100 || r.Total.Age < 9*time.Second || r.Total.Unknown != 0 ||
			r.Total.Reference != 4 { // .NET returns 1 without a position
			t.Errorf("while the handlers work: %+v", r.Total)
		}
		for _, l := range r.Lags {
			if !strings.HasPrefix(l.Owner, "host") || l.Unstarted {
				t.Errorf("%+v", l)
			}
		}
		close(release)
		time.Sleep(10 * time.Second)
		if r := w.report(); r.Total.LSNs != 0 || r.Total.Age != 0 || r.Total.Reference != 0 {
			t.Errorf("when all is handled: %+v", r.Total)
		}
	})
}

func TestALagCostsOneReadOfOneItem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 4, false)
		w.write(100)
		w.processor(taken)()
		stop := w.processor(taken)
		time.Sleep(30 * time.Second)
		stop()
		w.write(100)
		w.report()
		if len(w.source.reads) != 4 || w.source.partitions != 0 {
			t.Errorf("%d reads, %d requests of the partitions for 4 leases", len(w.source.reads), w.source.partitions)
		}
		for _, r := range w.source.reads {
			if r.MaxItems != 1 || r.Wait != 0 {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestLagThatCannotBeDeterminedIsUnknown(t *testing.T) {
	changes := []feed.Change{{LSN: 7, Time: time.Now().Add(-time.Minute)}}
	broken := errors.New("503")
	for _, c := range []struct {
		name      string
		lease     lease.Lease
		page      feed.Page
		err       error
		reads     int
		age       bool
		splitting bool
		failed    bool
	}{
		{name: "a lease without position", lease: whole("")},
		{name: "a partition that is gone", lease: whole("2"), err: &feed.GoneError{Partition: "0"}, reads: 1, splitting: true},
		{name: "an engine without the last LSN", lease: whole("2"), page: feed.Page{Changes: changes, LSN: 7, End: -1}, reads: 1, age: true},
		{name: "a read that fails", lease: whole("2"), err: broken, reads: 1, failed: true},
		{name: "history that is lost", lease: whole("2"), err: &feed.HistoryLostError{Reason: "retention"}, reads: 1, failed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, false)
			w.create(c.lease)
			w.source.answer = func(feed.Request) (feed.Page, error) { return c.page, c.err }
			r := w.report()
			lag := r.Lags[0]
			if lag.LSNs != estimator.Unknown || lag.Known() || lag.Reference() != 1 || len(w.source.reads) != c.reads ||
				(lag.Age != estimator.Unknown) != c.age || lag.Splitting != c.splitting || (lag.Err != nil) != c.failed {
				t.Errorf("%+v after %d reads", lag, len(w.source.reads))
			}
			if c.failed && !errors.Is(lag.Err, c.err) {
				t.Errorf("the error is %v", lag.Err)
			}
			if r.Total.LSNs != estimator.Unknown || r.Total.Unknown != 1 || r.Total.Reference != 1 {
				t.Errorf("%+v", r.Total)
			}
		})
	}
}

// The cases come from .NET's ChangeFeedEstimatorIterator. Its lag is the last LSN of the
// session token, minus the LSN of the first unread item, plus one, and at least 0.
// Lag.Reference must return the same number.
func TestReferenceIsDotNetsNumber(t *testing.T) {
	item := func(lsn int64) []feed.Change { return []feed.Change{{LSN: lsn, Time: time.Now()}} }
	for _, c := range []struct {
		name string
		at   feed.Continuation
		page feed.Page
		want int64
	}{
		{"ten are pending", `"5"`, feed.Page{Changes: item(6), End: 15}, 10},
		{"one is pending", `"5"`, feed.Page{Changes: item(6), End: 6}, 1},
		{"none is pending", `"5"`, feed.Page{End: 5}, 0},
		{"none is pending of this lease's keys", `"5"`, feed.Page{End: 90}, 0},
		{"the session is behind the item", `"5"`, feed.Page{Changes: item(9), End: 7}, 0},
		{"the item has no LSN", `"5"`, feed.Page{Changes: item(-1), End: 7}, 1},
		{"no position", "", feed.Page{Changes: item(1), End: 90}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, false)
			w.create(whole(c.at).StartingAt(feed.Beginning()))
			w.source.answer = func(feed.Request) (feed.Page, error) { return c.page, nil }
			r := w.report()
			if got := r.Lags[0].Reference(); got != c.want || r.Total.Reference != c.want {
				t.Errorf("%d, in total %d, not %d", got, r.Total.Reference, c.want)
			}
			if c.at == "" && r.Lags[0].LSNs != 90 { // unlike .NET, because the lease has a start
				t.Errorf("the lag of a lease that starts at the beginning is %d", r.Lags[0].LSNs)
			}
		})
	}
}

// oldest makes each read return one change that was written at the time written. The read
// takes as long as after.
func (w *world) oldest(written time.Time, after time.Duration) {
	w.source.answer = func(feed.Request) (feed.Page, error) {
		time.Sleep(after)
		return feed.Page{LSN: 1, End: 1, Changes: []feed.Change{{LSN: 1, Time: written}}}, nil
	}
}

func TestAgeCountsToTheTimeOfTheRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, false)
		w.create(whole(`"0"`))
		w.oldest(time.Now().Add(-time.Minute), 7*time.Second)
		if lag := w.report().Lags[0]; lag.Age != 67*time.Second {
			t.Errorf("listed a minute after the write, and read 7 s later, the change is %s old", lag.Age)
		}
	})
}

// If the lease container's clock is slow, the oldest unread change was written in its
// future. Then Age must be 0, because -1 would mean Unknown.
func TestAgeIsNotNegativeWhereClocksDiffer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, false)
		w.create(whole(`"0"`))
		written := time.Now().Add(10 * time.Second)
		w.oldest(written, 0)
		r := w.report()
		if lag := r.Lags[0]; lag.Age != 0 || !lag.Oldest.Equal(written) || r.Total.Age != 0 {
			t.Errorf("%+v", lag)
		}
	})
}

// For a processor without leases, Report must return ErrNotFound, because the processor's
// name may be wrong. It must also return the reference number 1, so that a scaler starts
// the first host.
func TestAProcessorWithoutLeasesIsNotFoundAndOneInReference(t *testing.T) {
	w := newWorld(t, 1, false)
	r, err := w.estimator(estimator.Config{}).Report(t.Context())
	if !errors.Is(err, feed.ErrNotFound) || !strings.Contains(err.Error(), `processor "projector"`) || r.Time.IsZero() {
		t.Errorf("%v beside %+v", err, r)
	}
	if len(r.Lags) != 0 || r.Total.Reference != 1 || r.Total.LSNs != estimator.Unknown || r.Total.Age != estimator.Unknown || r.Total.Leases != 0 {
		t.Errorf("%+v", r)
	}
	var failed error
	for lag, err := range w.estimator(estimator.Config{}).Current(t.Context()) {
		if failed = err; err == nil || lag.LeaseToken != "" {
			t.Errorf("%+v, %v", lag, err)
		}
	}
	if !errors.Is(failed, feed.ErrNotFound) {
		t.Errorf("the loop ends with %v", failed)
	}
}

// After a merge two leases read different keys of one partition, and both have its last
// LSN. The total must count the partition once.
func TestATotalCountsEachPartitionOnce(t *testing.T) {
	both(t, func(t *testing.T, remote bool) {
		w := newWorld(t, 2, remote)
		stop := w.processor(taken)
		w.write(50)
		time.Sleep(10 * time.Second)
		merged, err := w.items.Merge(w.ctx, "0", "1")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // both leases become leases of ranges
		stop()
		w.write(50)
		r := w.report()
		if len(r.Lags) != 2 || r.Lags[0].Partition != merged.ID || r.Lags[1].Partition != merged.ID {
			t.Fatalf("%+v", r.Lags)
		}
		if a, b := r.Lags[0].LSNs, r.Lags[1].LSNs; r.Total.LSNs != max(a, b) || r.Total.LSNs != 50 || r.Total.Reference != a+b {
			t.Errorf("%d and %d make %+v", a, b, r.Total)
		}
		if w.source.partitions != 1 {
			t.Errorf("the partitions were listed %d times", w.source.partitions)
		}
	})
}

func TestSplitsInProgressAreReported(t *testing.T) {
	both(t, func(t *testing.T, remote bool) {
		w := newWorld(t, 1, remote)
		stop := w.processor(taken)
		w.write(50)
		time.Sleep(10 * time.Second)
		stop()
		children, err := w.items.Split(w.ctx, "0", "")
		if err != nil {
			t.Fatal(err)
		}
		w.write(50)
		if r := w.report(); r.Total.Splitting != 1 || r.Total.Unknown != 1 || r.Total.Failed != 0 || r.Total.Reference != 1 {
			t.Errorf("after the split: %+v", r.Total)
		}
		// A host has created the lease of one child and then died.
		w.create(lease.Lease{Token: children[0].ID, PartitionID: children[0].ID, Range: children[0].Range, Continuation: `"50"`})
		r := w.report()
		if r.Total.Splitting != 1 || r.Total.Leases != 2 || r.Total.LSNs <= 0 || !r.Lags[0].Splitting == !r.Lags[1].Splitting {
			t.Errorf("with one child: %+v", r)
		}
		defer w.processor(taken)()
		time.Sleep(3 * time.Minute)
		if r := w.report(); r.Total.Splitting != 0 || r.Total.Leases != 2 || r.Total.LSNs != 0 {
			t.Errorf("when hosts have worked on it: %+v", r.Total)
		}
	})
}

func TestAFailedReadDoesNotHideOtherLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 4, false)
		stop := w.processor(taken)
		w.write(100)
		time.Sleep(10 * time.Second)
		stop()
		w.source.answer = func(r feed.Request) (feed.Page, error) {
			if r.Partition.ID == "2" {
				return feed.Page{}, &feed.ThrottledError{RetryAfter: time.Second}
			}
			return w.source.Source.Read(t.Context(), r)
		}
		r := w.report()
		if r.Total.Failed != 1 || r.Total.Unknown != 1 || r.Total.LSNs != 0 || len(r.Lags) != 4 {
			t.Errorf("%+v", r.Total)
		}
		if throttled, ok := errors.AsType[*feed.ThrottledError](r.Lags[2].Err); !ok || throttled.RetryAfter != time.Second {
			t.Errorf("%+v", r.Lags[2])
		}
	})
}

func TestLeasesAreReadInParallelAndYieldedInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 8, false)
		w.processor(taken)()
		stop := w.processor(taken)
		time.Sleep(time.Minute)
		stop()
		w.source.answer = func(r feed.Request) (feed.Page, error) {
			if r.Partition.ID == "0" {
				time.Sleep(time.Second)
			}
			time.Sleep(time.Second)
			return feed.Page{End: 1}, nil
		}
		var min string
		n, began := 0, time.Now()
		for lag, err := range w.estimator(estimator.Config{Concurrency: 3}).Current(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if lag.Range.Min < min {
				t.Errorf("%s after %s", lag.Range, min)
			}
			min, n = lag.Range.Min, n+1
		}
		if took := time.Since(began); n != 8 || w.source.top != 3 || took != 3*time.Second {
			t.Errorf("%d leases, %d at a time, took %s", n, w.source.top, took)
		}
	})
}

func TestALoopMayEndEarly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 8, false)
		stop := w.processor(taken)
		time.Sleep(time.Minute)
		stop()
		for _, err := range w.estimator(estimator.Config{}).Current(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		for _, err := range w.estimator(estimator.Config{}).Current(ctx) {
			if n++; n == 1 {
				cancel()
				continue
			}
			if !errors.Is(err, context.Canceled) || n > 2 {
				t.Errorf("%v after %d", err, n)
			}
		}
	})
}

func TestMeasurementsReturnErrors(t *testing.T) {
	db := changefeedtest.NewStore(t)
	items := changefeedtest.NewContainer(t, db, "db", store.ContainerProperties{ID: "items", KeyPaths: []string{"/pk"}})
	odd := changefeedtest.NewContainer(t, db, "db", store.ContainerProperties{ID: "odd", KeyPaths: []string{"/other"}})
	e, err := estimator.New(estimator.Config{Processor: "projector", Source: db.Source(items), Leases: db.Leases(odd)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Report(t.Context()); !isDialect(err) {
		t.Errorf("a lease container with another key: %v", err)
	}
	w := newWorld(t, 1, true)
	w.leases = missing{}
	if _, err := w.estimator(estimator.Config{}).Report(t.Context()); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("no lease container: %v", err)
	}
}

func isDialect(err error) bool {
	_, ok := errors.AsType[*lease.DialectError](err)
	return ok
}

type missing struct{}

func (missing) Dialect() lease.Dialect { return lease.DotNet }

func (missing) Open(context.Context, lease.Key) (lease.Store, error) { return nil, feed.ErrNotFound }

// A source may return an empty page in the middle of the feed. The estimator reads on, and
// so it reports the changes after that page.
func TestEmptyPageInTheMiddleOfTheFeedHidesNoLag(t *testing.T) {
	both(t, func(t *testing.T, remote bool) {
		w := newWorld(t, 1, remote)
		w.write(5)
		w.create(whole("").StartingAt(feed.Beginning()))
		w.source.answer = func(r feed.Request) (feed.Page, error) {
			if r.From.Kind() == feed.StartBeginning {
				return feed.Page{Continuation: `"2"`, LSN: 2, End: 5, Charge: 1}, nil
			}
			return w.source.Source.Read(w.ctx, r)
		}
		report := w.report()
		if l := report.Lags[0]; l.LSNs != 3 || l.Charge <= 1 {
			t.Errorf("the lag is %d and its reads cost %.1f; want 3, and the cost of two reads", l.LSNs, l.Charge)
		}
	})
}

// Writes of other keys may move the end of the feed all the time. The estimator reads on
// only to the end that the first page showed. Otherwise a measurement might never end.
func TestEndThatMovesIsNotChased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, false)
		w.create(whole(`"0"`))
		lsn := int64(0)
		w.source.answer = func(feed.Request) (feed.Page, error) {
			if lsn++; lsn > 100 {
				return feed.Page{}, errors.New("the reads do not end")
			}
			return feed.Page{Continuation: feed.Continuation(fmt.Sprintf(`"%d"`, lsn)), LSN: lsn, End: lsn + 4}, nil
		}
		if l := w.report().Lags[0]; l.Err != nil || l.LSNs != 0 || lsn != 5 {
			t.Errorf("after %d reads the lag is %d (%v); want 5 reads, to the first end, and no lag", lsn, l.LSNs, l.Err)
		}
	})
}

// The create of a lease may arrive after its partition was split and merged. Another lease
// then contains its range, so no host uses it, and its lag grows for good.
func TestLeaseThatIsLeftOverCountsInNoTotal(t *testing.T) {
	both(t, func(t *testing.T, remote bool) {
		w := newWorld(t, 1, remote)
		w.write(50)
		w.create(whole(`"50"`))
		part := lease.ForRange(feed.Range{Max: "20000000000000000000000000000000"})
		part.Continuation = `"2"`
		w.create(part)
		r := w.report()
		if t0 := r.Total; t0.Leases != 1 || t0.LeftOver != 1 || t0.LSNs != 0 || t0.Age != 0 || t0.Reference != 0 || t0.Splitting != 0 || t0.Unknown != 0 {
			t.Errorf("the total is %+v; want that of the lease of the partition", t0)
		}
		for _, l := range r.Lags {
			if left := l.LeaseToken == part.Token; l.Shadowed != left || l.Splitting || (l.LSNs > 0) != left {
				t.Errorf("%+v", l)
			}
		}
	})
}

// While a lease is replaced, its children count. A lease below one that is itself left
// over does not.
func TestOnlyChildrenOfALeaseInUseCount(t *testing.T) {
	half, quarter := feed.Range{Max: "20"}, feed.Range{Max: "10"}
	child := estimator.Lag{LeaseToken: "quarter", Range: quarter, LSNs: 7, Shadowed: true}
	gone := estimator.Lag{LeaseToken: "half", Range: half, LSNs: estimator.Unknown, Splitting: true}
	if sum := estimator.Sum([]estimator.Lag{child, gone}); sum.Leases != 2 || sum.LeftOver != 0 || sum.LSNs != 7 || sum.Splitting != 1 {
		t.Errorf("during a split the total is %+v", sum)
	}
	gone.Shadowed = true
	whole := estimator.Lag{LeaseToken: "whole", Range: feed.Full()}
	if sum := estimator.Sum([]estimator.Lag{child, gone, whole}); sum.Leases != 1 || sum.LeftOver != 2 || sum.LSNs != 0 || sum.Splitting != 0 {
		t.Errorf("below a lease in use the total is %+v", sum)
	}
}
