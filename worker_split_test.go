package changefeed

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

func TestCurrentBatchIsFinishedAndCheckpointedBeforeASplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(20), newFakeStore(), &collector{took: 20 * time.Second}
		failed := false
		leases.before = func(w fakeWrite) error {
			if w.lease.Token == "0" && w.lease.Continuation == "10" && !failed {
				failed = true
				return errors.New("503") // delays the checkpoint, for which the children must wait
			}
			return nil
		}
		idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, MaxItems: 10})
		source.split("0", "1", "2")
		pause(2 * time.Minute)
		if got := h.got(); !slices.Equal(got, to(20)) {
			t.Errorf("got %v", got)
		}
		for _, w := range leases.sent() {
			if w.op == "create" && w.lease.Token != "0" && w.lease.Continuation != "10" {
				t.Errorf("child %s was created at %q", w.lease.Token, w.lease.Continuation)
			}
		}
	})
}

func TestGoneLeaseIsDeletedOnlyWhenEveryChildExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(5), newFakeStore()
		failures := 5
		leases.before = func(w fakeWrite) error {
			switch {
			case w.op == "create" && w.lease.Token == "2" && failures > 0:
				failures--
				return errors.New("503")
			case w.op == "delete":
				if w.lease.Token != "0" || leases.doc("1").ID == "" || leases.doc("2").ID == "" {
					t.Errorf("lease %s is deleted too early", w.lease.Token)
				}
			}
			return nil
		}
		_, said := idle(t, leases, Config{Source: source, Start: fromBeginning, Handler: &collector{}})
		source.split("0", "1", "2")
		pause(2 * time.Minute)
		if leases.size() != 2 || leases.doc("1").Owner == "" || leases.doc("2").Owner == "" || failures != 0 {
			t.Errorf("%+v", leases.sent())
		}
		if released := said.of(Released); len(released) != 1 || released[0].Reason != Gone {
			t.Errorf("%+v", released)
		}
	})
}

// An owner of the gone lease crashed after it had created children. Then the partitions
// merged and split elsewhere. The next owner must delete the free children that it does not
// need, because they would overlap its own. A late delete of the first owner may arrive
// afterwards. So the next owner must give a child that it needs a new ETag.
func TestChildrenOfAnInterruptedSplitAreDeletedOrRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(5), newFakeStore()
		within := func(token, from, to, owner string) lease.Lease {
			return lease.Lease{
				ID: "lease-" + token, Token: token, PartitionID: token, Continuation: "3", Owner: owner, Range: feed.Range{Min: from, Max: to},
			}
		}
		needed := within("1", "", "40", "")
		var ofNeeded string
		failures := 3
		leases.before = func(w fakeWrite) error {
			if w.op != "delete" {
				return nil
			}
			if w.lease.Token == "8" && failures > 0 {
				failures--
				return errors.New("503")
			}
			if w.lease.Token == "0" {
				child := leases.doc("1")
				if child.ETag == ofNeeded || child.Continuation != "3" {
					t.Errorf("the child that existed is at %q with the ETag %q, when its parent is deleted", child.Continuation, child.ETag)
				}
				if leases.doc("8").ID != "" || leases.doc("2").ID == "" {
					t.Error("the parent is deleted, though a leftover exists or a child is missing")
				}
			}
			return nil
		}
		idle(t, leases, Config{Source: source, Start: fromBeginning})
		leases.mu.Lock()
		ofNeeded = leases.put(needed).ETag
		leases.put(within("8", "30", "60", ""))
		leases.put(within("9", "10", "20", "other/0000beef")) // its owner may still use it
		leases.mu.Unlock()
		source.split("0", "1", "2")
		pause(2 * time.Minute)
		if leases.doc("0").ID != "" || leases.doc("1").Owner == "" || leases.doc("2").Owner == "" || leases.doc("9").ID == "" || failures != 0 {
			t.Errorf("%+v", leases.sent())
		}
	})
}

func TestManualCheckpointAcrossASplitLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(20), newFakeStore()
		batches := make(chan *Batch, 100)
		h := HandlerFunc(func(_ context.Context, b *Batch) error { batches <- b; return nil })
		idle(t, leases, Config{
			Source: source, Handler: h, Start: fromBeginning, MaxItems: 10, Checkpoint: Checkpointing{Manual: true}, PollInterval: time.Second,
		})
		first, second := <-batches, <-batches
		if err := first.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		source.split("0", "1", "2")
		pause(10 * time.Second)
		if child := leases.doc("1"); child.Continuation != "10" {
			t.Errorf("the child begins at %q", child.Continuation)
		}
		if err := second.Checkpoint(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("a checkpoint for the gone lease: %v", err)
		}
		again := <-batches
		if again.LeaseToken != "1" || again.Changes[0].LSN != 11 {
			t.Errorf("%s from %d", again.LeaseToken, again.Changes[0].LSN)
		}
	})
}

// slowPartitions is a source that calls asked before it answers a listing of its
// partitions. If asked is nil, it answers at once.
type slowPartitions struct {
	*fakeSource
	mu    sync.Mutex // guards asked
	asked func()
}

func (s *slowPartitions) Partitions(ctx context.Context) ([]feed.Partition, error) {
	partitions, err := s.fakeSource.Partitions(ctx)
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	if asked != nil {
		asked()
	}
	return partitions, err
}

