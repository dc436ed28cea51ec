package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// journal records every write to the monitored container, and whether a host has handled
// and acknowledged each change. It does not use the engine under test.
//
// Each partition has its own LSN counter, so LSNs of different keys cannot be compared.
// The LSNs of one key always increase, also over splits and merges. So the journal keeps
// the changes of each key in a list of its own.
type journal struct {
	mode   feed.Mode
	passes func(id string) bool // the filter; nil accepts everything
	now    func() time.Time     // the service's clock; set before the first write of an item that may expire
	// since is the start time that the source refuses. Changes before it must not be
	// delivered. Zero means that the source refuses none.
	since time.Time

	mu     sync.Mutex         // guards the fields below
	keys   []*keyLog          // sorted by EPK
	newest map[string]*record // an item's newest change, by item
	// restarts is the number of times that a range of keys has started over.
	restarts int
	limited  bool // whether an item has had a time to live
	writes   writes
}

// keyLog contains the changes of one key, sorted by LSN.
type keyLog struct {
	epk     string
	records []*record
	// settled is the number of records at the beginning that need no more checks. They
	// were handled and acknowledged, or no reader receives them any more.
	settled int
}

// record is one change of the monitored container, and its state of delivery.
type record struct {
	lsn    int64
	number int // number of the change in the container, in order of time
	item   string
	id     string
	at     time.Time // the change's _ts
	delete bool
	// expiry reports whether the change is the delete of an expired item.
	expiry bool
	// expires is when the item expires, unless it is written before. It is zero if the
	// item never expires.
	expires time.Time
	epk     string // of the item's key
	// acked reports whether the change was acknowledged: the handler returned nil or,
	// with manual checkpoints, the user's checkpoint was called. handled reports whether
	// the handler returned nil.
	acked, handled bool
	// lost reports whether the source has dropped the change, and Config.OnHistoryLost has
	// allowed to skip it.
	lost bool
	// vouched reports whether the user's checkpoint was called while the handler still
	// ran. Then the change may count as handled although the handler failed later.
	vouched bool
	// before is the state of delivery when the lease was last discarded, and restarted is
	// the number of that restart. The first restart has the number 1.
	before    delivery
	restarted int
}

// delivery is the state of delivery of a change.
type delivery struct{ acked, handled, vouched bool }

// String returns the change's LSN and item, for messages.
func (r *record) String() string {
	return fmt.Sprintf("change %d of item %s", r.lsn, r.item)
}

// floor is the LSN of each key from which a statement about changes holds: it applies to
// the changes with a greater LSN. It is called with journal.mu held.
type floor func(k *keyLog) int64

// at returns a floor that is the same LSN for all keys. Only the keys of one lease have
// such a floor.
func at(lsn int64) floor { return func(*keyLog) int64 { return lsn } }

func newJournal(mode feed.Mode, passes func(id string) bool) *journal {
	return &journal{mode: mode, passes: passes, newest: map[string]*record{}}
}

// wrote adds the changes of one transaction to the journal.
func (j *journal) wrote(lsn int64, at time.Time, epk string, writes []itemWrite) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i, found := slices.BinarySearchFunc(j.keys, epk, func(k *keyLog, epk string) int { return strings.Compare(k.epk, epk) })
	if !found {
		j.keys = slices.Insert(j.keys, i, &keyLog{epk: epk})
	}
	k := j.keys[i]
	for _, w := range writes {
		r := &record{lsn: lsn, item: w.item(), id: w.id, at: at, delete: w.document == nil}
		if w.ttl > 0 {
			r.expires = at.Add(time.Duration(w.ttl) * time.Second)
			j.limited = true
		}
		if old := j.newest[r.item]; old.hasExpired(at) {
			j.expire(k, old, lsn, at)
		} else if old != nil && !old.delete && !r.delete {
			j.writes.rewrites++
		}
		j.add(k, r)
	}
}

// add appends a change to a key. The caller holds j.mu.
func (j *journal) add(k *keyLog, r *record) {
	r.number, r.epk = j.writes.changes, k.epk
	j.writes.changes++
	if r.delete {
		j.writes.deletes++
	}
	j.newest[r.item] = r
	k.records = append(k.records, r)
}

