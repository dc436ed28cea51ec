package simulation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// These tests run our hosts together with hosts of other implementations. They show why a
// host waits after it steals a lease, and which actions of foreign hosts our hosts must
// survive. The rules judge every step.

// setForeignTakes sets the function that returns how long a foreign host's handler takes.
func (s *scene) setForeignTakes(f func(f *host, token string) time.Duration) {
	v := s.visitors()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.takes = f
}

// beOrderly makes the rule exclusive-use also judge our hosts beside foreign ones.
func (s *scene) beOrderly() {
	s.strictForeign = true
}

// foreignFleet returns a foreign host that owns all leases. One of our hosts creates the
// leases and leaves.
func (s *scene) foreignFleet(java bool) *foreign {
	s.t.Helper()
	first := s.join("first")
	s.initialised()
	s.add(20)
	s.sleep(30 * time.Second)
	first.leave()
	<-first.done
	f := s.visit(java, habits{})
	s.sleep(time.Minute)
	for _, l := range s.list().Leases {
		if l.Owner != f.instance {
			s.t.Fatalf("lease %s is owned by %q; want %s", l.Token, l.Owner, f.instance)
		}
	}
	return f
}

// ownedBy returns the leases whose Owner is the given text.
func (s *scene) ownedBy(owner string) []lease.Lease {
	var mine []lease.Lease
	for _, l := range s.list().Leases {
		if l.Owner != "" && l.Owner == owner {
			mine = append(mine, l)
		}
	}
	return mine
}

// stolenBy waits until host h has stolen a lease from a foreign host, and returns that
// lease.
func (s *scene) stolenBy(h *host) lease.Lease {
	s.t.Helper()
	for range 60 {
		if mine := s.ownedBy(h.text()); len(mine) > 0 {
			return mine[0]
		}
		s.sleep(time.Second)
	}
	s.t.Fatalf("%s has stolen nothing", h.id)
	return lease.Lease{}
}

// busy makes each handler call of a foreign host take ten minutes, and writes a change
// for every lease. It returns when the handlers are at work.
func (s *scene) busy() {
	s.setForeignTakes(func(*host, string) time.Duration { return 10 * time.Minute })
	for _, l := range s.list().Leases {
		s.addTo(s.keyIn(l.Range))
	}
	s.sleep(10 * time.Second)
}

// A foreign host owns a lease and is busy in its handler. Our host steals the lease. It
// must wait before it uses the lease, because the foreign host has not learned of the
// steal yet.
func TestStealWaitsForAHostThatIsBusyInItsHandler(t *testing.T) {
	play(t, func(s *scene) {
		s.beOrderly()
		s.foreignFleet(false)
		s.busy()
		h := s.join("ours")
		token := s.stolenBy(h).Token
		s.sleep(2 * s.times.expiration)
		s.setForeignTakes(nil)
		if l := s.lease(token); l.Owner != h.text() {
			s.t.Errorf("lease %s is owned by %q; want our host to keep it", token, l.Owner)
		}
		if s.ran(h) != 1 {
			s.t.Errorf("%d leases were used; want only the stolen one", s.ran(h))
		}
	})
}

// ran returns the number of workers that a host has started so far.
func (s *scene) ran(h *host) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs
}

// A foreign host uses a lease. Our host b steals it and stops during its wait. If b
// released the lease, our host c would acquire it at once, while the foreign host still
// uses it. So b leaves the lease to expire.
func TestStopDuringTheWaitAfterAStealReleasesNothing(t *testing.T) {
	play(t, func(s *scene) {
		s.beOrderly()
		s.foreignFleet(false)
		s.busy()
		b := s.join("b")
		token := s.stolenBy(b).Token
		s.sleep(time.Second)
		b.leave()
		c := s.join("c")
		<-b.done
		if l := s.lease(token); l.Owner != b.text() {
			s.t.Errorf("lease %s is owned by %q after the host that stole it has stopped; want the lease to expire", token, l.Owner)
		}
		s.sleep(s.times.takeover() - 5*time.Second)
		if l := s.lease(token); l.Owner != b.text() {
			s.t.Errorf("lease %s is owned by %q before it has expired", token, l.Owner)
		}
		s.setForeignTakes(nil)
		s.sleep(2 * s.times.acquire)
		if l := s.lease(token); l.Owner == b.text() || l.Owner == "" {
			s.t.Errorf("lease %s is owned by %q after it has expired", token, l.Owner)
		}
		_ = c
	})
}

