package simulation

import (
	"errors"
	"time"
)

// errForbidden is the answer of a lease store to a role without the right to delete.
var errForbidden = errors.New("forbidden (403)")

// refusesDelete reports whether the lease store refuses a delete, and counts it.
func (w *world) refusesDelete() bool {
	w.mu.Lock()
	refused := w.deletesRefused
	w.mu.Unlock()
	if refused {
		w.occurs(refusedDeletes)
	}
	return refused
}

// refuseDeletes makes the lease store refuse deletes, or allow them.
func (w *world) refuseDeletes(refused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deletesRefused = refused
}

// grantDeletes checks the leases after the faults have ended, while deletes are still
// refused. Then it allows them, and waits until everything has come to rest.
func (r *run) grantDeletes() {
	if !r.scenario.has(refusedDeletes) {
		return
	}
	r.world.rests(restParents, time.Now())
	r.world.trace.add("operator", "grant", "delete", "", 0)
	r.world.refuseDeletes(false)
	r.sleep(r.world.times.recovery())
}
