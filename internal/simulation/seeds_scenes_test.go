package simulation

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Each test in this file replays what a seed of the simulation found, reduced to its cause
// and at chosen times. Unlike the seed, a test stays the same when the simulation changes.
// The numbers are those of the seeds at commit 1402a24.

// Seed 5051544; the processor was wrong.
//
// A host that wants a lease dies, and the lease becomes shadowed for good. Its owner stops
// and releases it, but the lease stays wanted until somebody acquires it, and nobody acquires
// a shadowed lease. If it counted as wanted, the living hosts would leave a share of the
// leases to the dead one forever.
func TestShadowedLeaseThatADeadHostWantsTakesNoShare(t *testing.T) {
	play(t, func(s *scene) {
		first := s.join("first")
		s.initialised()
		for _, pair := range [][2]string{{"0", "1"}, {"2", "3"}, {"4", "5"}, {"6", "7"}, {"8", "9"}} {
			s.merge(pair[0], pair[1])
		}
		s.sleep(2 * s.times.acquire)
		wanted := make(chan string, 1)
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.host != first && c.op == opUpdate { // by its first write the host wants a lease
				f.crash = crashAfter
				wanted <- c.key
			}
		})
		dead := s.join("dead")
		<-dead.dead
		s.setFaults(nil)
		s.shadow(s.lease(<-wanted))
		s.sleep(s.times.recovery())
		if left := s.wanted(); len(left) != 1 || left[0].Owner != "" || protocol.Instance(left[0].Wanted()) != "dead" {
			s.t.Fatalf("the wanted leases are %+v; want one, free and wanted by the dead host", left)
		}
		second := s.join("second")
		s.sleep(s.times.recovery())
		// Four partitions have two leases each, and one lease shadows those of the fifth.
		if one, two := s.owned(first), s.owned(second); min(one, two) != 4 || max(one, two) != 5 {
			s.t.Errorf("two hosts own %d and %d of 9 leases; want 4 and 5", one, two)
		}
		if left := s.wanted(); len(left) != 1 {
			s.t.Errorf("%d leases are wanted; the shadowed one should be", len(left))
		}
	}, partitions(10))
}

// shadow creates the lease of the whole partition in which l lies, as the delayed create
// of a host may that covers two leases of a merged partition at once.
func (s *scene) shadow(l lease.Lease) {
	s.t.Helper()
	for _, p := range s.engine.partitions() {
		if !p.Range.Contains(l.Range) {
			continue
		}
		made, err := s.operator.Create(s.t.Context(), lease.Lease{Token: p.ID, PartitionID: p.ID, Range: p.Range, Continuation: continuation(0)})
		if err != nil {
			s.t.Fatal(err)
		}
		s.operates(opCreate, made, made)
		return
	}
	s.t.Fatalf("lease %s lies in no partition", l.Token)
}

// wanted returns the leases that a host wants.
func (s *scene) wanted() []lease.Lease {
	return slices.DeleteFunc(s.list().Leases, func(l lease.Lease) bool { return l.Wanted() == "" })
}

// Seed 5055215; the checker was wrong.
//
// A host loses its lease in an outage and acquires it again after the lease has expired.
// Between the listing and the write of the acquire, the store's clock is set back. Only
// the clock of the listing judges the age of a lease, so the host uses the lease, although
// the store would now give it a negative age.
func TestLeaseThatWasListedAsExpiredIsUsedThoughTheClockIsSetBack(t *testing.T) {
	play(t, func(s *scene) {
		h := s.join("first")
		s.initialised()
		s.add(10)
		s.sleep(time.Minute)
		s.setFaults(leasesUnavailable)
		s.sleep(2 * s.times.expiration)
		lost := s.lease("0")
		back := nth(1)
		s.setFaults(func(c call, _ *draw, _ *fault) {
			if c.op == opUpdate && back() {
				s.jumpStoreClock(-2 * s.times.expiration)
			}
		})
		s.add(10)
		s.sleep(2*s.times.acquire + time.Second)
		if l := s.lease("0"); l.Owner != lost.Owner || !l.Modified.Before(lost.Modified.Add(s.times.takeover())) {
			s.t.Fatalf("lease 0 was written by %q at %s, then by %q at %s; want the same owner, and a time before the expiration",
				lost.Owner, lost.Modified, l.Owner, l.Modified)
		}
		if got := s.eventsOf(h, "0"); !slices.Equal(got, []string{"acquired", "lost", "acquired"}) {
			s.t.Errorf("lease 0 was %s; want it acquired, lost, and acquired again", strings.Join(got, ", "))
		}
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes wait, although the host has acquired the lease again", n)
		}
	}, partitions(1), jumpingClock())
}

// leasesUnavailable is a fault of every call to the lease store.
func leasesUnavailable(c call, _ *draw, f *fault) {
	if isLeaseOp(c.op) {
		f.refusal = errUnavailable
	}
}

// eventsOf returns how host h acquired and lost a lease, in the order of its notifications.
func (s *scene) eventsOf(h *host, token string) []string {
	var events []string
	for _, n := range s.notesOf(h) {
		switch {
		case n.LeaseToken != token:
		case n.Event == changefeed.Acquired:
			events = append(events, "acquired")
		case n.Event == changefeed.Released:
			events = append(events, n.Reason.String())
		}
	}
	return events
}

