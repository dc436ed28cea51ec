package simulation

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Each test in this file is a scripted run that shows a defect of another processor, or
// of a naive one. The rules judge every step.

// If the first batch of a new lease fails and the host restarts, the batch is delivered
// again. The .NET processor skips it: the lease has no position yet, so a restart
// resolves a new "now" (azure-cosmos-dotnet-v3#5268).
func TestFirstBatchThatFailsOnAFreshLeaseIsNotSkipped(t *testing.T) {
	play(t, func(s *scene) {
		s.setHandle(func(o *simObserver, _ *changefeed.Batch, _ int) handling {
			if o.host.instance == "first" {
				return handling{err: errHandler}
			}
			return handling{}
		})
		first := s.join("first")
		s.initialised()
		s.add(20)
		s.sleep(time.Minute)
		if n := s.missing(); n != 20 {
			s.t.Errorf("%d of 20 changes are unhandled; want all", n)
		}
		first.leave()
		<-first.done
		s.sleep(10 * time.Minute)
		s.join("second")
		s.sleep(time.Minute)
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes were skipped after the first batch had failed", n)
		}
	})
}

func TestHostThatDiesBetweenNowAndTheFirstChangeLosesNothing(t *testing.T) {
	play(t, func(s *scene) {
		s.add(5)
		h := s.join("first")
		s.initialised()
		h.crash()
		s.add(20)
		s.sleep(time.Hour)
		s.join("second")
		s.sleep(3 * time.Minute)
		if n := s.missing(); n != 5 {
			s.t.Errorf("%d changes unhandled; want the 5 written before the start", n)
		}
	})
}

// A read without changes also advances the lease's position, without a write of its own.
// Otherwise a restart would begin at an old position or at a new "now"
// (azure-cosmos-dotnet-v3#2667).
func TestIdleRangeKeepsItsPositionOverARestart(t *testing.T) {
	play(t, func(s *scene) {
		h := s.join("first")
		s.initialised()
		idle, busy := s.lease("0"), s.keyIn(s.lease("1").Range)
		s.ledger.add(&count{})
		for range 60 {
			s.addTo(busy)
			s.sleep(time.Minute)
		}
		s.rests(restCost, time.Now())
		// In memory the position after an empty read is the container's. On a server it
		// is the partition's, which does not change.
		page, err := s.engine.source().Read(s.t.Context(), feed.Request{
			Partition: feed.Partition{ID: idle.PartitionID, Range: idle.Range}, From: feed.After(idle.Continuation),
		})
		if err != nil {
			s.t.Fatal(err)
		}
		if later := s.lease("0"); later.Continuation != page.Continuation {
			s.t.Errorf("the idle lease was at %s and is at %s; want %s, the end of its feed", idle.Continuation, later.Continuation, page.Continuation)
		}
		h.leave()
		<-h.done
		s.addTo(s.keyIn(idle.Range))
		s.sleep(time.Hour)
		s.join("second")
		s.sleep(time.Minute)
		if n := s.missing() + s.redelivered(); n > 0 {
			s.t.Errorf("%d changes missing, %d redelivered after the restart", s.missing(), s.redelivered())
		}
	})
}

// fromStart is the LSN from which the changes of all keys count.
func fromStart(*keyLog) int64 { return 0 }

// With manual checkpoints, the children of a split start at the last checkpoint. The .NET
// processor gives them the last position that it read, and so loses delivered changes
// without a checkpoint.
func TestManualCheckpointAcrossASplitLosesNothing(t *testing.T) {
	play(t, func(s *scene) {
		s.setHandle(func(o *simObserver, _ *changefeed.Batch, _ int) handling {
			return handling{checkpoint: o.lease.PartitionID != "0"}
		})
		s.join("first")
		s.initialised()
		s.add(50)
		s.sleep(30 * time.Second)
		if left := s.view().journal.left(feed.Full(), fromStart, 1e9, delivery.unacknowledged); len(left) == 0 {
			s.t.Fatal("all changes are acknowledged before the split")
		}
		s.split("0")
		s.sleep(2 * time.Minute)
		if left := s.view().journal.left(feed.Full(), fromStart, 1e9, delivery.unacknowledged); len(left) > 0 {
			s.t.Errorf("%v were delivered before the split without a checkpoint, and not again after it", left)
		}
	}, partitions(1), manual())
}

