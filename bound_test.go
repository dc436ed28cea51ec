package changefeed

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// reread is a processor whose source refuses its start time, so it reads from the
// beginning. The partition has 45 changes, of which the first 40 are older than the start
// time. The reads stop after change 20 until the test clears blocked.
type reread struct {
	t      *testing.T
	source *fakeSource
	leases *fakeStore
	cfg    Config
	host   *running
	// blocked makes reads from position 20 fail while it is true.
	blocked atomic.Bool
	// gone is the ID of the partition whose reads report that it was split, or "".
	gone atomic.Value
}

// newReread starts the processor and waits until its lease is at position 20. It calls
// early after the first read and before the first position is written.
func newReread(t *testing.T, early func(r *reread)) *reread {
	t.Helper()
	r := &reread{t: t, source: onePartition(40), leases: newFakeStore()}
	pause(time.Hour)
	r.source.write("0", 5) // in the same second as the start time
	r.gone.Store("")
	r.blocked.Store(true)
	r.source.fail = r.fail
	r.cfg = Config{Source: r.source, Leases: r.leases, Start: feed.At(time.Now()), MaxItems: 10, Handler: &collector{}}
	r.host = start(t, r.cfg)
	pause(time.Second)
	early(r)
	pause(20 * time.Second)
	if at := r.leases.doc("0").Continuation; at != "20" {
		t.Fatalf("the lease is at %q; want 20", at)
	}
	return r
}

func (r *reread) fail(_ int, request feed.Request) error {
	switch {
	case request.Partition.ID == r.gone.Load():
		return &feed.GoneError{Partition: request.Partition.ID}
	case request.From.Kind() == feed.StartTime:
		return fmt.Errorf("start time on a merged partition: %w", feed.ErrUnsupported)
	case r.blocked.Load() && request.From.Continuation() == "20":
		return errors.New("503")
	}
	return nil
}

func (r *reread) restart(from feed.Start) {
	if err := r.host.end(); err != nil {
		r.t.Error(err)
	}
	r.cfg.Start = from
	r.host = start(r.t, r.cfg)
}

// If the source refuses the start time, the lease stores that time as its bound. Every
// later owner of the lease must drop the changes before the bound. Otherwise thousands of
// older changes would be delivered after a restart.
func TestRefusedStartTimeBoundsEveryLaterOwner(t *testing.T) {
	nothing := func(*reread) {}
	for _, c := range []struct {
		name        string
		early, then func(r *reread)
	}{
		{"the same host", nothing, nothing},
		{"a restart", nothing, func(r *reread) { r.restart(r.cfg.Start) }},
		{"a restart with another start", nothing, func(r *reread) { r.restart(feed.Now()) }},
		{"a hand-over", nothing, func(r *reread) { r.leases.edit("0", wantLease) }},
		{"a crash", nothing, func(r *reread) {
			r.leases.edit("0", func(l *lease.Lease) { l.Owner = "" })
		}},
		{"a split", nothing, func(r *reread) {
			r.gone.Store("0")
			r.source.split("0", "1", "2")
			r.source.mu.Lock()
			r.source.fail = r.fail
			r.source.mu.Unlock()
		}},
		{"a deletion by hand", nothing, func(r *reread) {
			r.leases.mu.Lock()
			delete(r.leases.docs, "lease-0")
			r.leases.mu.Unlock()
			pause(20 * time.Second)
			if protocol.Bound(r.leases.doc("0")).IsZero() {
				r.t.Error("the lease was put back without its bound")
			}
			r.restart(r.cfg.Start)
		}},
		{"an edit before the first position is written", func(r *reread) {
			r.leases.edit("0", func(l *lease.Lease) { l.Properties = map[string]string{"note": "x"} })
		}, func(r *reread) { r.restart(feed.Now()) }},
		{"a stop before the first position is written", func(r *reread) { r.restart(feed.Now()) }, nothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReread(t, c.early)
				c.then(r)
				pause(time.Second)
				r.blocked.Store(false)
				pause(2 * time.Minute)
				if got := r.cfg.Handler.(*collector).got(); !slices.Equal(got, []int64{41, 42, 43, 44, 45}) {
					t.Errorf("got %v; want 41 to 45", got)
				}
			})
		})
	}
}

// A Java host that writes a lease drops its properties, and with them the bound. The next
// host must not lose a change. It delivers the older changes that were not read yet.
func TestOlderChangesAreDeliveredAgainWhenAForeignHostDropsTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReread(t, func(*reread) {})
		if err := r.host.end(); err != nil {
			t.Error(err)
		}
		r.leases.edit("0", func(l *lease.Lease) { l.Properties = nil })
		r.blocked.Store(false)
		r.host = start(t, r.cfg)
		pause(time.Minute)
		if got := r.cfg.Handler.(*collector).got(); !slices.Equal(got, to(45)[20:]) {
			t.Errorf("got %v; want 21 to 45", got)
		}
	})
}