// is reports whether a change with an id, which a reader received, is r.
func (r *record) is(c feed.Change, id string) bool {
	return r.lsn == c.LSN && r.id == id && r.delete == (c.Op == feed.Delete) && r.expiry == c.Expired
}

// in returns the keys in range r.
func (j *journal) in(r feed.Range) []*keyLog {
	first := sort.Search(len(j.keys), func(i int) bool { return j.keys[i].epk >= r.Min })
	end := sort.Search(len(j.keys), func(i int) bool { return j.keys[i].epk >= r.Max })
	return j.keys[first:max(first, end)]
}

// after returns the changes whose LSN is greater than lsn.
func (k *keyLog) after(lsn int64) []*record {
	return k.records[sort.Search(len(k.records), func(i int) bool { return k.records[i].lsn > lsn }):]
}

// visible reports whether a reader of the whole feed would now receive the change.
func (j *journal) visible(r *record) bool {
	if r.lost || j.passes != nil && !j.passes(r.id) || r.at.Before(j.since) {
		return false
	}
	return j.contains(r)
}

// contains reports whether the change feed now contains the change.
func (j *journal) contains(r *record) bool {
	return j.mode == feed.AllVersionsAndDeletes || !r.delete && j.newest[r.item] == r && !j.hides(r)
}

// unsettled returns the changes of a key whose LSN is greater than lsn, without those at
// the beginning that need no more checks.
func (j *journal) unsettled(k *keyLog, lsn int64) []*record {
	for k.settled < len(k.records) {
		if r := k.records[k.settled]; !(r.acked && (r.handled || r.vouched)) && j.visible(r) {
			break
		}
		k.settled++
	}
	left := k.after(lsn)
	return left[max(0, k.settled-(len(k.records)-len(left))):]
}

// before returns the LSN of range r such that every change of r at or after time t has a
// greater one, and as few other changes as possible.
func (j *journal) before(t time.Time, r feed.Range) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	var last int64
	first := int64(-1)
	for _, k := range j.in(r) {
		lsn, some := k.before(t)
		if last = max(last, lsn); some && (first < 0 || lsn < first) {
			first = lsn
		}
	}
	if first >= 0 {
		return first
	}
	return last
}

// before returns the LSN before the first change of the key at or after time t. If there
// is no such change, it returns the LSN of the last change, and false.
func (k *keyLog) before(t time.Time) (lsn int64, some bool) {
	i := slices.IndexFunc(k.records, func(r *record) bool { return !r.at.Before(t) })
	if i < 0 {
		return k.records[len(k.records)-1].lsn, false
	}
	return k.records[i].lsn - 1, true
}

// skipped returns the first unacknowledged change of range r whose LSN is greater than
// from and at most to. It ignores changes that a reader no longer receives, because a
// later version replaced them or their items have expired.
func (j *journal) skipped(r feed.Range, from floor, to int64) (first *record, found bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range j.in(r) {
		for _, r := range j.unsettled(k, from(k)) {
			if r.lsn > to || found && r.lsn >= first.lsn {
				break
			}
			if !r.acked && j.visible(r) {
				first, found = r, true
			}
		}
	}
	return first, found
}

// unhandled returns the changes of range r with an LSN greater than from that no handler
// has handled.
func (j *journal) unhandled(r feed.Range, from floor) []*record {
	j.mu.Lock()
	defer j.mu.Unlock()
	var missing []*record
	for _, k := range j.in(r) {
		for _, r := range j.unsettled(k, from(k)) {
			if !r.handled && !r.vouched && j.visible(r) {
				missing = append(missing, r)
			}
		}
	}
	return missing
}

// note sets the state of changes. It also counts the redeliveries.
func (j *journal) note(changes []*record, handled, acked bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range changes {
		if handled && r.handled {
			j.writes.redelivered++
		}
		r.handled = r.handled || handled
		r.acked = r.acked || acked
	}
}

