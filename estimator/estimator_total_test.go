package estimator_test

import (
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

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
