package simulation

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// This file judges the writes of leases, and the work on them: reads, batches and checkpoints.

func judgeNothingSkipped(v *view, a *application, breach report) {
	before, reached := v.sent[a.leaseWrite].before, []lease.Lease(nil) // the leases whose positions are judged
	from := v.promised
	switch {
	case a.host == nil || v.isAstray(a):
	case a.op == opCreate && v.marker && !v.shadowed(a.doc):
		reached = []lease.Lease{a.doc}
	case a.op == opUpdate && a.doc.Continuation != before.Continuation && !v.shadowed(a.doc):
		reached, from = []lease.Lease{a.doc}, func(k *keyLog) int64 { return max(v.lsn(before), v.promised(k)) }
	case a.op == opDelete && v.marker && !v.sent[a.leaseWrite].discards:
		reached = slices.DeleteFunc(usable(v.without(before.Token)), func(l lease.Lease) bool { return !ancestor(before, l) })
	}
	for _, l := range reached {
		left := v.journal.left(l.Range.OrFull(), from, v.lsn(l), delivery.unacknowledged)
		breach(len(left) > 0, "lease %s is at %q, but nobody acknowledged %v", l.Token, l.Continuation, left[:min(3, len(left))])
	}
}

// judgeSkip judges the decision to skip changes: a read must have been answered so.
func judgeSkip(v *view, s *skip, breach report) {
	r, lost := v.on(s.host, s.token).lost, &feed.HistoryLostError{}
	breach(r == nil || errors.As(r.err, &lost) && lost.Oldest != s.oldest,
		"%s is asked to skip lease %s to %s; the last read was answered by %v", s.host.id, s.token, s.oldest, r)
}

// judgeDropped judges which changes a store that drops changes has dropped.
func judgeDropped(v *view, r *read, breach report) {
	lost, ok := errors.AsType[*feed.HistoryLostError](r.err)
	if !ok || !v.drops {
		return
	}
	for _, c := range v.journal.between(keysOf(v.live, r.req), lsnAt(r.req.From.Continuation()), lsnAt(lost.Oldest)) {
		breach(!c.at.Before(v.store().Add(-v.retention)), "the source has dropped %s, which is within the retention", c)
	}
}

// judgePosition judges the lease on which a worker begins: its position can be read, or it has
// a start from which its changes can be read again.
func judgePosition(v *view, w *worker, breach report) {
	_, err := lsnOf(w.lease.Continuation)
	start := w.lease.Start(v.defaultStart()).Kind()
	breach(w.lease.Continuation != "" && err != nil, "the position %q cannot be read", w.lease.Continuation)
	breach(w.lease.Continuation == "" && start != feed.StartTime && start != feed.StartBeginning, "the lease has no position and no start")
}

func judgeForward(v *view, a *application, s *sending, breach report) {
	moves, acquires := a.doc.Continuation != s.before.Continuation, a.doc.Owner != "" && a.doc.Owner != s.before.Owner
	// Until a start time in the future is reached, its LSN grows with each new change. So
	// only a lease that had a continuation is judged.
	back := s.before.Continuation != "" && v.lsn(a.doc) < v.lsn(s.before)
	breach(a.op == opUpdate && moves && (acquires || back), "the position was %q", s.before.Continuation)
}

// judgePutBack judges a lease that its owner sends to put it back after a delete by hand.
func judgePutBack(v *view, w *leaseWrite, breach report) {
	if t := v.tenures[w.key()]; w.op == opCreate && w.mine() {
		breach(!v.trusted(t) || !v.confirmed(t), "the host puts the lease back, but does not trust it")
	}
}

