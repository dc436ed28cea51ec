package simulation

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// This file checks the time to live of items. The journal computes the expiry of each item
// from its last write. It uses the service's clock, but not the service's decisions.

// hasExpired reports whether the item that r wrote has expired at a time. r may be nil.
func (r *record) hasExpired(now time.Time) bool {
	return r != nil && !r.expires.IsZero() && !now.Before(r.expires)
}

// hides reports whether the change feed no longer contains the change because its item
// has expired. The caller holds j.mu.
func (j *journal) hides(r *record) bool {
	return j.mode == feed.LatestVersion && !r.expires.IsZero() && r.hasExpired(j.now())
}

// exists reports whether the newest write of an item exists and has not expired.
func (j *journal) exists(w itemWrite) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.newest[w.item()]
	return r != nil && !r.delete && !r.hasExpired(j.now())
}

// expire adds the delete of an expired item to a key. The caller holds j.mu.
func (j *journal) expire(k *keyLog, old *record, lsn int64, at time.Time) {
	j.writes.expired++
	if j.mode == feed.AllVersionsAndDeletes {
		j.add(k, &record{lsn: lsn, item: old.item, id: old.id, at: at, delete: true, expiry: true})
	}
}

// purged adds the delete by which the store purges an expired item. It returns an error
// text if the item has not expired.
func (j *journal) purged(c feed.Change) (wrong string) {
	w := itemWrite{key: c.DeletedKey, id: c.DeletedID}
	j.mu.Lock()
	defer j.mu.Unlock()
	old := j.newest[w.item()]
	if old == nil || old.delete || !old.hasExpired(c.Time) {
		return "deletes item " + w.item() + ", which has not expired"
	}
	for _, k := range j.keys {
		if k.epk == old.epk {
			j.expire(k, old, c.LSN, c.Time)
		}
	}
	return ""
}

// overdue returns the last change of an item that expired before cut, and that the store
// has not deleted.
func (j *journal) overdue(cut time.Time) (first *record, found bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.newest {
		if !r.delete && r.hasExpired(cut) && (!found || r.number < first.number) {
			first, found = r, true
		}
	}
	return first, found
}

// lapsed returns the number of items that have expired and were not written again.
func (j *journal) lapsed() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.newest {
		if !r.delete && r.hasExpired(j.now()) {
			n++
		}
	}
	return n
}

// expiring returns those of the changes of a page for range r whose items have a time to
// live.
func (j *journal) expiring(r feed.Range, changes []feed.Change) (limited []*record) {
	if len(changes) == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.limited {
		return nil
	}
	next := 0
	for _, e := range j.between(r, changes[0].LSN-1, changes[len(changes)-1].LSN) {
		if next == len(changes) {
			break
		}
		if id, _ := changes[next].ID(); !e.is(changes[next], id) {
			continue
		}
		if next++; !e.expires.IsZero() {
			limited = append(limited, e)
		}
	}
	return limited
}

// unacknowledged returns the first of the given changes with an LSN of at most to that
// must be acknowledged and is not.
func (j *journal) unacknowledged(changes []*record, to int64) (first *record, found bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range changes {
		if r.lsn <= to && !r.acked && !r.before.acked && (j.passes == nil || j.passes(r.id)) {
			return r, true
		}
	}
	return nil, false
}

// limitedReads contains the changes that a worker has read and whose items have a time to
// live, up to the last page that the worker received.
type limitedReads struct {
	tenure  *tenure
	changes []*record
}

// served is the answer to a read: a page, and those of its changes whose items have a time
// to live.
type served struct {
	page    feed.Page
	limited []*record
}

// pageServed checks that a page contains no expired item. It returns those of its changes
// whose items have a time to live.
func (c *checker) pageServed(r feed.Request, page feed.Page) []*record {
	if c.world.mode != feed.LatestVersion {
		return nil
	}
	j := c.world.journal
	limited := j.expiring(c.world.keysOf(r), page.Changes)
	now := c.world.engine.now()
	for _, e := range limited {
		if e.hasExpired(now) {
			c.fail(23, "a page contains %s, which has expired at %s", e, e.expires.Format(time.TimeOnly))
		}
	}
	return limited
}

// pageReceived records that a worker received a page with changes whose items have a time
// to live. The worker must deliver them even if the items expire meanwhile. If it reads
// again from an earlier position, it has dropped the later changes.
func (c *checker) pageReceived(h *host, token string, from feed.Start, limited []*record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := tenureKey{h, token}
	reads := limitedReads{tenure: c.tenures[key]}
	if last := c.limited[key]; last.tenure == reads.tenure && from.Kind() == feed.StartContinuation {
		lsn, _ := lsnOf(from.Continuation()) // the source has accepted the text
		for _, r := range last.changes {
			if r.lsn <= lsn {
				reads.changes = append(reads.changes, r)
			}
		}
	}
	reads.changes = append(reads.changes, limited...)
	if len(reads.changes) == 0 {
		delete(c.limited, key)
		return
	}
	c.limited[key] = reads
}

// deliversLimited checks that a worker moves the position of a lease only past changes
// that were acknowledged, among those that it has read and that may have expired since.
// The caller holds c.mu.
func (c *checker) deliversLimited(h *host, l lease.Lease) {
	key := tenureKey{h, l.Token}
	reads := c.limited[key]
	if reads.tenure == nil || reads.tenure != c.tenures[key] {
		return
	}
	if e, found := c.world.journal.unacknowledged(reads.changes, c.lsn(l)); found {
		c.violate(23, "%s: lease %s is at %q, but nobody acknowledged %s, which the host has read before it expired",
			h.id, l.Token, l.Continuation, e)
	}
}

// expiredAtRest checks that the store has deleted every item that expired more than a
// purge interval ago. It counts the expired items of latest version mode, where deletes
// are no changes.
func (r *run) expiredAtRest() {
	w, purge := r.world, r.scenario.lifetimes.purge
	if purge == 0 {
		return
	}
	if w.mode == feed.LatestVersion {
		for range w.journal.lapsed() {
			w.occurs(timeToLive)
		}
		return
	}
	if e, late := w.journal.overdue(w.engine.now().Add(-purge - time.Second)); late {
		w.check.fail(23, "the store has not deleted the item of %s, which expired at %s", e, e.expires.Format(time.TimeOnly))
	}
}
