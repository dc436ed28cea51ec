package simulation

import (
	"testing"
	"time"
)

// While the lease store refuses deletes, the parent of a split stays, and no host reads
// its children. When deletes are allowed, the children continue at the position of the
// parent, and nothing is delivered again.
func TestChildrenWaitWhileDeletesAreRefused(t *testing.T) {
	play(t, func(s *scene) {
		s.refuseDeletes(true)
		s.join("first")
		s.initialised()
		s.add(20)
		s.sleep(time.Minute)
		s.split("0")
		s.sleep(time.Minute)
		s.add(20)
		s.sleep(10 * time.Minute)
		if n := s.missing(); n != 20 {
			s.t.Errorf("%d changes wait for the delete of the parent; want 20", n)
		}
		s.refuseDeletes(false)
		s.sleep(3 * time.Minute)
		if n, again := s.missing(), s.redelivered(); n > 0 || again > 0 {
			s.t.Errorf("%d changes are missing and %d were delivered again; want none", n, again)
		}
	}, partitions(1))
}