func judgeOwners(v *view, a *application, s *sending, breach report) {
	h, before, after, owner := a.host, s.before, a.doc, s.before.Owner
	expired := owner != "" && (s.age >= v.times.takeover() || v.listedExpired(h, before))
	breach(a.op != opCreate && a.lease.ETag != before.ETag, "the document had changed, but the write was carried out")
	switch a.op {
	case opCreate:
		known := v.lease(after.Token).last.Token != ""
		breach(before.Token != "", "the lease exists already, and %q owns it", owner)
		breach(after.Owner != "" && (after.Owner != h.text() || !known), "the lease has an owner; it existed before: %t", known)
		breach(after.Wanted() != "", "a new lease is wanted")
	case opDelete:
		breach(!s.discards && owner != "" && owner != h.text() && (!expired || !s.replaces), "%q owns the lease", owner)
	case opUpdate:
		was, is := otherProperties(before), otherProperties(after)
		switch same := after.Wanted() == before.Wanted(); {
		case after.Owner == owner && owner != "" && owner != h.text(): // the host wants the lease
			same = before.Continuation == after.Continuation && maps.Equal(was, is)
			breach(after.Wanted() != h.text() || before.Wanted() != "" || !protocol.Ours(owner) || !same, "the lease of another host was %+v", before)
			return
		case s.replaces && after.Owner == "" && owner == "":
			breach(after.Continuation != before.Continuation || !same, "the free lease was %+v", before)
		case after.Owner == "":
			breach(owner == "" || owner != h.text(), "the host frees the lease of %q", owner)
			breach(owner == h.text() && !same, "the lease was wanted by %q", before.Wanted())
		case after.Owner != owner: // the host acquires the lease
			breach(after.Owner != h.text() || after.Wanted() != "", "the new owner is another one, or the lease is still wanted")
			breach(owner != "" && !expired && protocol.Ours(owner), "%q owns the lease, at age %s", owner, s.age)
		default: // the host may acquire its own expired lease again
			again := expired && after.Owner == h.text() && after.Wanted() == ""
			breach(!same && !again, "the lease was wanted by %q", before.Wanted())
		}
		if owner == h.text() { // the owner stops the lease, or has seen that it is resumed, or knows its letters
			before, after := protocol.Answered(protocol.WithParked(before, protocol.ParkedUnknown, "")), protocol.Answered(protocol.WithParked(after, protocol.ParkedUnknown, ""))
			was, is = otherProperties(protocol.Stopped(before, protocol.Stop{})), otherProperties(protocol.Stopped(after, protocol.Stop{}))
		}
		if v.start.Kind() == feed.StartTime && was[lease.PropertyBound] == "" && is[lease.PropertyBound] == v.start.String() {
			delete(is, lease.PropertyBound)
		}
		breach(!maps.Equal(was, is), "the properties were %v", before.Properties)
	}
}

// otherProperties returns a copy of a lease's properties without the host that wants it.
func otherProperties(l lease.Lease) map[string]string {
	p := maps.Clone(l.Properties)
	delete(p, lease.PropertyWanted)
	return p
}

// judgeChild judges the create of a child. The host may own several ancestors of it. One of
// them must be its parent, which the host trusts, at the child's position.
func judgeChild(v *view, w *leaseWrite, breach report) {
	if w.op != opCreate || w.lease.Owner != "" || !v.marker {
		return
	}
	parents := slices.DeleteFunc(v.without(""), func(a lease.Lease) bool {
		t := v.tenures[tenureKey{w.host, a.Token}]
		return !ancestor(a, w.lease) || a.Owner == "" || a.Owner != w.host.text() || v.overwritten(t)
	})
	fits := func(a lease.Lease) bool {
		if t := v.tenures[tenureKey{w.host, a.Token}]; t != nil && !v.trusted(t) {
			return false
		}
		if start := a.Start(feed.Now()); a.Continuation == "" && start.Kind() == feed.StartNow {
			a = protocol.StartingAt(a, v.defaultStart()) // foreign hosts drop the start; our children have it again
		}
		is, was := w.lease.Properties, a.Properties
		return w.lease.Continuation == a.Continuation && is[lease.PropertyStart] == was[lease.PropertyStart] && keepsBound(a, w.lease) && keepsStop(a, w.lease)
	}
	breach(len(parents) > 0 && !slices.ContainsFunc(parents, fits), "the parents are %+v", parents)
}

