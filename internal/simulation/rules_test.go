package simulation

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/lease"
)

// These tests check rules of the lease protocol whose violation shows only after a rare
// coincidence. Each test is the shortest sequence of events that shows it. The seeds of
// the simulation cover the other rules.

// Host A owns a lease, and its trust ends while its writes are lost. Host B acquires the
// lease, and then the document is deleted by hand. A's next write finds no document. A
// must not recreate the lease.
func TestLeaseIsNotPutBackWithoutTrust(t *testing.T) {
	play(t, func(s *scene) {
		a := s.join("a")
		s.initialised()
		s.add(5)
		s.sleep(time.Minute)
		var cut atomic.Bool
		cut.Store(true)
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.host == a && isLeaseOp(c.op) && cut.Load() {
				f.refusal = errUnavailable
			}
		})
		s.sleep(20 * time.Second)
		b := s.join("b")
		for range 200 {
			if s.lease("0").Owner == b.text() && b.text() != "" {
				break
			}
			s.sleep(time.Second)
		}
		s.deleteByHand("0")
		cut.Store(false)
		s.add(5)
		s.sleep(3 * time.Minute)
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes missing", n)
		}
	}, partitions(1))
}

// Host B lists the leases before the first lease exists, and then pauses. Meanwhile host
// A creates the leases and works, and then A's lease is deleted by hand. B's old listing
// shows a gap. B must not fill it at once, because A still trusts its lease.
func TestGapSeenBeforeAPauseDoesNotCount(t *testing.T) {
	play(t, func(s *scene) {
		b := s.join("b")
		pause := nth(1)
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.host == b && c.op == opPartitions && pause() {
				f.lost = true
				b.pause()
			}
		})
		s.sleep(time.Second)
		a := s.join("a")
		s.sleep(3 * time.Minute)
		if s.owned(a) != 1 {
			s.t.Fatalf("host a owns %d leases; want the only one", s.owned(a))
		}
		// A writes once more. Then B's listing comes right after the deletion.
		s.add(5)
		s.sleep(2 * time.Second)
		var slow atomic.Bool
		slow.Store(true)
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.host == a && slow.Load() && c.write {
				f.there = 9 * time.Second // A's next write, which would find the deletion, arrives late
			}
		})
		s.deleteByHand("0")
		b.resume()
		s.sleep(20 * time.Second)
		slow.Store(false)
		s.sleep(3 * time.Minute)
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes missing", n)
		}
	}, partitions(1))
}

// A host must resolve the start "now" before it finds that there is no marker. Otherwise:
// A lists partition 0, which then splits. B lists the children and finds no marker. A
// creates the lease of 0 and the marker, and a change is written. B creates a child's
// lease, which would start after that change.
func TestNowIsResolvedBeforeTheMarkerIsFoundAbsent(t *testing.T) {
	play(t, func(s *scene) {
		a := s.join("a")
		s.setFaults(func(c call, _ *draw, f *fault) {
			switch {
			case c.host == a && c.op == opCreate && c.key == "0":
				f.there = 3 * time.Second
			case c.host == a && c.op == opCreate:
				f.there = 9 * time.Second
			case c.host.instance == "b" && c.op == opNow && c.host.made(opList) > 1:
				f.there = 5 * time.Second
			}
		})
		s.sleep(time.Second)
		s.split("0")
		s.join("b")
		s.sleep(2500 * time.Millisecond)
		for range 20 {
			if !s.list().Initialized.IsZero() {
				break
			}
			s.sleep(500 * time.Millisecond)
		}
		s.add(20)
		s.sleep(3 * time.Minute)
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes written after the marker are missing", n)
		}
	}, partitions(1))
}