// A host crashes at one of the lease writes of a split. For every such write, the lease's
// next owner completes the split, and no change is lost.
func TestCrashAtEveryWriteOfASplitLosesNothing(t *testing.T) {
	points := []struct {
		op    string
		n     int
		point crashPoint
	}{
		{opCreate, 1, crashBefore},
		{opCreate, 1, crashAfter},
		{opCreate, 2, crashBefore},
		{opCreate, 2, crashAfter},
		{opDelete, 1, crashBefore},
		{opDelete, 1, crashAfter},
	}
	for _, p := range points {
		name := p.op + " " + string(rune('0'+p.n)) + map[crashPoint]string{crashBefore: " not sent", crashAfter: " applied"}[p.point]
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				h := s.join("first")
				s.initialised()
				s.add(30)
				due := nth(p.n)
				s.setFaults(func(c call, _ *draw, f *fault) {
					if c.host == h && c.op == p.op && due() {
						f.crash = p.point
					}
				})
				s.split("0")
				s.add(30)
				s.sleep(time.Minute)
				if !h.crashed() {
					s.t.Fatalf("the host did not crash at %s", name)
				}
				s.add(30)
				s.join("second")
				s.sleep(5 * time.Minute)
				if tokens := s.tokens(); tokens != "1 2" {
					s.t.Errorf("leases %s after the split; want 1 2", tokens)
				}
				if n := s.missing(); n > 0 {
					s.t.Errorf("%d changes missing", n)
				}
			}, partitions(1))
		})
	}
}

func TestLeaseDeletedByHandIsPutBackByItsOwner(t *testing.T) {
	play(t, func(s *scene) {
		h := s.join("first")
		s.join("second")
		s.initialised()
		s.add(30)
		s.sleep(2 * time.Minute)
		owner := s.lease("0").Owner
		s.deleteByHand("0")
		s.add(30)
		s.sleep(s.times.renew + 5*time.Second)
		if l := s.lease("0"); l.Owner != owner {
			s.t.Errorf("lease 0 is owned by %q after it was put back; want %q", l.Owner, owner)
		}
		s.sleep(2 * time.Minute)
		if n := s.missing() + s.redelivered(); n > 0 {
			s.t.Errorf("%d changes missing, %d redelivered", s.missing(), s.redelivered())
		}
		_ = h
	})
}

// If a lease without an owner is deleted by hand, a host recreates it after a while. The
// new lease starts at the time of the marker, not at a new "now".
func TestDeletedLeaseWithoutAnOwnerIsRecreatedAtTheMarker(t *testing.T) {
	play(t, func(s *scene) {
		h := s.join("first")
		s.initialised()
		h.leave()
		<-h.done
		s.add(30)
		s.sleep(time.Minute)
		s.deleteByHand("1")
		s.sleep(time.Minute)
		s.join("second")
		s.sleep(5 * time.Minute)
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes missing", n)
		}
	})
}

func TestHostsOfOneNameShareTheLeases(t *testing.T) {
	play(t, func(s *scene) {
		a, b := s.join("same"), s.join("same")
		s.initialised()
		s.add(40)
		s.sleep(3 * time.Minute)
		if s.owned(a) != 2 || s.owned(b) != 2 {
			s.t.Errorf("two hosts of one name own %d and %d of 4 leases", s.owned(a), s.owned(b))
		}
	}, partitions(4))
}

// The clock of the lease store is minutes off. No lease moves, because hosts compute
// every age from the store's clock alone.
func TestClockSkewOfMinutesMovesNoLease(t *testing.T) {
	for _, skew := range []time.Duration{-7 * time.Minute, 7 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			play(t, func(s *scene) {
				s.join("first")
				s.join("second")
				s.sleep(3 * time.Minute)
				since := time.Now()
				s.add(40)
				s.sleep(10 * time.Minute)
				s.rests(restStable, since)
				if n := s.redelivered(); n > 0 {
					s.t.Errorf("%d changes redelivered", n)
				}
			}, partitions(4), offset(skew))
		})
	}
}

