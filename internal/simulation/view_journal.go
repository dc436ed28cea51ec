package simulation

import (
	"math"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// This file contains the part of the journal that only a view uses: the state of delivery.

// floor is the LSN of each key from which a statement about changes holds: it applies to
// the changes with a greater LSN.
type floor func(k *keyLog) int64

// at returns a floor that is the same LSN for all keys. Only the keys of one lease have
// such a floor.
func at(lsn int64) floor { return func(*keyLog) int64 { return lsn } }

// visible reports whether a reader of the whole feed would now receive the change.
func (j *journal) visible(r *record) bool {
	return !r.lost && (j.passes == nil || j.passes(r.id)) && !r.at.Before(j.since) && j.contains(r)
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

// skipped returns the first unacknowledged change of range r whose LSN is greater than
// from and at most to. It ignores changes that a reader no longer receives.
func (j *journal) skipped(r feed.Range, from floor, to int64) (first *record, found bool) {
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
func (j *journal) unhandled(r feed.Range, from floor) (missing []*record) {
	for _, k := range j.in(r) {
		for _, r := range j.unsettled(k, from(k)) {
			if !r.handled && !r.vouched && j.visible(r) {
				missing = append(missing, r)
			}
		}
	}
	return missing
}

// note adds to the state of delivery of changes. It also counts the redeliveries.
func (j *journal) note(changes []*record, d delivery) {
	for _, r := range changes {
		if d.handled && r.handled {
			j.writes.redelivered++
		}
		r.delivery = r.or(d)
	}
}

// restart records that the changes of range r are delivered again.
func (j *journal) restart(r feed.Range) {
	j.restarts++
	for _, k := range j.in(r) {
		k.settled = 0
		for _, r := range k.records {
			r.before, r.delivery, r.restarted = r.or(r.before), delivery{}, j.restarts
		}
	}
}

// resume records that the changes of range r up to the LSN to are not delivered again.
func (j *journal) resume(r feed.Range, to int64) {
	for _, r := range j.between(r, 0, to) {
		r.delivery = r.or(r.before)
	}
}

// lose records that a host has skipped the changes of range r with an LSN greater than
// from and at most to. It returns the number of those that no handler has handled.
func (j *journal) lose(r feed.Range, from, to int64) (n int) {
	for _, r := range j.between(r, from, to) {
		r.lost = true
		if !r.handled {
			n++
		}
	}
	return n
}

// match returns the records of changes that a reader of range r received after the LSN
// from. needed says which changes must not be missing. wrong describes the first error: a
// change that was never written, one outside the range, or a missing one.
func (j *journal) match(r feed.Range, from int64, changes []feed.Change, needed func(*record) bool) (records []*record, wrong string) {
	next, id := 0, ""
	for _, e := range j.between(r, from, changes[len(changes)-1].LSN) {
		if next < len(changes) {
			id, _ = changes[next].ID()
		}
		switch {
		case next < len(changes) && e.is(changes[next], id):
			records = append(records, e)
			next++
		case !needed(e):
		case next == len(changes):
			return records, "ends inside a transaction, before " + e.String()
		default:
			return records, "lacks " + e.String()
		}
	}
	if next < len(changes) {
		id, _ = changes[next].ID()
		return records, "contains a change that was not written there, or that is not after the last one: " + (&record{lsn: changes[next].LSN, item: id}).String()
	}
	return records, ""
}

// unread describes the changes of a range that follow a position and that the change feed
// contains, in order of their LSNs.
type unread struct {
	transactions int64 // number of different LSNs
	first        int64 // LSN of the first change
	at           time.Time
}

// unread returns the unread changes of range r after the start of a read.
func (j *journal) unread(r feed.Range, from feed.Start) unread {
	var lsn int64
	if from.Kind() == feed.StartContinuation {
		lsn, _ = lsnOf(from.Continuation()) // the source has accepted the text
	}
	var u unread
	var last int64
	for _, e := range j.between(r, lsn, math.MaxInt64) {
		if from.Kind() == feed.StartTime && e.at.Before(from.Time()) || !j.contains(e) {
			continue
		}
		if u.transactions == 0 {
			u.first, u.at = e.lsn, e.at
		}
		if e.lsn != last {
			u.transactions++
		}
		last = e.lsn
	}
	return u
}