// A host recreates a missing lease with the marker's time as its start, by the lease
// store's clock. If that clock is fast, newer changes look older than the start. They
// must not be dropped, so such a lease gets no bound.
func TestHealedLeaseHasNoBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(5), newFakeStore(), &collector{}
		source.fail = func(_ int, r feed.Request) error {
			if r.From.Kind() == feed.StartTime {
				return fmt.Errorf("start time on a merged partition: %w", feed.ErrUnsupported)
			}
			return nil
		}
		leases.marker = time.Now().Add(time.Minute)
		start(t, Config{Source: source, Leases: leases, Handler: h})
		pause(5 * time.Minute)
		if got := h.got(); !slices.Equal(got, to(5)) {
			t.Errorf("got %v; want all five", got)
		}
		if doc := leases.doc("0"); !protocol.Bound(doc).IsZero() || doc.Properties[lease.PropertyStart] == "" {
			t.Errorf("the healed lease has %v; want a start and no bound", doc.Properties)
		}
	})
}

// A lease that exists keeps its own start time, even if Config.Start is later. If the
// source refuses the lease's start time, no change after that time may be dropped.
func TestRefusedStartTimeOfALeaseIsNotReplacedByALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := onePartition(5), newFakeStore(), &collector{}
		source.fail = func(_ int, r feed.Request) error {
			if r.From.Kind() == feed.StartTime {
				return fmt.Errorf("start time on a merged partition: %w", feed.ErrUnsupported)
			}
			return nil
		}
		leases.marker = time.Now()
		whole := lease.Lease{ID: "lease-0", Token: "0", PartitionID: "0", Range: feed.Full()}
		leases.put(protocol.StartingAt(whole, feed.At(time.Now().Add(-time.Minute))))
		pause(time.Hour)
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: feed.At(time.Now())})
		pause(time.Minute)
		if got := h.got(); !slices.Equal(got, to(5)) {
			t.Errorf("got %v; want all five", got)
		}
	})
}

// javaStore is a fakeStore in the dialect JavaLatestVersion, whose positions contain the
// start time.
type javaStore struct{ *fakeStore }

func (javaStore) Dialect() lease.Dialect { return lease.JavaLatestVersion }

// In the dialect JavaLatestVersion every read sends the start time with the position.
// After a merge the source refuses that time. The host must then read by position alone
// and drop changes before the time.
func TestStartTimeRefusedWithAPositionBecomesABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, h := newFakeSource("0"), javaStore{newFakeStore()}, &collector{}
		pause(time.Hour)
		source.write("", 5) // the fake keeps the changes of an EPK lease here
		var merged atomic.Bool
		source.fail = func(_ int, r feed.Request) error {
			if merged.Load() && !r.From.Since().IsZero() {
				return fmt.Errorf("start time on a merged partition: %w", feed.ErrUnsupported)
			}
			return nil
		}
		cfg := Config{Source: source, Leases: leases, Handler: h, Start: feed.At(time.Now()), MaxItems: 1, PollInterval: time.Second}
		host := start(t, cfg)
		pause(time.Minute)
		merged.Store(true)
		pause(time.Minute)
		old := feed.Change{Time: time.Now().Add(-2 * time.Hour)}
		source.append(old, 3)
		pause(time.Minute)
		if err := host.end(); err != nil {
			t.Error(err)
		}
		source.append(old, 3)
		source.write("", 2)
		cfg.Start = feed.Now()
		start(t, cfg)
		pause(time.Minute)
		if got := h.got(); !slices.Equal(got, []int64{1, 2, 3, 4, 5, 12, 13}) {
			t.Errorf("got %v; want 1 to 5, 12 and 13", got)
		}
	})
}

// append adds n copies of the change c to the log "", from which EPK leases are read.
func (s *fakeSource) append(c feed.Change, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		c.LSN = int64(len(s.logs[""]) + 1)
		s.logs[""] = append(s.logs[""], c)
	}
}

// The partition of a lease splits after the source refused the start time, and before the
// bound is written. The leases of the children must be created with the bound.
func TestChildrenInheritABoundThatIsNotWrittenYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reread{t: t, source: onePartition(5), leases: newFakeStore()}
		r.gone.Store("")
		r.source.fail = func(n int, request feed.Request) error {
			err := r.fail(n, request)
			r.gone.Store("0") // takes effect after the read that refused the start
			return err
		}
		r.leases.before = func(w fakeWrite) error {
			switch {
			case w.op == "create" && w.lease.Token != "0" && protocol.Bound(w.lease).IsZero():
				t.Errorf("child %s is created with %v; want a bound", w.lease.Token, w.lease.Properties)
			case w.op == "update" && w.lease.Token == "0" && w.lease.Owner != "":
				refused := r.source.fail
				r.source.split("0", "1", "2")
				r.source.mu.Lock()
				defer r.source.mu.Unlock()
				r.source.fail = refused
			}
			return nil
		}
		start(t, Config{Source: r.source, Leases: r.leases, Start: feed.At(time.Now()), Handler: &collector{}})
		pause(10 * time.Second)
		if r.leases.doc("1").Token == "" {
			t.Error("the lease was not split")
		}
	})
}