func (s *slowPartitions) onPartitions(asked func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = asked
}

// The handler checkpoints a batch while the worker lists the partitions of a split. The
// children must start at that checkpoint, even if the store answers its write late.
func TestManualCheckpointDuringASplitIsInheritedByTheChildren(t *testing.T) {
	for name, late := range map[string]time.Duration{
		"written before the partitions are answered": time.Second,
		"written after the partitions are answered":  8 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, leases := &slowPartitions{fakeSource: onePartition(20)}, newFakeStore()
				batches := make(chan *Batch, 100)
				h := HandlerFunc(func(_ context.Context, b *Batch) error { batches <- b; return nil })
				idle(t, leases, Config{
					Source: source, Handler: h, Start: fromBeginning, MaxItems: 10, PollInterval: time.Second,
					Checkpoint: Checkpointing{Manual: true},
				})
				first, second := <-batches, <-batches
				if err := first.Checkpoint(t.Context()); err != nil {
					t.Fatal(err)
				}
				leases.setBefore(func(w fakeWrite) error {
					if w.lease.Continuation == "20" && w.op == "update" {
						time.Sleep(late)
					}
					return nil
				})
				asked := make(chan struct{}, 100)
				source.onPartitions(func() {
					asked <- struct{}{}
					time.Sleep(4 * time.Second)
				})
				source.split("0", "1", "2")
				<-asked
				if err := second.Checkpoint(t.Context()); err != nil {
					t.Fatal(err)
				}
				if at := leases.doc("0").Continuation; at != "20" {
					t.Fatalf("the checkpoint returned while the lease is at %q", at)
				}
				pause(20 * time.Second)
				for _, child := range []string{"1", "2"} {
					if at := leases.doc(child).Continuation; at != "20" {
						t.Errorf("child %s was created at %q; its parent was at 20", child, at)
					}
				}
				if len(batches) > 0 {
					t.Errorf("changes up to %d are delivered again", (<-batches).Changes[9].LSN)
				}
			})
		})
	}
}

// A read of an EPK lease reports "gone", but one new partition contains the lease's whole
// range. The worker must keep the lease, read on from its position, and create no lease.
func TestEPKLeaseInsideItsNewPartitionContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := newFakeSource("0"), newFakeStore(), &collector{}
		source.logs[""] = nil // the fake keeps the changes of an EPK lease here
		leases.marker = time.Now()
		leases.put(lease.Lease{ID: "lease--FF", Token: "-FF", Range: feed.Full(), Continuation: "0"})
		failures := 3
		source.fail = func(int, feed.Request) error {
			if failures > 0 {
				failures--
				return &feed.GoneError{Range: feed.Full()}
			}
			return nil
		}
		start(t, Config{Source: source, Leases: leases, Handler: h})
		pause(30 * time.Second)
		source.write("", 4)
		pause(10 * time.Second)
		if got := h.got(); !slices.Equal(got, to(4)) || leases.size() != 1 || failures != 0 {
			t.Errorf("got %v, %d leases", got, leases.size())
		}
	})
}

// A source reports "gone" forever and still lists the same partition. The worker must
// keep the lease and retry with growing delays: about seven reads in the first minute,
// and then two a minute.
func TestGonePartitionThatIsStillListedIsReadWithGrowingDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		leases.marker = time.Now()
		leases.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: "0"})
		source.fail = func(int, feed.Request) error { return &feed.GoneError{Partition: "0"} }
		start(t, Config{Source: source, Leases: leases, Handler: &collector{}})
		pause(time.Minute)
		if n := len(source.requests()); n < 5 || n > 8 {
			t.Errorf("%d reads in the first minute; want 5 to 8", n)
		}
		before := len(source.requests())
		pause(10 * time.Minute)
		if n := len(source.requests()) - before; n < 15 || n > 27 {
			t.Errorf("%d reads in ten minutes; want one every 24 to 36 s", n)
		}
		if leases.size() != 1 || leases.doc("0").Owner == "" {
			t.Errorf("the lease was not kept: %+v", leases.doc("0"))
		}
	})
}

// lateSource is a source that calls late once, after it has listed its partitions and
// before it returns them.
type lateSource struct {
	*fakeSource
	late func()
}

func (s *lateSource) Partitions(ctx context.Context) ([]feed.Partition, error) {
	partitions, err := s.fakeSource.Partitions(ctx)
	if s.late != nil {
		s.late()
		s.late = nil
	}
	return partitions, err
}

func TestLeaseWithoutRangeOfANewPartitionWaitsForItsParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		source := &lateSource{fakeSource: onePartition(5)}
		source.late = func() { // another host starts, and its lease 0 is split
			source.split("0", "1", "2")
			leases.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Owner: "other/00000000", Timestamp: time.Now().UTC()})
			leases.put(lease.Lease{ID: "lease-1", Token: "1", PartitionID: "1"})
		}
		start(t, Config{Source: source, Leases: leases, Handler: &collector{}, Start: fromBeginning})
		pause(10 * time.Second)
		if owner := leases.doc("1").Owner; owner != "" {
			t.Errorf("lease 1 is acquired by %q, although lease 0 exists", owner)
		}
		pause(2 * time.Minute) // the other host has died
		if leases.doc("0").ID != "" || leases.doc("1").Owner == "" || leases.doc("2").Owner == "" {
			t.Errorf("%+v", leases.sent())
		}
	})
}
