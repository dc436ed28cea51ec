package changefeedtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Our hosts beside those of other implementations: why a stolen lease is waited for,
// and what the others do that we have to survive. The checker judges all of it.

// setStrangersTake sets how long foreign handlers take.
func (s *scene) setStrangersTake(f func(f *host, token string) time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strangersTake = f
}

// beOrderly has exclusive use judged between ours and foreign hosts, too.
func (s *scene) beOrderly() {
	s.check.mu.Lock()
	defer s.check.mu.Unlock()
	s.check.orderly = true
}

// foreignFleet lets a host of ours make the leases, and leave them to a foreign one.
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

// ownedBy are the leases of an owner.
func (s *scene) ownedBy(owner string) []lease.Lease {
	var mine []lease.Lease
	for _, l := range s.list().Leases {
		if l.Owner != "" && l.Owner == owner {
			mine = append(mine, l)
		}
	}
	return mine
}

// stolenBy waits until a host of ours has stolen a lease.
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

// busy has the handlers of foreign hosts work until they are told to end.
func (s *scene) busy() {
	s.setStrangersTake(func(*host, string) time.Duration { return 10 * time.Minute })
	for _, l := range s.list().Leases {
		s.addTo(s.keyIn(l.Range))
	}
	s.sleep(10 * time.Second)
}

// A acquires; B steals and starts at once; A doesn't know yet, and is busy in its handler.
func TestStealWaitsForAHostThatIsBusyInItsHandler(t *testing.T) {
	play(t, func(s *scene) {
		s.beOrderly()
		s.foreignFleet(false)
		s.busy()
		h := s.join("ours")
		token := s.stolenBy(h).Token
		s.sleep(2 * s.times.expiration)
		s.setStrangersTake(nil)
		if l := s.lease(token); l.Owner != h.text() {
			s.t.Errorf("lease %s is owned by %q; want ours to keep it", token, l.Owner)
		}
		if s.ran(h) != 1 {
			s.t.Errorf("%d leases were worked on; want the stolen one", s.ran(h))
		}
	})
}

// ran is how many workers a host has begun.
func (s *scene) ran(h *host) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs
}

// A acquires; B steals, waits, stops and releases; C takes the free lease at once; A
// still uses it.
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
			s.t.Errorf("lease %s is owned by %q after the host that stole it has stopped; want it left to expire", token, l.Owner)
		}
		s.sleep(s.times.takeover() - 5*time.Second)
		if l := s.lease(token); l.Owner != b.text() {
			s.t.Errorf("lease %s is owned by %q before it has expired", token, l.Owner)
		}
		s.setStrangersTake(nil)
		s.sleep(2 * s.times.acquire)
		if l := s.lease(token); l.Owner == b.text() || l.Free() {
			s.t.Errorf("lease %s is owned by %q after it has expired", token, l.Owner)
		}
		_ = c
	})
}

// A acquires; B steals; the document is deleted; A, or somebody of its kind, makes it
// anew and uses it; B's wait ends unnoticed.
func TestLeaseThatWasMadeAnewDuringTheWaitIsNotUsed(t *testing.T) {
	play(t, func(s *scene) {
		s.beOrderly()
		f := s.foreignFleet(false)
		wrote := s.ownedBy(f.instance)[0].Modified
		h := s.join("ours")
		stolen := s.stolenBy(h)
		_ = wrote
		// Up to the moment before the wait ends, behind the last renewal in it.
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
		s.check.operatorWrites(made)
		using, stop := context.WithCancel(s.t.Context())
		defer stop()
		u := s.check.foreignBegins(using, f.host, stolen.Token, stolen.Range)
		s.sleep(40 * time.Second)
		if n := s.ran(h); n != 0 {
			s.t.Errorf("%d leases are worked on; their document is another's", n)
		}
		if l := s.lease(stolen.Token); l.Owner != f.instance {
			s.t.Errorf("lease %s is owned by %q; want it left to who made it", l.Token, l.Owner)
		}
		s.check.ends(u)
	})
}

// A Java host's null timestamp: Java reads it as now, and for Java its lease never
// expires. We judge by the store's stamp, and always write a timestamp.
func TestLeaseWithoutATimestampExpiresWhenItsJavaOwnerDies(t *testing.T) {
	play(t, func(s *scene) {
		f := s.foreignFleet(true)
		for _, l := range s.list().Leases {
			if !l.Timestamp.IsZero() {
				s.t.Fatalf("lease %s has the timestamp %s; the host is to write none", l.Token, l.Timestamp)
			}
		}
		f.crash()
		h := s.join("ours")
		s.sleep(s.times.takeover() + 2*s.times.acquire)
		if n := s.owned(h); n != 2 {
			s.t.Errorf("the host owns %d leases of the dead one's 2", n)
		}
		for _, l := range s.list().Leases {
			if age := time.Since(l.Timestamp); age > s.times.renew+time.Second {
				s.t.Errorf("lease %s has the timestamp %s, by which Java and .NET judge, %s ago", l.Token, l.Timestamp, age)
			}
		}
		if n := s.redelivered(); n > 0 {
			s.t.Errorf("%d changes were delivered twice, though the dead host was idle", n)
		}
	})
}