// Seed 5006397; the checker was wrong.
//
// The create of a lease arrives after the lease has been split. Its host cannot list the
// leases, and its leases of the children expire, while one of those partitions splits, too.
// When the host acquires the parent again, the lease of the partition that is gone is a
// leftover, which it deletes. The lease still names the host as its owner. That text gives
// no right to it, but it does not protect it from its former owner either.
func TestLeftoverWithTheHostsOwnExpiredLeaseIsDeleted(t *testing.T) {
	play(t, func(s *scene) {
		late := nth(1)
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.op == opCreate && late() {
				f.late = time.Minute
			}
		})
		h := s.join("first")
		s.initialised()
		s.split("0")
		s.sleep(s.times.acquire)
		if got, want := s.tokens(), "1 2"; got != want {
			s.t.Fatalf("the leases are %s after the split; want %s", got, want)
		}
		s.setFaults(leasesUnavailable)
		s.add(10)
		s.sleep(time.Minute)
		s.split("2")
		s.sleep(s.times.expiration)
		if got, want := s.tokens(), "0 1 2"; got != want {
			s.t.Fatalf("the leases are %s after the late create; want %s", got, want)
		}
		if l := s.lease("2"); l.Owner != h.text() {
			s.t.Fatalf("lease 2 is owned by %q; want it left with the host, %q", l.Owner, h.text())
		}
		s.setFaults(nil)
		s.sleep(2 * s.times.acquire)
		if got, want := s.tokens(), "1 3 4"; got != want {
			s.t.Errorf("the leases are %s after the host has acquired the parent again; want %s", got, want)
		}
		if n := s.owned(h); n != 3 {
			s.t.Errorf("the host owns %d of the 3 leases", n)
		}
	}, partitions(1))
}

// Seed 5019755; the checker was wrong.
//
// A lease of a range lies over two partitions. While its host looks for leftovers, the
// partitions merge back, so the lease is not gone any more. The host continues with the
// children that it has cut. The create of the first one arrives twice, so its answer is
// that the child exists, and the host writes that child as it is.
func TestChildThatExistsIsWrittenThoughThePartitionsHaveMergedBack(t *testing.T) {
	play(t, func(s *scene) {
		var split, cut atomic.Bool
		back := nth(1)
		s.arrived = func(c call) {
			switch {
			case split.Load() && c.op == opPartitions:
				cut.Store(true)
			case cut.Load() && c.op == opList && back():
				parts := s.engine.partitions()
				s.merge(parts[1].ID, parts[2].ID)
			}
		}
		h := s.join("first")
		s.initialised()
		s.merge("0", "1")
		s.sleep(s.times.acquire)
		s.split(s.engine.partitions()[0].ID) // at the border of the two leases, which are of ranges now
		s.sleep(s.times.acquire)
		twice := nth(1)
		s.setFaults(func(c call, _ *draw, f *fault) { f.again = c.op == opCreate && twice() })
		split.Store(true)
		s.split(s.engine.partitions()[1].ID)
		s.add(20)
		s.sleep(2 * s.times.acquire)
		if n := len(s.engine.partitions()); n != 2 {
			s.t.Fatalf("%d partitions; want the last split undone by a merge", n)
		}
		leases := s.list().Leases
		slices.SortFunc(leases, func(a, b lease.Lease) int { return strings.Compare(a.Range.Min, b.Range.Min) })
		if len(leases) != 3 || s.owned(h) != 3 {
			s.t.Fatalf("%d leases, of which the host owns %d; want the left one and two children", len(leases), s.owned(h))
		}
		if child := leases[1].Token; s.answers(h, opCreate, child, "its owner is nobody") != 1 {
			s.t.Errorf("the create of child %s was not answered with a free lease", child)
		}
		if n := s.missing() + s.redelivered(); n > 0 {
			s.t.Errorf("%d changes missing, %d redelivered", s.missing(), s.redelivered())
		}
	})
}

// answers returns the number of calls of host h whose answer contains a text. op is the
// operation of the call, and key its object.
func (s *scene) answers(h *host, op, key, text string) int {
	n := 0
	for line := range strings.Lines(s.trace.String()) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == h.id && f[2] == op && f[3] == key && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Seed 5011724; the checker was wrong about the begin of the call, and the processor about its
// end, which it did not bring about.
//
// A host calls the Open of an observer while it trusts the lease, and is suspended before
// the call has begun. When it resumes, its trust has ended, but it has had no moment to look
// at its clocks. So the call begins after the end of trust, once. The host must notice that
// within a second. It reads nothing and delivers nothing, and acquires the lease again.
func TestOpenThatASuspensionDelaysBeyondTrustDeliversNothing(t *testing.T) {
	play(t, func(s *scene) {
		var attempt, opened time.Time
		first := nth(1)
		s.failsOpens(func(_ *host, _ lease.Lease, what string) opening {
			if what != "open" {
				return opening{}
			}
			opened = time.Now()
			return opening{takes: time.Hour}
		})
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.op == opUpdate && first() {
				// The suspension begins while the answer is on its way, so that the timers of
				// the trust lag behind the wall clock.
				attempt, f.back = time.Now(), 5500*time.Millisecond
			}
		})
		h := s.join("first")
		s.sleep(time.Second)
		s.add(10)
		h.clock.suspend(h)
		h.pause()
		// The host looks at its clocks half a second before and after each full one.
		s.sleep(time.Until(attempt.Add(s.times.trust() + 100*time.Millisecond)))
		h.resume()
		s.sleep(2 * time.Second)
		if late := opened.Sub(attempt) - s.times.trust(); opened.IsZero() || late <= 0 {
			s.t.Fatalf("the observer was opened %s after the end of trust; want it opened then", late)
		}
		if got := s.eventsOf(h, "0"); !slices.Equal(got, []string{"acquired", "lost"}) {
			s.t.Errorf("lease 0 was %s; want it acquired and lost", strings.Join(got, ", "))
		}
		if n := s.missing(); n != 10 {
			s.t.Errorf("%d changes of 10 wait for the next owner", n)
		}
		s.failsOpens(func(*host, lease.Lease, string) opening { return opening{} })
	}, partitions(1))
}