// keepsBound reports whether a later lease has the bound of a lease, if that has one.
func keepsBound(l, later lease.Lease) bool {
	bound := l.Properties[lease.PropertyBound]
	return bound == "" || bound == later.Properties[lease.PropertyBound]
}

// keepsStop reports whether a later lease is stopped if a lease is.
func keepsStop(l, later lease.Lease) bool {
	stop := protocol.StopOf(l)
	return stop.IsZero() || stop == protocol.StopOf(later)
}

func judgeChildren(v *view, a *application, s *sending, breach report) {
	l := s.before
	switch {
	case a.op == opCreate && a.doc.Owner != "":
		// The owner puts the lease back at its durable position, or before: the answer to a
		// write may have been lost, and a lease without a position begins at its start.
		last := v.lease(a.doc.Token).last
		ahead := a.doc.Continuation != "" && !v.overwritten(v.tenures[a.key()]) && v.lsn(a.doc) > v.lsn(last)
		breach(ahead || !keepsBound(last, a.doc) || !keepsStop(last, a.doc), "the lease was at %q with %v", last.Continuation, last.Properties)
	case a.op != opDelete || s.discards:
	case s.replaces:
		gaps := v.uncoveredIn(l.Range.OrFull(), l.Token)
		breach(len(gaps) > 0, "no other lease covers %v", gaps)
	default:
		breach(l.PartitionID != "" && !v.isGone(l), "the lease's partition is not gone")
		var pieces []lease.Lease
		for _, p := range v.leases {
			if p.last.Token != "" && !p.last.Range.IsZero() && ancestor(l, p.last) {
				pieces = append(pieces, p.last)
			}
		}
		gap, ok := uncovered(l.Range.OrFull(), pieces)
		breach(ok, "no lease has covered %s", gap)
	}
}

func judgeShadowedLeases(v *view, a *application, s *sending, breach report) {
	acquires := a.op == opUpdate && a.doc.Owner != "" && a.doc.Owner != s.before.Owner
	// A cycle may act on a listing while a worker that replaces a gone lease receives others.
	const recent = 8
	k := v.on(a.host, s.before.Token).seen[s.before.ETag]
	breach(acquires && (k.clear == 0 || v.hostOf(a.host).lists-k.clear >= recent), "the host's listings show an ancestor")
}

func judgeShadowedAtRest(v *view, _ *rest, breach report) {
	for _, l := range v.docs {
		// The release of a lease may have failed. Then its document keeps the owner.
		live := l.Owner != "" && v.age(l) < v.times.takeover()
		breach(live && v.shadowed(l), "lease %s has the live owner %q, though its parent exists", l.Token, l.Owner)
	}
}

func judgeOneWrite(v *view, w *leaseWrite, breach report) {
	breach(v.owners(w) && v.on(w.host, w.lease.Token).inFlight > 0, "another write is in progress")
}

func judgePlanned(v *view, _ *rest, breach report) {
	breach(!v.foreign && v.journal.writes.redelivered > 0, "planned moves redelivered %d changes", v.journal.writes.redelivered)
}

func judgeMoves(v *view, a *application, s *sending, breach report) {
	owner, last, t := a.doc.Owner, v.lease(a.doc.Token).owned, v.times
	expired := s.before.Owner != "" && s.before.Owner != owner && s.age >= t.takeover()
	able := func(h *host) bool { return v.hosts[h].joined <= last && h.settings.maxLeases == 0 }
	if v.clean && a.op == opUpdate && owner != "" && expired && last >= 0 && slices.ContainsFunc(v.alive(), able) {
		limit := 2*t.expiration + 2*t.acquire + t.acquire/5 + t.timeout
		breach(v.now-last > limit, "acquires the lease %s after its owner's last write", v.now-last)
	}
}