func TestLostResponseToAnUpdateThatAppliedIsRecognised(t *testing.T) {
	play(t, func(s *scene) {
		s.join("first")
		s.initialised()
		since := time.Now()
		due := nth(3)
		s.setFaults(func(c call, _ *draw, f *fault) {
			if c.op == opUpdate && due() {
				f.silent = true
			}
		})
		for range 60 {
			s.add(3) // more changes arrive while the outcome is unknown
			s.sleep(3 * time.Second)
		}
		s.sleep(10 * time.Second)
		s.rests(restStable, since)
		if n := s.missing() + s.redelivered(); n > 0 {
			s.t.Errorf("%d changes missing, %d redelivered", s.missing(), s.redelivered())
		}
	})
}

func TestThrottledLeaseContainerMovesNoLease(t *testing.T) {
	play(t, func(s *scene) {
		s.join("first")
		s.join("second")
		s.sleep(2 * time.Minute)
		since := time.Now()
		s.setFaults(func(c call, d *draw, f *fault) {
			if isLeaseOp(c.op) && d.chance(0.6) {
				f.refusal = &feed.ThrottledError{RetryAfter: d.span(100*time.Millisecond, 2*time.Second)}
			}
		})
		for range 30 {
			s.add(3)
			s.sleep(10 * time.Second)
		}
		s.rests(restStable, since)
		if n := s.missing() + s.redelivered(); n > 0 {
			s.t.Errorf("%d changes missing, %d redelivered", s.missing(), s.redelivered())
		}
	}, partitions(4))
}

func TestStopCalledInsideAHandlerEndsRun(t *testing.T) {
	play(t, func(s *scene) {
		h := s.join("first")
		s.initialised()
		s.setHandle(func(o *simObserver, b *changefeed.Batch, _ int) handling {
			return handling{takes: time.Second, call: func(context.Context, *changefeed.Batch) error {
				o.host.leave()
				return nil
			}}
		})
		s.addTo(s.keyIn(s.lease("0").Range))
		s.sleep(20 * time.Second)
		select {
		case <-h.done:
		default:
			s.t.Fatal("Run has not returned after a stop from inside its handler")
		}
		if l := s.lease("0"); l.Owner != "" || l.Continuation != continuation(s.engine.counters()[0].lsn) {
			s.t.Errorf("lease 0 is owned by %q at %q; want it free, after the batch that stopped the host", l.Owner, l.Continuation)
		}
		s.setHandle(nil)
	})
}

// A handler ignores its context and does not return. The host does not release the lease,
// because another host would then handle it at the same time. Run returns an error that
// names the lease, and the lease expires.
func TestHandlerThatIgnoresItsContextKeepsItsLeaseUntilItExpires(t *testing.T) {
	play(t, func(s *scene) {
		s.setHandle(func(o *simObserver, _ *changefeed.Batch, _ int) handling {
			if o.host.instance == "first" {
				return handling{takes: time.Hour, ignoresContext: true}
			}
			return handling{}
		})
		h := s.join("first")
		s.initialised()
		s.addTo(s.keyIn(s.lease("0").Range))
		s.sleep(20 * time.Second)
		left := time.Now()
		h.leave()
		<-h.done
		if took, most := time.Since(left), s.times.drain+2*s.times.timeout; took > most {
			s.t.Errorf("Run returned after %s; want at most %s", took, most)
		}
		if h.err == nil || !strings.Contains(h.err.Error(), "0") {
			s.t.Errorf("Run returned %v; want an error that names lease 0", h.err)
		}
		if zero, one := s.lease("0"), s.lease("1"); zero.Owner == "" || one.Owner != "" {
			s.t.Errorf("lease 0 is owned by %q, lease 1 by %q; want the first one kept, the other released", zero.Owner, one.Owner)
		}
		s.join("second")
		s.sleep(3 * time.Minute)
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes missing", n)
		}
	})
}

