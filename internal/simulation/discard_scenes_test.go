package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// joinDiscarding starts a host that discards the leases.
func (s *scene) joinDiscarding(instance string) *host {
	return s.joinPrepared(instance, func(h *host) { h.discards() })
}

// joinAndLeave starts a host, which handles 30 changes, and stops it.
func (s *scene) joinAndLeave(instance string) *host {
	h := s.join(instance)
	s.initialised()
	s.add(30)
	s.sleep(2 * s.times.poll)
	h.leave()
	<-h.done
	return h
}

// A host that discards the leases crashes at one of its writes. Another host then starts,
// with a discard of its own or without one. It must create the missing leases. The changes
// of the leases that were discarded are handled again.
func TestCrashAtEveryWriteOfADiscardLosesNothing(t *testing.T) {
	for _, p := range []struct {
		op string
		n  int
	}{{opMark, 1}, {opDelete, 1}, {opDelete, 2}, {opCreate, 1}, {opCreate, 2}, {opMark, 2}} {
		for point, when := range map[crashPoint]string{crashBefore: "not sent", crashAfter: "applied"} {
			for _, again := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d %s, discard again %t", p.op, p.n, when, again), func(t *testing.T) {
					play(t, func(s *scene) {
						first := s.joinAndLeave("first")
						due := nth(p.n)
						s.setFaults(func(c call, _ *draw, f *fault) {
							if c.host != first && c.op == p.op && due() {
								f.crash = point
							}
						})
						second := s.joinDiscarding("second")
						s.sleep(time.Minute)
						if !second.crashed() {
							s.t.Fatal("the host did not crash")
						}
						s.add(30)
						if again {
							third := s.joinDiscarding("third")
							s.sleep(5 * time.Minute)
							if !third.alive() {
								s.t.Fatal("the second discard has failed")
							}
						} else {
							s.join("third")
							s.sleep(5 * time.Minute)
						}
						if got, want := s.tokens(), "0 1"; got != want {
							s.t.Errorf("the leases are %s after the discard; want %s", got, want)
						}
						if n := s.missing(); n > 0 {
							s.t.Errorf("%d changes are not handled again", n)
						}
					}, partitions(2), from(feed.Beginning()))
				})
			}
		}
	}
}

// Another tool writes a lease after the host that discards has listed the leases. The
// delete of that lease meets a conflict. The host must list the leases again and delete
// the lease, too.
func TestDiscardDeletesALeaseThatHasChanged(t *testing.T) {
	play(t, func(s *scene) {
		due := nth(1)
		s.arrived = func(c call) {
			if c.op == opMark && c.host.instance == "second" && due() {
				s.note("1", "changed")
			}
		}
		s.joinAndLeave("first")
		s.joinDiscarding("second")
		s.sleep(time.Minute)
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes are not handled again", n)
		}
		if value := s.lease("1").Properties["note"]; value != "" {
			s.t.Errorf("lease 1 still has the note %q", value)
		}
	}, partitions(2), from(feed.Beginning()))
}