// Our host steals a lease from a foreign host. While it waits, the lease document is
// deleted, and a foreign host recreates it and uses the lease. After its wait our host
// must not use the lease.
func TestLeaseRecreatedDuringTheWaitIsNotUsed(t *testing.T) {
	play(t, func(s *scene) {
		s.beOrderly()
		f := s.foreignFleet(false)
		wrote := s.ownedBy(f.instance)[0].Modified
		h := s.join("ours")
		stolen := s.stolenBy(h)
		_ = wrote
		// Continue just before the wait ends, after the last renewal during the wait.
		for range 200 {
			if l := s.lease(stolen.Token); l.Modified.Sub(stolen.Modified) >= 39*time.Second {
				break
			}
			s.sleep(time.Second)
		}
		s.deleteByHand(stolen.Token)
		again := stolen
		again.Owner = f.instance
		made, err := s.operator.Create(s.t.Context(), again)
		if err != nil {
			s.t.Fatal(err)
		}
		s.operates(opCreate, again, made)
		using, stop := context.WithCancel(s.t.Context())
		defer stop()
		u := s.begins(using, &use{host: f.host, token: stolen.Token, keys: stolen.Range, what: usePage, asked: s.since()})
		s.sleep(40 * time.Second)
		if n := s.ran(h); n != 0 {
			s.t.Errorf("%d leases are used; another host owns the document", n)
		}
		if l := s.lease(stolen.Token); l.Owner != f.instance {
			s.t.Errorf("lease %s is owned by %q; want the foreign host that recreated it", l.Token, l.Owner)
		}
		s.ends(u)
	})
}

// A Java owner that has written a null timestamp dies. Java reads a null timestamp as
// now, so no Java host would ever take the lease. Our hosts use the store's time of the
// write, so for them the lease expires.
func TestLeaseWithoutATimestampExpiresWhenItsJavaOwnerDies(t *testing.T) {
	play(t, func(s *scene) {
		f := s.foreignFleet(true)
		for _, l := range s.list().Leases {
			if !l.Timestamp.IsZero() {
				s.t.Fatalf("lease %s has the timestamp %s; want none", l.Token, l.Timestamp)
			}
		}
		f.crash()
		h := s.join("ours")
		s.sleep(s.times.takeover() + 2*s.times.acquire)
		if n := s.owned(h); n != 2 {
			s.t.Errorf("the host owns %d of the crashed host's 2 leases", n)
		}
		for _, l := range s.list().Leases {
			if age := time.Since(l.Timestamp); age > s.times.renew+time.Second {
				s.t.Errorf("lease %s has the timestamp %s, by which Java and .NET judge, %s ago", l.Token, l.Timestamp, age)
			}
		}
		if n := s.redelivered(); n > 0 {
			s.t.Errorf("%d changes were delivered twice, although the crashed host was idle", n)
		}
	})
}

// Java's stop releases the host's leases while its handlers still run. Our host acquires
// such a lease and works at the same time as those handlers. No change is lost, because
// their results no longer change the lease.
func TestReleasedLeaseWhoseHandlerStillRunsLosesNothing(t *testing.T) {
	play(t, func(s *scene) {
		f := s.foreignFleet(true)
		s.busy()
		s.setForeignTakes(func(*host, string) time.Duration { return 10 * time.Minute })
		f.cancel()
		s.sleep(5 * time.Second)
		if n := len(s.ownedBy("")) + len(s.ownedBy(f.instance)); n != 0 {
			s.t.Fatalf("%s still has %d leases after its stop", f.instance, n)
		}
		h := s.join("ours")
		s.sleep(30 * time.Second)
		if n := s.owned(h); n != 2 {
			s.t.Errorf("the host owns %d of 2 free leases", n)
		}
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes wait for a handler that was abandoned", n)
		}
		before := s.list().Leases
		s.sleep(10 * time.Minute) // the handlers return
		if s.redelivered() == 0 {
			s.t.Error("nothing was handled twice; want the handlers to continue")
		}
		for i, l := range s.list().Leases {
			if l.Owner != h.text() || s.view().lsn(l) < s.view().lsn(before[i]) {
				s.t.Errorf("lease %s of %q went from %s to %s", l.Token, l.Owner, before[i].Continuation, l.Continuation)
			}
		}
	})
}

