package changefeedtest

import (
	"sort"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// journal records the writes to the monitored container and the state of each change. It
// is independent of the engine under test.
type journal struct {
	mode   feed.Mode
	passes func(id string) bool // the filter; nil accepts everything
	// since is the start time that the source refuses. Changes before it must not be
	// delivered. Zero means that the source refuses none.
	since time.Time

	mu      sync.Mutex // guards the fields below
	entries []record
	newest  map[string]int // item -> index of its newest entry
	lastLSN int64
	// redelivered is the number of deliveries of changes that had been handled before.
	redelivered int
}

// record is one change and its state.
type record struct {
	lsn    int64
	epk    string
	item   string
	id     string
	at     time.Time // _ts
	delete bool
	// acked reports whether the change was acknowledged: the handler returned nil or,
	// with manual checkpoints, the user's checkpoint was called. handled reports whether
	// the handler returned nil.
	acked, handled bool
}

func newJournal(mode feed.Mode, passes func(id string) bool) *journal {
	return &journal{mode: mode, passes: passes, newest: map[string]int{}}
}

// wrote adds a transaction.
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

// after returns the index of the first entry after lsn.
func (j *journal) after(lsn int64) int {
	return sort.Search(len(j.entries), func(i int) bool { return j.entries[i].lsn > lsn })
}

// visible reports whether a reader that reads now receives the entry.
func (j *journal) visible(i int) bool {
	e := &j.entries[i]
	if j.passes != nil && !j.passes(e.id) || e.at.Before(j.since) {
		return false
	}
	return j.mode == feed.AllVersionsAndDeletes || !e.delete && j.newest[e.item] == i
}

// before returns the LSN after which the changes of time t and later begin.
func (j *journal) before(t time.Time) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := sort.Search(len(j.entries), func(i int) bool { return !j.entries[i].at.Before(t) })
	if i == len(j.entries) {
		return j.lastLSN
	}
	return j.entries[i].lsn - 1
}

// skipped returns the first unacknowledged change of a range after from and up to to.
// Changes that a later version replaced do not count.
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

// unhandled returns the changes after from that no handler has handled.
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

// note marks entries as handled and as acknowledged.
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

// match returns the entries of a batch's changes, in a range after from. wrong describes
// the first error: a change that was never written or is outside the range, or a missing
// change between from and the last one. Changes before since may be missing.
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

// counts returns the number of changes and of redeliveries.
func (j *journal) counts() (changes, redelivered int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries), j.redelivered
}