func judgeEverythingDelivered(v *view, r *rest, breach report) {
	var waiting []feed.Range // keys whose gone lease stays while deletes are refused
	for _, l := range v.usable() {
		if r.what == restParents && v.isGone(l) {
			waiting = append(waiting, l.Range.OrFull())
		}
	}
	missing := v.journal.left(v.keys.OrFull(), func(k *keyLog) int64 {
		if slices.ContainsFunc(waiting, func(r feed.Range) bool { return r.Holds(k.epk) }) {
			return math.MaxInt64
		}
		return v.promised(k)
	}, math.MaxInt64, delivery.unhandled)
	breach(len(missing) > 0, "nobody handled %v, which were written after the first start", missing[:min(3, len(missing))])
}

func judgeExclusiveUse(v *view, u *use, mine *tenure, breach report) {
	if v.overslept(u) {
		return
	}
	for o, over := range v.uses {
		// A worker reads the next page while its handler handles a batch.
		same := o.host == u.host && o.token == u.token && o.what != u.what
		breach(!same && !over && o.keys.Overlaps(u.keys) && v.comparable(u, o) && !v.doubled(u.keys, o.keys), "during %s", o)
	}
	if u.host.foreign || v.overtaken(mine) {
		return
	}
	for _, t := range v.tenures {
		other := t.host != u.host && t.lease.Range.Overlaps(u.keys) && v.holds(t) && !v.overtaken(t) && v.confirmed(t)
		breach(other && !v.isGone(t.lease) && !v.doubled(u.keys, t.lease.Range),
			"while %s trusts lease %s (%s)", t.host.id, t.lease.Token, t.lease.Range)
	}
}

// comparable reports whether no fact exempts two overlapping uses of a range.
func (v *view) comparable(u, o *use) bool {
	switch {
	case u.host.foreign || o.host.foreign:
		return v.strictForeign && u.host.foreign != o.host.foreign
	case v.outlasts(u, v.now) || v.outlasts(o, v.entries[v.began[o]].at):
		return false
	}
	return !v.overtaken(v.tenures[u.key()]) && !v.overtaken(v.tenures[o.key()])
}

// outlasts reports whether a use is a read that may outlast its host's trust: the host has
// been suspended since the read began, or its trust has ended and it has been suspended
// since the write from which its timer counts.
func (v *view) outlasts(u *use, began time.Duration) bool {
	t := v.tenures[u.key()]
	late := t != nil && !v.trusted(t) && v.hostOf(u.host).slept(t.at)
	return u.what == useRead && (late || v.hostOf(u.host).slept(began))
}

// doubled reports whether a doubling concerns both ranges of keys.
func (v *view) doubled(a, b feed.Range) bool {
	return slices.ContainsFunc(v.double, func(d doubling) bool {
		return (d.part || v.now < d.until) && d.keys.Overlaps(a) && d.keys.Overlaps(b)
	})
}

func judgeTrust(v *view, u *use, t *tenure, breach report) {
	if u.host.foreign {
		return
	}
	held := t != nil && !t.givenUp
	breach(!held, "the host does not hold the lease, or has sent its release or delete")
	breach(held && !v.trusted(t) && !v.overslept(u), "trust has ended")
	breach(held && v.trusted(t) && !v.confirmed(t), "the host stole the lease, and has not confirmed it")
}

// judgeSending judges the trust in which a host sends a write. A release or a delete is
// judged at its first try.
func judgeSending(v *view, w *leaseWrite, breach report) {
	h, t := w.host, v.tenures[w.key()]
	late := t != nil && !t.givenUp && !v.trusted(t)
	switch {
	case v.releases(w):
		breach(late || t != nil && !v.confirmed(t), "trust has ended: %t, or the stolen lease is not confirmed", late)
		for u, over := range v.uses {
			breach(u.host == h && u.token == w.lease.Token && !over, "during %s", u)
		}
	case w.op == opUpdate && w.mine():
		breach(late && !t.inferred && !v.sent[w].acquires, "trust has ended")
	}
}

