package estimator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/storetype"
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
			w.create(protocol.StartingAt(whole(c.at), feed.Beginning()))
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
	items := changefeedtest.NewContainer(t, db, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/pk"}})
	odd := changefeedtest.NewContainer(t, db, "db", storetype.ContainerProperties{ID: "odd", KeyPaths: []string{"/other"}})
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
		w.create(protocol.StartingAt(whole(""), feed.Beginning()))
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

// Each partition counts its own LSNs, so the lag of a lease counts only the writes of its
// partition, and the total is the number of unread transactions.
func TestLagDoesNotCountWritesOfOtherPartitions(t *testing.T) {
	both(t, func(t *testing.T, remote bool) {
		w := newWorld(t, 7, remote)
		w.write(1500)
		parts, err := w.source.Partitions(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		stats, err := w.items.PartitionStats(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		read := stats[0].LSN - 2 // the first partition has 2 unread documents
		for n, p := range parts {
			at := feed.Continuation(`"0"`)
			if n == 0 {
				at = feed.Continuation(fmt.Sprintf(`"%d"`, read))
			}
			w.create(lease.Lease{Token: p.ID, Range: p.Range, Continuation: at})
		}
		r := w.report()
		for n, l := range r.Lags {
			want := int64(2)
			if l.Partition != parts[0].ID {
				want = stats[slices.IndexFunc(parts, func(p feed.Partition) bool { return p.ID == l.Partition })].Items
			}
			if l.LSNs != want {
				t.Errorf("lease %d of partition %s is %d behind, want %d", n, l.Partition, l.LSNs, want)
			}
		}
		if r.Total.LSNs != 1500-read || r.Total.Reference != 1500-read {
			t.Errorf("the total is %d (reference %d), want %d", r.Total.LSNs, r.Total.Reference, 1500-read)
		}
	})
}