// The first read of a new lease fails with GoneError. The children start where the lease
// would have started: neither at the beginning nor at a new "now"
// (azure-sdk-for-java#45363).
func TestSplitOnTheVeryFirstReadKeepsTheStart(t *testing.T) {
	for _, start := range []feed.Start{feed.Now(), feed.Beginning()} {
		t.Run(start.String(), func(t *testing.T) {
			play(t, func(s *scene) {
				s.add(10)
				due := nth(1)
				s.setFaults(func(c call, _ *draw, _ *fault) {
					if c.op == opRead && due() {
						s.split("0")
						s.add(10)
					}
				})
				s.join("first")
				s.sleep(3 * time.Minute)
				want := 10
				if start.Kind() == feed.StartBeginning {
					want = 0
				}
				if n := s.missing(); n != want {
					s.t.Errorf("%d changes unhandled; want %d", n, want)
				}
				if n := s.redelivered(); n > 0 {
					s.t.Errorf("%d changes delivered twice", n)
				}
			}, partitions(1), from(start))
		})
	}
}

// Azure Cosmos DB refuses a start time on a merged partition. The processor then reads
// the partition from its beginning, and drops the changes before the start time.
func TestMergeThenStartTimeLosesNothing(t *testing.T) {
	for name, options := range map[string][]option{"served": nil, "refused": {refusingTimes()}} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.add(10)
				s.sleep(time.Hour)
				s.merge("0", "1")
				s.add(10)
				s.join("first")
				s.sleep(2 * time.Minute)
				if n := s.missing(); n != 10 {
					s.t.Errorf("%d changes unhandled; want the 10 from before the start time", n)
				}
			}, append(options, partitions(2), func(c *worldConfig, _ *setting) {
				c.start = feed.At(time.Now().Add(30 * time.Minute))
			})...)
		})
	}
}

// After a worker has stopped, another tool writes a property to its lease, so the host's
// release fails. The host releases the lease again, because it still owns it.
func TestReleaseRefusedByAPropertyWriteIsRepeated(t *testing.T) {
	play(t, func(s *scene) {
		h := s.join("first")
		s.initialised()
		s.add(10)
		s.sleep(time.Minute)
		due := nth(1)
		s.setFaults(func(c call, _ *draw, _ *fault) {
			if c.op == opUpdate && due() {
				s.note(c.key, "between stop and release")
			}
		})
		h.leave()
		<-h.done
		for _, l := range s.list().Leases {
			if l.Owner != "" {
				s.t.Errorf("lease %s is still owned by %q", l.Token, l.Owner)
			}
		}
	})
}

// The create of a healed lease arrives after two owners have recreated their leases. The
// healed lease shadows both, so both workers stop. The changes of its range are delivered
// once more.
func TestWorkerThatFindsItselfShadowedStops(t *testing.T) {
	play(t, func(s *scene) {
		s.join("first")
		s.initialised()
		s.add(10)
		s.sleep(time.Minute)
		s.merge("0", "1")
		s.sleep(2 * time.Minute)
		if n := len(s.list().Leases); n != 2 {
			s.t.Fatalf("%d leases after the merge; want the two old ranges", n)
		}
		// Such a lease is created when a host's delayed create covers both ranges at
		// once.
		parts := s.engine.partitions()
		made, err := s.operator.Create(s.t.Context(), lease.Lease{
			Token: parts[0].ID, PartitionID: parts[0].ID, Range: parts[0].Range, Continuation: continuation(0),
		})
		if err != nil {
			s.t.Fatal(err)
		}
		s.operates(opCreate, made, made)
		s.sleep(5 * time.Minute)
		for _, l := range s.list().Leases {
			if l.Token != made.Token && l.Owner != "" {
				s.t.Errorf("lease %s is shadowed and still owned by %q", l.Token, l.Owner)
			}
			if l.Token == made.Token && l.Owner == "" {
				s.t.Errorf("lease %s has no owner", l.Token)
			}
		}
	})
}