// vouch records that the user's checkpoint of changes is called while their handler runs.
func (j *journal) vouch(changes []*record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range changes {
		r.vouched = true
	}
}

// between returns the changes of range r with an LSN greater than from and at most to, in
// the order of the feed. Two partitions that were merged have used the same LSNs. Changes
// of one LSN are in order of time.
func (j *journal) between(r feed.Range, from, to int64) []*record {
	var all []*record
	for _, k := range j.in(r) {
		for _, r := range k.after(from) {
			if r.lsn > to {
				break
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.lsn, b.lsn), cmp.Compare(a.number, b.number))
	})
	return all
}

// match returns the records of a batch's changes. The changes must be in range r and have
// an LSN greater than from. wrong describes the first error: a change that was never
// written, one outside the range, or a missing one. Changes before since may be missing.
func (j *journal) match(r feed.Range, from int64, since time.Time, changes []feed.Change, ids []string) (records []*record, wrong string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := changes[len(changes)-1].LSN
	next := 0
	for _, e := range j.between(r, from, last) {
		if next < len(changes) && e.is(changes[next], ids[next]) {
			if e.at.Before(j.since) {
				return records, "contains " + e.String() + ", which is older than the start time"
			}
			records = append(records, e)
			next++
			continue
		}
		switch {
		case !j.visible(e) || e.at.Before(since):
		case next == len(changes):
			return records, "ends inside a transaction, before " + e.String()
		default:
			return records, "lacks " + e.String()
		}
	}
	if next < len(changes) {
		return records, "contains a change that was not written there, or that is not after the last batch: " + (&record{lsn: changes[next].LSN, item: ids[next]}).String()
	}
	return records, ""
}

// writes counts the changes of a journal.
type writes struct {
	changes     int // all changes
	rewrites    int // those that replaced an existing item
	deletes     int // those that deleted an item
	expired     int // expired items that were deleted or written again
	redelivered int // deliveries of changes that had been handled before
}

func (w *writes) add(o writes) {
	w.changes += o.changes
	w.rewrites += o.rewrites
	w.deletes += o.deletes
	w.expired += o.expired
	w.redelivered += o.redelivered
}

// counts returns the numbers of changes so far.
func (j *journal) counts() writes {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.writes
}

// markFloor is the LSN of each partition when the marker was created. Changes of the keys
// with greater LSNs must be delivered, if the start is now.
type markFloor struct {
	keys     []feed.Range
	counters []counter
}

// markedLSN returns the LSN of a key when the marker was created. After a discard, that
// is the next marker. The caller holds c.mu.
func (c *checker) markedLSN(k *keyLog) int64 {
	for _, f := range slices.Backward(c.floors) {
		if !slices.ContainsFunc(f.keys, func(r feed.Range) bool { return r.Holds(k.epk) }) {
			continue
		}
		for _, n := range f.counters {
			if n.keys.Holds(k.epk) {
				return n.lsn
			}
		}
	}
	return 0
}

// marked records that the marker was written. initialised reports whether the marker
// exists now. sent is the time at which the host sent the write. A host that deletes the
// marker discards the leases. Keys that have no lease then start at the next marker, too.
//
// A create of the marker may have been sent before a discard, and arrive after the marker
// was deleted. Then the marker exists before the new leases do. The next host does not
// create the missing leases as in a first start. It replaces them as lost ones. Only
// all versions and deletes mode has no start time for that; see lostVersions.
func (c *checker) marked(initialised bool, sent time.Time) {
	counters := c.world.engine.counters()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !initialised {
		c.unmarkAt = time.Now()
	}
	if initialised && !c.marker {
		c.lateMark = c.lateMark || sent.Before(c.unmarkAt)
		c.markedAt, c.started = time.Now(), false
		c.floors = append(c.floors, markFloor{c.unmarked, counters})
		c.unmarked = nil
	}
	if !initialised && c.marker {
		c.unmarked = c.uncoveredIn(feed.Full())
	}
	c.marker = initialised
}

// initialised reports whether the marker exists.
func (c *checker) initialised() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marker
}