// Java's stop releases its leases and leaves its handlers alone: who takes a free lease
// may work beside them. What they then do doesn't touch the lease any more.
func TestReleasedLeaseWhoseHandlerStillRunsLosesNothing(t *testing.T) {
	play(t, func(s *scene) {
		f := s.foreignFleet(true)
		s.busy()
		s.setStrangersTake(func(*host, string) time.Duration { return 10 * time.Minute })
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
			s.t.Error("nothing was handled twice: the handlers didn't run on")
		}
		for i, l := range s.list().Leases {
			if l.Owner != h.text() || s.check.position(l) < s.check.position(before[i]) {
				s.t.Errorf("lease %s of %q went from %s to %s", l.Token, l.Owner, before[i].Continuation, l.Continuation)
			}
		}
	})
}

// Java takes a lease as an old listing showed it. Refused, it looks at the owner alone
// and writes the old position back: what lies behind it is delivered again, nothing is
// lost, and our hosts go on from there.
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
		if s.check.position(released) <= s.check.position(listed) || s.redelivered() > 0 {
			s.t.Fatalf("the lease went from %s to %s", listed.Continuation, released.Continuation)
		}
		f := s.visit(true, habits{})
		s.sleep(5 * time.Second) // it has opened the leases, and not looked at them yet
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

// The same while the answer to the acquire is under way: the owner of then is robbed of a lease that it doesn't know of yet. It
// begins when the answer comes, beside whoever has the free lease by now, and learns of it at its next write.
func TestOwnerClearedBeforeItsAcquireIsAnsweredIsALoss(t *testing.T) {
	play(t, func(s *scene) {
		first := s.join("first")
		s.initialised()
		s.add(20)
		s.sleep(30 * time.Second)
		first.leave()
		<-first.done
		f := s.visit(false, habits{})
		s.sleep(2 * time.Second) // it has opened the leases, and not looked at them yet
		s.setFaults(func(c call, _ *draw, fault *fault) {
			if c.op == opUpdate && c.n == 1 && c.host != f.host {
				fault.back = 4 * time.Second
			}
		})
		slow := s.join("slow")
		s.sleep(time.Second)
		owner := s.lease("0").Owner
		if owner != slow.text() || s.ran(slow) > 0 {
			s.t.Fatalf("lease 0 is owned by %q, and %d are worked on; want %s, that hasn't heard of it", owner, s.ran(slow), slow.text())
		}
		s.setFaults(nil)
		f.clear(s.t.Context(), "0", owner)
		f.crash()
		quick := s.join("quick")
		s.sleep(time.Second)
		if l := s.lease("0"); l.Owner != quick.text() || s.ran(slow) > 0 {
			s.t.Fatalf("lease 0 is owned by %q, and %d are worked on by the first owner", l.Owner, s.ran(slow))
		}
		s.sleep(s.times.takeover())
		if s.ran(slow) != 1 || s.owned(quick) != 1 {
			s.t.Errorf("the first owner worked on %d leases; want the one that it was robbed of", s.ran(slow))
		}
	}, partitions(1))
}

// Java drops where a lease starts, which we keep in it as long as it has no position. When its partition
// is split before anybody has read it, the children get the start that all hosts are configured with.
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
			s.t.Fatalf("lease 0 of %q is at %q, and starts at %q; want nothing but its owner, %s", l.Owner, l.Continuation, l.Properties[lease.PropertyStart], f.instance)
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

// The .NET processor frees the lease of whom it had listed as the owner when taking it
// fails: our host finds nobody as the owner, stops, and acquires anew.
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
		if l := s.lease("0"); !l.Free() {
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

// A fleet moves to ours, host by host, and back, under load: each of both kinds gets its
// share, then nothing moves, and every change is handled.
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
				s.shares("one of ours comes", one.host, two.host, a)
				two.crash()
				b := s.join("b")
				s.add(20)
				s.shares("a foreign host dies, and another of ours comes", one.host, a, b)
				s.dismiss(one.host)
				s.shares("ours alone", a, b)
				s.add(20)
				three := s.visit(java, habits{})
				s.shares("a foreign one comes back", three.host, a, b)
				a.leave()
				s.add(20)
				s.shares("one of ours goes", three.host, b)
				b.leave()
				s.shares("and the other one", three.host)
				if n := s.missing(); n > 0 {
					s.t.Errorf("%d changes missing", n)
				}
			}, partitions(6))
		})
	}
}

// shares waits for balance among hosts of both kinds, and for stillness.
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
	s.check.still(since)
}