// A Java host acquires a lease from an old listing, and so writes back an old position.
// The changes after that position are delivered again. No change is lost, and our hosts
// resume from the old position.
func TestPositionThatJavaWritesBackIsDeliveredAgain(t *testing.T) {
	play(t, func(s *scene) {
		turn := func(n int) {
			h := s.join("ours")
			s.initialised()
			s.add(n)
			s.sleep(30 * time.Second)
			h.leave()
			<-h.done
		}
		turn(20)
		listed := s.lease("0")
		turn(20)
		released := s.lease("0")
		if s.view().lsn(released) <= s.view().lsn(listed) || s.redelivered() > 0 {
			s.t.Fatalf("the lease went from %s to %s", listed.Continuation, released.Continuation)
		}
		f := s.visit(true, habits{})
		s.sleep(5 * time.Second) // the foreign host has opened the leases but not listed them yet
		f.take(s.t.Context(), listed)
		l := s.lease("0")
		if l.Owner != f.instance || l.Continuation != listed.Continuation {
			s.t.Fatalf("lease 0 of %q is at %s; want the position of the old listing, %s", l.Owner, l.Continuation, listed.Continuation)
		}
		f.crash()
		h := s.join("ours")
		s.add(10)
		s.sleep(s.times.takeover() + 2*s.times.acquire)
		if s.owned(h) != 2 || s.missing() > 0 || s.redelivered() == 0 {
			s.t.Errorf("%d leases of 2, %d changes missing, %d delivered again", s.owned(h), s.missing(), s.redelivered())
		}
	})
}

// Our host acquires a lease, and a foreign host clears the owner before our host receives
// the answer. Another of our hosts acquires the free lease. The first host starts work,
// and must stop when its next write shows that it has lost the lease.
func TestOwnerClearedBeforeItsAcquireIsAnsweredIsALoss(t *testing.T) {
	play(t, func(s *scene) {
		first := s.join("first")
		s.initialised()
		s.add(20)
		s.sleep(30 * time.Second)
		first.leave()
		<-first.done
		f := s.visit(false, habits{})
		s.sleep(2 * time.Second) // the foreign host has opened the leases but not listed them yet
		s.setFaults(func(c call, _ *draw, fault *fault) {
			if c.op == opUpdate && c.n == 1 && c.host != f.host {
				fault.back = 4 * time.Second
			}
		})
		slow := s.join("slow")
		s.sleep(time.Second)
		owner := s.lease("0").Owner
		if owner != slow.text() || s.ran(slow) > 0 {
			s.t.Fatalf("lease 0 is owned by %q, and %d leases are used; want %s, and none used before the answer", owner, s.ran(slow), slow.text())
		}
		s.setFaults(nil)
		f.clear(s.t.Context(), "0", owner)
		f.crash()
		quick := s.join("quick")
		s.sleep(time.Second)
		if l := s.lease("0"); l.Owner != quick.text() || s.ran(slow) > 0 {
			s.t.Fatalf("lease 0 is owned by %q, and the first owner uses %d leases", l.Owner, s.ran(slow))
		}
		s.sleep(s.times.takeover())
		if s.ran(slow) != 1 || s.owned(quick) != 1 {
			s.t.Errorf("the first owner used %d leases; want the one that was freed", s.ran(slow))
		}
	}, partitions(1))
}

// Java drops the start that we keep in a lease document until the lease has a position.
// The lease's partition splits before any host has read it. The children must start at
// the start in our hosts' configuration.
func TestChildrenOfALeaseWhoseStartJavaDroppedStartAsConfigured(t *testing.T) {
	play(t, func(s *scene) {
		s.add(20)
		s.setFaults(func(c call, _ *draw, f *fault) { f.lost = c.op == opRead })
		first := s.join("first")
		s.initialised()
		first.leave()
		<-first.done
		f := s.visit(true, habits{})
		s.sleep(time.Minute)
		if l := s.lease("0"); l.Owner != f.instance || l.Continuation != "" || l.Properties[lease.PropertyStart] != "" {
			s.t.Fatalf("lease 0 of %q is at %q and starts at %q; want no position and no start, and owner %s", l.Owner, l.Continuation, l.Properties[lease.PropertyStart], f.instance)
		}
		s.split("0")
		f.crash()
		s.setFaults(nil)
		s.join("ours")
		s.sleep(s.times.takeover() + 2*s.times.acquire + time.Minute)
		if n := len(s.list().Leases); n != 2 || s.missing() > 0 || s.redelivered() > 0 {
			s.t.Errorf("%d leases of 2, %d changes missing, %d delivered again", n, s.missing(), s.redelivered())
		}
	}, partitions(1), from(feed.Beginning()))
}

