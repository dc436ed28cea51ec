package simulation

import (
	"errors"
	"math"
	"time"

	"github.com/changefeed-go/changefeed/feed"
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
	r.world.check.parentsStay()
	r.world.trace.add("operator", "grant", "delete", "", 0)
	r.world.refuseDeletes(false)
	r.sleep(r.world.times.recovery())
}

// parentsStay checks the leases while deletes are refused. The parents of splits stay, and
// no host uses their children. Together with all other leases, they cover the keys. Outside
// of the parents' ranges, every change has been handled.
func (c *checker) parentsStay() {
	parts, now := c.world.engine.partitions(), c.world.engine.now().Truncate(time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	var all, waiting []feed.Range
	for _, l := range c.unshadowed() {
		all = append(all, l.Range.OrFull())
		if isGone(parts, l.PartitionID, l.Range) {
			waiting = append(waiting, l.Range.OrFull())
		}
	}
	if gap, ok := uncovered(c.world.keys.OrFull(), all); ok {
		c.violate(11, "no lease covers %s while deletes are refused", gap)
	}
	for _, l := range c.docs {
		// The release of a lease may have failed. Then its document keeps the owner.
		live := l.Owner != "" && c.age(l, now) < c.world.times.takeover()
		if live && c.shadowed(l) && !isGone(parts, l.PartitionID, l.Range) {
			c.violate(9, "lease %s has the live owner %q, though its parent exists", l.Token, l.Owner)
		}
	}
	if c.lostVersions() {
		return
	}
	missing := c.world.journal.unhandled(c.world.keys.OrFull(), func(k *keyLog) int64 {
		for _, r := range waiting {
			if r.Holds(k.epk) {
				return math.MaxInt64
			}
		}
		return c.promised(k)
	})
	for i, e := range missing {
		if i == 3 {
			break
		}
		c.violate(3, "nobody handled %s, whose lease has no parent, while deletes are refused", e)
	}
}
