package simulation

import (
	"math"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// This file concludes from the writes that the lease store applies: the documents, the
// marker, and the changes that the leases promise.

// apply records that the store applies a write.
func (v *view) apply(a *application) {
	token, s := a.lease.Token, v.sent[a.leaseWrite]
	before, l := s.before, v.lease(token)
	foreign := a.host != nil && a.host.foreign
	if foreign && a.op != opCreate {
		l.foreign = v.n
	}
	if a.op != opUpdate {
		v.doubles(a)
	}
	if a.op == opDelete || a.host != nil && (a.op == opCreate || a.doc.Owner != before.Owner || a.doc.Wanted() != before.Wanted()) {
		v.changedAt = v.now
	}
	if a.op == opDelete {
		delete(v.docs, token)
		if s.discards {
			v.discards(before)
		} else if a.host == nil || foreign && !v.isGone(before) {
			v.deleted, v.deletedAt = v.n, v.now
		}
		return
	}
	switch {
	case a.ours() && a.op == opUpdate && a.doc.Owner == a.host.text() && a.doc.Owner != before.Owner:
		v.acquired(a)
	case a.ours() && a.op == opCreate:
		l.made = v.now
		if v.began[a.leaseWrite] < v.discard { // the changes up to its position are not delivered again
			for _, r := range v.journal.between(a.doc.Range.OrFull(), 0, v.lsn(a.doc)) {
				r.delivery = r.or(r.before)
			}
		}
	}
	if a.host != nil {
		l.last = a.doc
	}
	if a.doc.Owner != "" && (foreign || a.host != nil && a.doc.Owner == a.host.text()) {
		l.owned = v.now
	}
	v.docs[token], l.n, l.at, l.versions[a.doc.ETag] = a.doc, v.n, v.now, v.n
	if o := v.workers[v.on(a.host, token).worker]; o != nil && a.doc.Continuation != "" {
		o.stored = max(o.stored, v.lsn(a.doc))
	}
}

// acquired records the acquire of a lease by one of our hosts: whether it was stolen, and
// whether a jump of the store's clock allowed it. Its clock may also have been set back
// since the host listed the lease.
func (v *view) acquired(a *application) {
	s, on, l := v.sent[a.leaseWrite], v.on(a.host, a.doc.Token), v.lease(a.doc.Token)
	on.stolen = -1
	if s.before.Owner == "" {
		return
	}
	if !lease.Ours(s.before.Owner) && s.age < v.times.takeover() {
		on.stolen = l.at
	}
	if on.seen[s.before.ETag].now.After(v.store()) || slices.ContainsFunc(v.jumps, func(j clockStep) bool { return j.by > 0 && j.n > l.n }) {
		l.byJump = v.n
	}
}

// doubling is an event after which two hosts may use the same keys, though all hosts follow
// the protocol. part reports whether two leases overlap in part until an operator repairs
// them.
type doubling struct {
	keys feed.Range
	part bool
}

// doubles records a create or a delete after which two hosts may use the same keys.
func (v *view) doubles(a *application) {
	s, l := v.sent[a.leaseWrite], a.lease
	if a.op == opDelete {
		l = s.before
	}
	keys, gone, took := l.Range.OrFull(), v.isGone(l), v.now-s.at
	var doubles, above, across bool // the lease is above or across others
	for _, o := range v.usable() {
		above = above || ancestor(l, o)
		across = across || o.Token != l.Token && o.Range.OrFull().Overlaps(keys) && !ancestor(o, l) && !ancestor(l, o)
	}
	switch {
	case a.op == opDelete && a.host == nil: // in a first start, during a create, or before another one is mended
		mending := 2*v.times.expiration + 4*v.times.acquire
		doubles = !v.marker || v.creates > 0 || v.deleted >= 0 && v.now-v.deletedAt < mending
	case a.op == opDelete: // of a lease that is not gone, by a foreign host
		doubles = a.host.foreign && !gone
	case a.host == nil: // an operator creates a lease
		doubles = true
	case a.host.foreign: // a foreign host creates a lease late, or above or across others
		doubles = across || above || gone || took > v.times.timeout
	case gone && took > a.host.settings.times.timeout: // the host has given the create up long ago
		doubles = true
	case l.Owner == "": // a first start creates what was deleted
		doubles = v.deleted >= 0 && !v.hostOf(a.host).marked
	default: // the owner puts back what a foreign host has deleted
		doubles = v.lease(l.Token).foreign > 0
	}
	if doubles {
		part := across && a.op == opCreate && (a.host == nil || a.host.foreign)
		v.double = append(v.double, doubling{keys, part})
	}
}

// markFloor is the LSN of each partition when the marker was created. Changes of the keys
// with greater LSNs must be delivered, if the start is now.
type markFloor struct {
	keys     []feed.Range
	counters []counter
}

// marked records that the marker was created or deleted. A host that deletes the marker
// discards the leases. Keys that have no lease then start at the next marker, too.
//
// A create of the marker may have been sent before a discard, and arrive after the marker
// was deleted. Then the marker exists before the new leases do, and the next host replaces
// them as lost ones instead of creating them as in a first start.
func (v *view) marked(m *markApplied) {
	switch {
	case !m.exists:
		v.unmarkAt = v.n
		if v.marker {
			v.unmarked = v.uncoveredIn(feed.Full(), "")
		}
	case !v.marker:
		v.markedLate = v.markedLate || v.began[m.mark] < v.unmarkAt
		v.floors = append(v.floors, markFloor{v.unmarked, m.counters})
		v.unmarked = nil
	}
	v.marker = m.exists
}

// discards records the discard of a lease. Its keys start over, unless another lease covers
// them.
func (v *view) discards(l lease.Lease) {
	v.discard = v.n
	for _, r := range v.uncoveredIn(l.Range.OrFull(), "") {
		for token, known := range v.leases {
			if _, stored := v.docs[token]; !stored && r.Contains(known.last.Range.OrFull()) {
				known.last = lease.Lease{}
			}
		}
		v.journal.restarts++
		for _, c := range v.journal.between(r, 0, math.MaxInt64) {
			c.before, c.delivery, c.restarted = c.or(c.before), delivery{}, v.journal.restarts
		}
		if !v.marker {
			v.unmarked = append(v.unmarked, r)
		} else if n := len(v.floors); n > 0 {
			v.floors = append(v.floors, markFloor{[]feed.Range{r}, v.floors[n-1].counters})
		}
	}
}

// promised returns the LSN of a key after which every change must be delivered: the last
// one before the marker, or before the configured start.
func (v *view) promised(k *keyLog) int64 {
	switch v.start.Kind() {
	case feed.StartTime:
		lsn, _ := k.before(v.start.Time())
		return lsn
	case feed.StartContinuation:
		return lsnAt(v.start.Continuation())
	case feed.StartNow:
		for _, f := range slices.Backward(v.floors) {
			i := slices.IndexFunc(f.counters, func(n counter) bool { return n.keys.Holds(k.epk) })
			if i >= 0 && slices.ContainsFunc(f.keys, func(r feed.Range) bool { return r.Holds(k.epk) }) {
				return f.counters[i].lsn
			}
		}
	case feed.StartBeginning:
	}
	return 0
}

// lostVersions reports whether a lost lease may have started again from now: one that was
// deleted by hand, or one without which the marker was created late. That happens in all
// versions and deletes mode, unless the processor starts after a continuation.
func (v *view) lostVersions() bool {
	return v.mode == feed.AllVersionsAndDeletes && v.start.Kind() == feed.StartNow && (v.deleted >= 0 || v.markedLate)
}
