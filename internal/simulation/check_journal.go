package simulation

import (
	"sort"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// journal records every write to the monitored container, and whether a host has handled
// and acknowledged each change. It does not use the engine under test.
type journal struct {
	mode   feed.Mode
	passes func(id string) bool // the filter; nil accepts everything
	// since is the start time that the source refuses. Changes before it must not be
	// delivered. Zero means that the source refuses none.
	since time.Time

	mu      sync.Mutex // guards the fields below
	entries []record
	newest  map[string]int // index in entries of an item's newest change, by item
	lastLSN int64
	// redelivered is the number of deliveries of changes that had been handled before.
	redelivered int
}

// record is one change of the monitored container, and its state of delivery.
type record struct {
	lsn    int64
	epk    string
	item   string
	id     string
	at     time.Time // the change's _ts
	delete bool
	// acked reports whether the change was acknowledged: the handler returned nil or,
	// with manual checkpoints, the user's checkpoint was called. handled reports whether
	// the handler returned nil.
	acked, handled bool
}

func newJournal(mode feed.Mode, passes func(id string) bool) *journal {
	return &journal{mode: mode, passes: passes, newest: map[string]int{}}
}

// wrote adds the changes of one transaction to the journal.
func (j *journal) wrote(lsn int64, at time.Time, epk string, writes []itemWrite) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range writes {
		item := w.key.String() + "/" + w.id
		j.newest[item] = len(j.entries)
		j.entries = append(j.entries, record{
			lsn: lsn, epk: epk, item: item, id: w.id, at: at, delete: w.document == nil,
		})
	}
	j.lastLSN = max(j.lastLSN, lsn)
}

// after returns the index in j.entries of the first change whose LSN is greater than lsn.
// The caller holds j.mu.
func (j *journal) after(lsn int64) int {
	return sort.Search(len(j.entries), func(i int) bool { return j.entries[i].lsn > lsn })
}

// visible reports whether a reader of the whole feed would now receive the change at
// index i of j.entries.
func (j *journal) visible(i int) bool {
	e := &j.entries[i]
	if j.passes != nil && !j.passes(e.id) || e.at.Before(j.since) {
		return false
	}
	return j.mode == feed.AllVersionsAndDeletes || !e.delete && j.newest[e.item] == i
}

// before returns the largest LSN such that every change at or after time t has a greater
// one.
func (j *journal) before(t time.Time) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := sort.Search(len(j.entries), func(i int) bool { return !j.entries[i].at.Before(t) })
	if i == len(j.entries) {
		return j.lastLSN
	}
	return j.entries[i].lsn - 1
}

// skipped returns the first unacknowledged change of range r whose LSN is greater than
// from and at most to. It ignores changes that a reader no longer receives, because a
// later version replaced them.
func (j *journal) skipped(r feed.Range, from, to int64) (record, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := j.after(from); i < len(j.entries) && j.entries[i].lsn <= to; i++ {
		e := &j.entries[i]
		if !e.acked && r.Holds(e.epk) && j.visible(i) {
			return *e, true
		}
	}
	return record{}, false
}

// unhandled returns the changes with an LSN greater than from that no handler has
// handled.
func (j *journal) unhandled(from int64) []record {
	j.mu.Lock()
	defer j.mu.Unlock()
	var missing []record
	for i := j.after(from); i < len(j.entries); i++ {
		if !j.entries[i].handled && j.visible(i) {
			missing = append(missing, j.entries[i])
		}
	}
	return missing
}

// note sets the state of the changes at the given indexes of j.entries. It also counts
// the redeliveries.
func (j *journal) note(entries []int, handled, acked bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, i := range entries {
		e := &j.entries[i]
		if handled && e.handled {
			j.redelivered++
		}
		e.handled = e.handled || handled
		e.acked = e.acked || acked
	}
}

// match returns the indexes in j.entries of a batch's changes. The changes must be in
// range r and have an LSN greater than from. wrong describes the first error: a change
// that was never written, one outside the range, or a missing one. Changes before since
// may be missing.
func (j *journal) match(r feed.Range, from int64, since time.Time, changes []feed.Change, ids []string) (entries []int, wrong string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	next := 0
	for i := j.after(from); i < len(j.entries) && next < len(changes); i++ {
		e := &j.entries[i]
		if e.lsn > changes[len(changes)-1].LSN {
			break
		}
		if !r.Holds(e.epk) {
			continue
		}
		if e.lsn == changes[next].LSN && e.id == ids[next] && e.delete == (changes[next].Op == feed.Delete) {
			if e.at.Before(j.since) {
				return entries, "contains " + e.String() + ", which is older than the start time"
			}
			entries = append(entries, i)
			next++
			continue
		}
		if j.visible(i) && !e.at.Before(since) {
			return entries, "lacks " + e.String()
		}
	}
	if next < len(changes) {
		return entries, "contains a change that was not written there, or that is not after the last batch: " + record{lsn: changes[next].LSN, item: ids[next]}.String()
	}
	last := changes[len(changes)-1].LSN
	for i := j.after(last) - 1; i >= 0 && j.entries[i].lsn == last; i-- {
		if len(entries) > 0 && i > entries[len(entries)-1] && r.Holds(j.entries[i].epk) && j.visible(i) {
			return entries, "ends inside a transaction, before " + j.entries[i].String()
		}
	}
	return entries, ""
}

// counts returns the number of changes that were written, and of redeliveries.
func (j *journal) counts() (changes, redelivered int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries), j.redelivered
}