// When a .NET host fails to acquire a lease, it clears the owner that it had listed. Our
// host, which was that owner, then stops its worker, and acquires the lease again.
func TestOwnerClearedByAFailedStealIsALoss(t *testing.T) {
	play(t, func(s *scene) {
		h := s.join("ours")
		s.initialised()
		s.add(20)
		s.sleep(30 * time.Second)
		f := s.visit(false, habits{})
		s.sleep(2 * time.Second)
		owner := s.lease("0").Owner
		s.setFaults(func(c call, _ *draw, fault *fault) {
			if c.host == f.host && c.op == opUpdate && c.n == 1 {
				fault.refusal = errInternal
			}
		})
		f.take(s.t.Context(), s.lease("0"))
		if l := s.lease("0"); l.Owner != "" {
			s.t.Fatalf("lease 0 is owned by %q; want %q cleared", l.Owner, owner)
		}
		f.crash()
		s.sleep(s.times.renew + 2*s.times.acquire)
		s.add(20)
		s.sleep(30 * time.Second)
		if s.owned(h) != 2 || s.missing() > 0 {
			s.t.Errorf("%d leases of 2, %d changes missing", s.owned(h), s.missing())
		}
		lost := 0
		for _, n := range s.notesOf(h) {
			if n.Event == changefeed.Released && n.Reason == changefeed.Lost {
				lost++
			}
			if n.Event == changefeed.Failed {
				s.t.Errorf("notified as a failure: %v", n.Err)
			}
		}
		if lost != 1 {
			s.t.Errorf("%d leases were lost; want 1", lost)
		}
	})
}

// Foreign hosts are replaced by ours one by one, and then ours by foreign ones, under
// load. Hosts of both kinds get their share of the leases, then no lease moves, and every
// change is handled.
func TestFleetMovesFromAnotherImplementationAndBack(t *testing.T) {
	for _, java := range []bool{false, true} {
		t.Run(fmt.Sprintf("Java %t", java), func(t *testing.T) {
			play(t, func(s *scene) {
				one := s.foreignFleet(java)
				two := s.visit(java, habits{})
				s.add(20)
				s.shares("two foreign hosts", one.host, two.host)
				a := s.join("a")
				s.add(20)
				s.shares("one of our hosts joins", one.host, two.host, a)
				two.crash()
				b := s.join("b")
				s.add(20)
				s.shares("a foreign host crashes, and another of our hosts joins", one.host, a, b)
				s.dismiss(one.host)
				s.shares("only our hosts", a, b)
				s.add(20)
				three := s.visit(java, habits{})
				s.shares("a foreign host joins again", three.host, a, b)
				a.leave()
				s.add(20)
				s.shares("one of our hosts leaves", three.host, b)
				b.leave()
				s.shares("our other host leaves", three.host)
				if n := s.missing(); n > 0 {
					s.t.Errorf("%d changes missing", n)
				}
			}, partitions(6))
		})
	}
}

// shares waits until the hosts of both kinds have balanced shares of the leases. It then
// checks that no lease moves.
func (s *scene) shares(what string, hosts ...*host) {
	s.t.Helper()
	s.sleep(3 * s.times.takeover())
	since := time.Now()
	s.sleep(5 * s.times.acquire)
	leases := s.list().Leases
	low, high := len(leases)/len(hosts), (len(leases)+len(hosts)-1)/len(hosts)
	for _, h := range hosts {
		if n := len(s.ownedBy(h.text())); n < low || n > high {
			s.t.Errorf("%s: %s has %d of %d leases", what, h.text(), n, len(leases))
		}
	}
	s.rests(restStable, since)
}
