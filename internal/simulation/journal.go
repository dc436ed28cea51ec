package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// journal contains every change of the monitored container, as its commits tell, and the
// state of delivery of each change. It does not use the engine under test. It is not safe
// for concurrent use.
//
// Each partition has its own LSN counter, so LSNs of different keys cannot be compared.
// The LSNs of one key always increase, also over splits and merges. So the journal keeps
// the changes of each key in a list of its own.
type journal struct {
	mode   feed.Mode
	passes func(id string) bool // the filter; nil accepts everything
	now    func() time.Time     // the service's clock
	// since is the start time that the source refuses. Changes before it must not be
	// delivered. Zero means that the source refuses none.
	since time.Time
	// beside is the start time that Java's leases hold beside their positions. A read from
	// both leaves out what is older: a change before a start in the future, or one that was
	// written after the service's clock had been set back. Zero means that there is none.
	beside time.Time

	keys     []*keyLog          // sorted by EPK
	newest   map[string]*record // an item's newest change, by item
	restarts int                // number of times that a range of keys has started over
	limited  bool               // whether an item has had a time to live
	writes   writes
}

// keyLog contains the changes of one key, sorted by LSN.
type keyLog struct {
	epk     string
	records []*record
}

// record is one change of the monitored container, and its state of delivery.
type record struct {
	lsn      int64
	number   int // number of the change in the container, in order of time
	item, id string
	at       time.Time // the change's _ts
	delete   bool
	expiry   bool      // the change is the delete of an expired item
	expires  time.Time // when the item expires, unless it is written before; zero if it never does
	epk      string    // of the item's key
	delivery
	// lost reports whether the source has dropped the change, and Config.OnHistoryLost has
	// allowed to skip it.
	lost bool
	// lettered reports whether the change is or was a letter.
	lettered bool
	// before is the state of delivery when the lease was last discarded, and restarted is
	// the number of that restart. The first restart has the number 1.
	before    delivery
	restarted int
}

// delivery is the state of delivery of a change. It is acknowledged when the handler has
// returned nil or, with manual checkpoints, when the user's checkpoint was called. It is
// handled when the handler has returned nil. It is vouched for when the checkpoint was
// called while the handler still ran: then it may count as handled though that failed later.
type delivery struct{ acked, handled, vouched bool }

func (d delivery) or(o delivery) delivery {
	return delivery{d.acked || o.acked, d.handled || o.handled, d.vouched || o.vouched}
}

// String returns the change's LSN and item, for messages.
func (r *record) String() string { return fmt.Sprintf("change %d of item %s", r.lsn, r.item) }

func newJournal(c worldConfig) *journal {
	j := &journal{mode: c.mode, passes: c.passes, now: c.engine.now, newest: map[string]*record{}}
	if c.refuses {
		j.since = c.start.Time()
	}
	if c.dialect == lease.JavaLatestVersion {
		j.beside = c.start.Time()
	}
	return j
}

// wrote adds the changes of one transaction.
func (j *journal) wrote(c *commit) {
	i, found := slices.BinarySearchFunc(j.keys, c.epk, func(k *keyLog, epk string) int { return strings.Compare(k.epk, epk) })
	if !found {
		j.keys = slices.Insert(j.keys, i, &keyLog{epk: c.epk})
	}
	k := j.keys[i]
	for _, w := range c.writes {
		r := &record{lsn: c.lsn, item: w.item(), id: w.id, at: c.at, delete: w.document == nil}
		if w.ttl > 0 {
			r.expires = c.at.Add(time.Duration(w.ttl) * time.Second)
			j.limited = true
		}
		old := j.newest[r.item]
		switch {
		case c.purge:
			j.writes.expired++
			r.expiry = true
		case old.hasExpired(c.at):
			j.writes.expired++
			if j.mode == feed.AllVersionsAndDeletes {
				j.add(k, &record{lsn: c.lsn, item: old.item, id: old.id, at: c.at, delete: true, expiry: true})
			}
		case old != nil && !old.delete && !r.delete:
			j.writes.rewrites++
		}
		j.add(k, r)
	}
}

func (j *journal) add(k *keyLog, r *record) {
	r.number, r.epk = j.writes.changes, k.epk
	j.writes.changes++
	if r.delete {
		j.writes.deletes++
	}
	j.newest[r.item] = r
	k.records = append(k.records, r)
}

// hasExpired reports whether the item that r wrote has expired at a time. r may be nil.
func (r *record) hasExpired(now time.Time) bool {
	return r != nil && !r.delete && !r.expires.IsZero() && !now.Before(r.expires)
}

// exists reports whether the newest write of an item exists and has not expired.
func (j *journal) exists(w itemWrite) bool {
	r := j.newest[w.item()]
	return r != nil && !r.delete && !r.hasExpired(j.now())
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

// contains reports whether the change feed now contains the change. In latest version mode
// it does not contain deletes, earlier versions, and expired items.
func (j *journal) contains(r *record) bool {
	return j.mode == feed.AllVersionsAndDeletes || !r.delete && j.newest[r.item] == r && !(!r.expires.IsZero() && r.hasExpired(j.now()))
}

// before returns the LSN of range r such that every change of r at or after time t has a
// greater one, and as few other changes as possible.
func (j *journal) before(t time.Time, r feed.Range) int64 {
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

// between returns the changes of range r with an LSN greater than from and at most to, in
// the order of the feed. Two partitions that were merged have used the same LSNs. Changes
// of one LSN are in order of time.
func (j *journal) between(r feed.Range, from, to int64) (all []*record) {
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

// writes counts the changes of a journal.
type writes struct {
	changes     int // all changes
	rewrites    int // those that replaced an existing item
	deletes     int // those that deleted an item
	expired     int // expired items that were deleted or written again
	redelivered int // deliveries of changes that had been handled before
}
