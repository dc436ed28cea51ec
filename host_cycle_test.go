package changefeed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// wants reports whether by w the host instance says that it wants another host's lease.
func wants(w fakeWrite, instance string) bool {
	return strings.HasPrefix(w.lease.Wanted(), instance+"/") && !strings.HasPrefix(w.lease.Owner, instance+"/") && w.lease.Owner != ""
}

// A host joins another one that has all leases. Its writes arrive, but their answers are
// lost. It must want its share only. If it wanted all leases, they would all be handed
// over, and it would not acquire those above its share.
func TestHostThatLosesItsAnswersWantsItsShareOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, share = 6, 3
		var ids []string
		for i := range all {
			ids = append(ids, fmt.Sprint(i))
		}
		source, leases := newFakeSource(ids...), newFakeStore()
		var wanted atomic.Int32
		leases.after = func(w fakeWrite) error {
			if !wants(w, "second") {
				return nil
			}
			wanted.Add(1)
			return errors.New("connection reset")
		}
		start(t, Config{Instance: "first", Source: source, Leases: leases, Handler: &collector{}})
		pause(time.Minute)
		start(t, Config{Instance: "second", seed: 2, Source: source, Leases: leases, Handler: &collector{}})
		for range 600 {
			pause(100 * time.Millisecond)
			free := 0
			for _, id := range ids {
				if leases.doc(id).Owner == "" {
					free++
				}
			}
			if free > share {
				t.Fatalf("%d leases of %d were wanted, and %d of them have no owner", wanted.Load(), all, free)
			}
		}
		owned := 0
		for _, id := range ids {
			if strings.HasPrefix(leases.doc(id).Owner, "second/") {
				owned++
			}
		}
		if wanted.Load() != share || owned != share {
			t.Errorf("the second host wanted %d leases and owns %d of %d leases; want %d", wanted.Load(), owned, all, share)
		}
	})
}

// The answer to the write that wants a lease is lost, and the owner hands the lease over. Until
// the host that wanted it acquires it, nobody reads its range. So that host must look again soon.
func TestLeaseThatWasWantedWithoutAnAnswerIsAcquiredSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0", "1"), newFakeStore()
		leases.marker = time.Now()
		for _, p := range source.partitions {
			leases.put(lease.Lease{ID: "lease-" + p.ID, Token: p.ID, PartitionID: p.ID, Range: p.Range, Owner: "other/0000beef", Continuation: "0"})
		}
		wanted := make(chan string, 1)
		leases.after = func(w fakeWrite) error {
			if wants(w, "host") {
				wanted <- w.lease.Token
				return errors.New("connection reset")
			}
			return nil
		}
		start(t, Config{Source: source, Leases: leases, Handler: &collector{}})
		token := <-wanted
		leases.edit(token, func(l *lease.Lease) { l.Owner = "" })
		pause(4 * time.Second)
		if leases.doc(token).Owner == "" {
			t.Error("4 s after its release, the lease that was wanted has no owner")
		}
	})
}

// slowListing is a lease store whose next listing, if armed, shows that lease 0 has no owner
// any more, and arrives late.
type slowListing struct {
	*fakeStore
	armed atomic.Bool
	// last is the number of that listing.
	last atomic.Int64
}

func (s *slowListing) Open(context.Context, lease.Key) (lease.Store, error) { return s, nil }

func (s *slowListing) List(ctx context.Context) (lease.Listing, error) {
	if !s.armed.CompareAndSwap(true, false) {
		return s.fakeStore.List(ctx)
	}
	s.edit("0", func(l *lease.Lease) { l.Owner = "" })
	listing, err := s.fakeStore.List(ctx)
	s.last.Store(int64(s.listings()))
	time.Sleep(15 * time.Second) // meanwhile the worker finds that the lease is lost
	return listing, err
}

// A listing is older than the end of a worker that ends while the listing is under way. So a
// cycle does not acquire the leases that had a worker when it began. A cycle that shared the
// supervisor's map of workers would, and would read that map while the supervisor writes it.
func TestCycleKnowsTheWorkersOfItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, said := &slowListing{fakeStore: newFakeStore()}, &notes{}
		start(t, Config{
			Source: newFakeSource("0"), Leases: leases, Handler: &collector{}, Notify: said.add, RequestTimeout: 20 * time.Second,
		})
		pause(time.Second)
		leases.armed.Store(true)
		leases.setBefore(func(fakeWrite) error {
			if len(said.of(Released)) > 0 && int64(leases.listings()) == leases.last.Load() {
				t.Error("the cycle has acquired a lease that had a worker when the cycle began")
			}
			return nil
		})
		pause(time.Minute)
		if lost := said.of(Released); len(lost) != 1 || lost[0].Reason != Lost {
			t.Errorf("the releases are %+v; want the loss of the lease during the listing", lost)
		}
		if again := said.of(Acquired); len(again) != 2 {
			t.Errorf("the lease was acquired %d times; want once more after the next listing", len(again))
		}
	})
}

// The range of a lease was edited to everything. The host that owns it reads its one
// partition, and the other leases wait for the end of a split that never began. After two
// expirations the hosts must name them.
func TestLeasesThatWaitForAnEditedLeaseAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &notes{}
		leases := newFakeStore()
		start(t, Config{Source: newFakeSource("0", "1", "2"), Leases: leases, Handler: &collector{}, Notify: said.add})
		pause(time.Minute)
		leases.edit("1", func(l *lease.Lease) { l.Range = feed.Full() })
		named := func() (texts []string) {
			for _, n := range said.of(Failed) {
				if strings.Contains(n.Err.Error(), "wait for its end") {
					texts = append(texts, n.LeaseToken+": "+n.Err.Error())
				}
			}
			return texts
		}
		pause(100 * time.Second)
		if early := named(); len(early) > 0 {
			t.Errorf("a split may last so long, but these are notified: %q", early)
		}
		pause(time.Minute)
		if late := named(); len(late) == 0 || !strings.HasPrefix(late[0], "1: ") || !strings.Contains(late[0], "the leases 0, 2,") {
			t.Errorf("after more than two expirations, these are notified: %q", late)
		}
		leases.edit("1", func(l *lease.Lease) { l.Range = feed.Range{Min: border(1, 3), Max: border(2, 3)} })
		pause(time.Minute)
		before := len(named())
		pause(10 * time.Minute)
		if after := named(); len(after) > before {
			t.Errorf("the lease was repaired, and these are notified: %q", after[before:])
		}
	})
}

// Nobody can read the position of a lease. The failure must show it, because the source's
// error may not.
func TestFailedReadNamesThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource("0")
		source.fail = func(int, feed.Request) error { return errors.New("400 Bad Request") }
		leases := newFakeStore()
		leases.marker = time.Now()
		leases.put(lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: "no position"})
		_, said := idle(t, leases, Config{Source: source})
		if failures := said.of(Failed); len(failures) == 0 || !strings.Contains(failures[0].Err.Error(), "read 0 from continuation no position") {
			t.Errorf("notified %+v", failures)
		}
	})
}