// If a handler is busy when its host's trust in the lease ends, the handler's context
// ends before another host may start.
func TestHandlerLearnsThatTheLeaseIsLost(t *testing.T) {
	play(t, func(s *scene) {
		a := s.join("a")
		s.initialised()
		s.sleep(30 * time.Second)
		var cause atomic.Value
		s.setHandle(func(o *simObserver, _ *changefeed.Batch, _ int) handling {
			if o.host != a {
				return handling{takes: 30 * time.Second}
			}
			return handling{call: func(ctx context.Context, _ *changefeed.Batch) error {
				select {
				case <-ctx.Done():
					cause.Store(context.Cause(ctx))
				case <-time.After(5 * time.Minute):
				}
				return ctx.Err()
			}}
		})
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.host == a && isLeaseOp(c.op) {
				f.lost = true
			}
		})
		s.add(3)
		s.sleep(20 * time.Second)
		s.join("b")
		s.sleep(4 * time.Minute)
		if ended, ok := cause.Load().(error); !ok || !errors.Is(ended, lease.ErrLost) {
			s.t.Errorf("the handler's context ended with %v; want lease.ErrLost", ended)
		}
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes missing", n)
		}
	}, partitions(1))
}

// A host wants a lease of another one, and crashes. One interval after the
// owner has released the lease, another host acquires it, even if that host already has
// its share.
func TestLeaseOfADeadRequesterIsTaken(t *testing.T) {
	play(t, func(s *scene) {
		s.setHandle(func(o *simObserver, _ *changefeed.Batch, _ int) handling {
			if o.lease.Token == "0" && !s.isCalm() {
				return handling{takes: 40 * time.Minute}
			}
			return handling{takes: time.Millisecond}
		})
		s.join("a")
		s.initialised()
		s.add(60)
		s.sleep(30 * time.Second)
		asked := nth(3)
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.host.instance == "b" && c.op == opUpdate && asked() {
				f.crash = crashAfter
			}
		})
		s.join("b")
		s.sleep(s.times.expiration + 4*s.times.acquire)
		for _, l := range s.list().Leases {
			if l.Owner == "" {
				s.t.Errorf("lease %s has no owner after its requester crashed", l.Token)
			}
		}
		s.sleep(45 * time.Minute)
	}, partitions(6))
}

// A child lease has no owner while its parent exists, because the parent's next owner may
// find other children. In this test the first child is created, its host crashes, and
// both halves merge before another host continues.
func TestChildOfAnUnfinishedSplitIsNotRun(t *testing.T) {
	play(t, func(s *scene) {
		a := s.join("a")
		s.initialised()
		s.add(20)
		s.sleep(time.Minute)
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.host == a && c.op == opCreate {
				f.crash = crashAfter
			}
		})
		s.split("0")
		s.sleep(30 * time.Second)
		s.add(20)
		s.join("b")
		s.sleep(30 * time.Second)
		s.merge("1", "2")
		s.add(20)
		s.sleep(3 * time.Minute)
		if n := s.missing() + s.redelivered(); n > 0 {
			s.t.Errorf("%d changes missing, %d redelivered", s.missing(), s.redelivered())
		}
	}, partitions(1))
}

// Before the owner of a lease reads again, its partition splits, and one half merges with
// a neighbour. The child lease for the merged partition is cut at the old range, because
// the neighbour's lease has another position.
func TestPieceThatReachesBeyondTheOldRangeIsCut(t *testing.T) {
	play(t, func(s *scene) {
		s.setHandle(func(o *simObserver, _ *changefeed.Batch, _ int) handling {
			if o.lease.Token == "1" && !s.isCalm() {
				return handling{takes: 10 * time.Minute} // the neighbour's lease lags
			}
			return handling{takes: time.Millisecond}
		})
		s.join("a")
		s.initialised()
		s.add(40)
		s.sleep(time.Minute)
		var hold atomic.Bool
		hold.Store(true)
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.op == opRead && hold.Load() {
				f.refusal = errUnavailable
			}
		})
		s.split("0")
		parts := s.engine.partitions()
		s.merge(parts[1].ID, parts[2].ID)
		s.add(40)
		s.sleep(20 * time.Second)
		hold.Store(false)
		s.sleep(15 * time.Minute)
		if n := s.missing() + s.redelivered(); n > 0 {
			s.t.Errorf("%d changes missing, %d redelivered", s.missing(), s.redelivered())
		}
	}, partitions(2))
}