func judgeHandOver(v *view, u *use, t *tenure, breach report) {
	if u.batch != nil && t != nil && t.wantedAt >= 0 {
		w := v.workers[u.batch.worker]
		isNew := u.asked > t.wantedAt && v.lane(u.batch).failed == nil
		if u.batch.epk != "" { // it may finish the pages that have started
			isNew = u.asked > t.wantedAt && w.page(u.batch) > w.reached && v.journal.passes == nil
		}
		breach(isNew, "a new batch %s after the answer by which the lease is wanted", u.asked-t.wantedAt)
	}
}

func judgeOpened(v *view, o *opened, breach report) {
	breach(v.workers[o.worker].opened || o.token != o.lease.Token, "the observer is opened twice, or for lease %s", o.token)
}

func judgeClosed(v *view, w *worker, breach report) {
	breach(!v.workers[w].opened || v.workers[w].closed, "the observer is closed twice, or though it was not opened")
}

func judgeOrder(v *view, u *use, _ *tenure, breach report) {
	if u.batch != nil {
		w, m := v.workers[u.batch.worker], v.matched[u.batch]
		breach(m.wrong != "", "after %d, the batch %s", v.lane(u.batch).position, m.wrong)
		breach(!u.host.foreign && (!w.opened || w.closed), "a batch before the observer was opened, or after it was closed")
	}
}

// judgeStopped judges a batch of a lease that is stopped, or whose worker has stopped it.
func judgeStopped(v *view, u *use, _ *tenure, breach report) {
	if u.batch != nil {
		stop := protocol.StopOf(v.docs[u.token])
		at := v.workers[u.batch.worker].stopped
		breach(at >= 0 && u.asked > at || !stop.IsZero(), "the lease is stopped: %+v", stop)
	}
}

// judgeStopKept judges the writes of a worker that has stopped its lease.
func judgeStopKept(v *view, w *leaseWrite, breach report) {
	on := v.on(w.host, w.lease.Token).worker
	if on != nil && w.op == opUpdate && (w.mine() || v.releases(w)) && !v.sent[w].acquires {
		breach(v.workers[on].stopped >= 0 && v.workers[on].stopped < v.now && protocol.StopOf(w.lease).IsZero(), "the worker has stopped the lease, and does not store that")
	}
}

func judgePromptReads(v *view, r *read, breach report) {
	p := v.on(r.host, r.token).paging
	if p != nil && !v.hostOf(r.host).crashed && p.tenure == v.tenures[tenureKey{r.host, r.token}] && p.after == r.req.From.Continuation() {
		breach(p.due && v.now > p.since, "the read is %s late, though more changes may follow", v.now-p.since)
	}
}

func judgeDrain(v *view, w *wait, breach report) {
	h := v.hostOf(w.host)
	stays := v.now - h.left - w.host.settings.times.drain // since the end of the drain timeout
	drained := h.left >= 0 && stays >= 0
	late := !w.ended && drained && stays > 0 && !h.fellBehind(h.left)
	early := w.ended && !drained && (!errors.Is(w.cause, lease.ErrLost) || v.keeps(w.worker))
	breach(!h.crashed && late, "a handler still has a context %s after the drain timeout", stays)
	breach(!h.crashed && early, "the context of a handler ended: %v", w.cause)
}

// keeps reports whether a worker may not have lost its lease: its host has held the lease ever
// since, is not stopping, and no foreign host or change of the partitions has come between.
func (v *view) keeps(w *worker) bool {
	t := v.tenures[tenureKey{w.host, w.lease.Token}]
	same := v.hostOf(w.host).left < 0 && t == v.workers[w].tenure && v.holds(t)
	return same && !v.lapsed(t) && !v.overwritten(t) && !v.isGone(w.lease) && !v.hasChild(w.lease)
}
