package simulation

import (
	"context"
	"testing"
	"time"
)

// refuseDeletes makes the lease store refuse deletes, or allow them.
func (w *world) refuseDeletes(refused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deletesRefused = refused
}

// grantDeletes checks the leases after the faults have ended, while deletes are still
// refused. Then it allows them, and waits until everything has come to rest.
func (r *run) grantDeletes(context.Context) {
	r.world.rests(restParents, time.Now())
	r.world.trace.add("operator", "grant", "delete", "", 0)
	r.world.refuseDeletes(false)
	r.sleep(r.world.times.recovery())
}

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
