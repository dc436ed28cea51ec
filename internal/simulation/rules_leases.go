package simulation

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// This file judges the writes of leases.

// ours returns the fact of an entry if it is one of our hosts' writes that the store
// applies.
func ours(e entry) (a *application, ok bool) {
	a, ok = e.fact.(*application)
	return a, ok && a.host != nil && !a.host.foreign
}

// sends returns the fact of an entry if one of our hosts sends a write.
func sends(v *view, e entry) (w *leaseWrite, ok bool) {
	w, ok = e.fact.(*leaseWrite)
	return w, ok && !e.ends && w.host != nil && !w.host.foreign && !v.hostOf(w.host).crashed
}

func judgeNothingSkipped(v *view, e entry, breach report) {
	if s, ok := e.fact.(*skip); ok {
		judgeSkip(v, s, breach)
	}
	if r, ok := e.fact.(*read); ok && e.ends && v.drops {
		judgeDropped(v, r, breach)
	}
	a, ok := e.fact.(*application)
	if !ok || a.host == nil || v.lostVersions() {
		return
	}
	before := v.docs[a.lease.Token].Lease
	covered := func(l lease.Lease, from floor) {
		if r, skipped := v.journal.skipped(l.Range.OrFull(), from, v.lsn(l)); skipped {
			breach("%s: lease %s is at %q, but nobody acknowledged %s", a.host.id, l.Token, l.Continuation, r)
		}
	}
	switch {
	case a.op == opCreate && v.marker && !v.shadowed(a.doc, ""):
		covered(a.doc, v.promised)
	case a.op == opUpdate && a.doc.Continuation != before.Continuation && !v.shadowed(a.doc, ""):
		covered(a.doc, at(v.lsn(before)))
	case a.op == opDelete && v.marker && !v.writes[a.leaseWrite].discards:
		for _, l := range v.docs {
			if ancestor(before, l.Lease) && !v.shadowed(l.Lease, before.Token) {
				covered(l.Lease, v.promised)
			}
		}
	}
}

// judgeSkip judges the decision to skip changes: a read must have been answered so.
func judgeSkip(v *view, s *skip, breach report) {
	r := v.on(s.host, s.token).lost
	if r == nil {
		breach("%s: is asked to skip lease %s to %s, which no read has answered", s.host.id, s.token, s.oldest)
		return
	}
	if lost, _ := errors.AsType[*feed.HistoryLostError](r.err); lost.Oldest != s.oldest {
		breach("%s: is asked to skip lease %s to %s; the answer was %s", s.host.id, s.token, s.oldest, lost.Oldest)
	}
}

// judgeDropped judges which changes a store that drops changes has dropped.
func judgeDropped(v *view, r *read, breach report) {
	lost, ok := errors.AsType[*feed.HistoryLostError](r.err)
	if !ok {
		return
	}
	cut := v.store().Add(-v.retention)
	for _, c := range v.journal.between(v.keysOf(r.req), lsnAt(r.req.From.Continuation()), lsnAt(lost.Oldest)) {
		if !c.at.Before(cut) {
			breach("%s: the source has dropped the changes of lease %s up to %s, but %s is within the retention", r.host.id, r.token, lost.Oldest, c)
			return
		}
	}
}

func judgeForward(v *view, e entry, breach report) {
	a, ok := ours(e)
	if !ok || a.op != opUpdate {
		return
	}
	before := v.docs[a.lease.Token].Lease
	switch {
	case a.doc.Continuation == before.Continuation:
	case a.doc.Owner != "" && a.doc.Owner != before.Owner:
		breach("%s: acquires lease %s and moves it from %q to %q", a.host.id, a.doc.Token, before.Continuation, a.doc.Continuation)
	// Until a start time in the future is reached, its LSN grows with each new change. So
	// only a lease that had a continuation is judged.
	case before.Continuation != "" && v.lsn(a.doc) < v.lsn(before):
		breach("%s: the position of lease %s falls from %q to %q", a.host.id, a.doc.Token, before.Continuation, a.doc.Continuation)
	}
}

func judgeOwners(v *view, e entry, breach report) {
	if w, ok := sends(v, e); ok && w.op == opCreate && w.mine() {
		if t := v.tenures[tenureKey{w.host, w.lease.Token}]; !v.trusted(t) || !v.confirmed(t) {
			breach("%s: puts back lease %s, which it does not trust", w.host.id, w.lease.Token)
		}
	}
	a, ok := ours(e)
	if !ok {
		return
	}
	h, before, s := a.host, v.docs[a.lease.Token], v.writes[a.leaseWrite]
	breach.when(a.op != opCreate && a.lease.ETag != before.ETag,
		"%s: an %s of lease %s was carried out though the document had changed", h.id, a.op, a.lease.Token)
	switch a.op {
	case opCreate:
		known := v.lease(a.lease.Token).last.Token != ""
		switch {
		case before.Token != "":
			breach("%s: creates lease %s, which exists", h.id, a.lease.Token)
		case a.doc.Owner != "" && (a.doc.Owner != h.text() || !known):
			breach("%s: creates lease %s as its owner %q", h.id, a.lease.Token, a.doc.Owner)
		case a.doc.Wanted() != "":
			breach("%s: creates lease %s with a hand-over request", h.id, a.lease.Token)
		}
	case opUpdate:
		judgeUpdate(v, a, breach)
	case opDelete:
		live := before.Owner != "" && s.age < v.times.takeover() && !v.listedExpired(h, before.Lease)
		breach.when(!s.discards && before.Owner != "" && before.Owner != h.text() && (live || !s.replaces),
			"%s: deletes lease %s of %q", h.id, a.lease.Token, before.Owner)
	}
}

// judgeUpdate judges a write of one of our hosts that replaces a document.
func judgeUpdate(v *view, a *application, breach report) {
	h, before, after, s := a.host, v.docs[a.lease.Token].Lease, a.doc, v.writes[a.leaseWrite]
	expired := before.Owner != "" && (s.age >= v.times.takeover() || v.listedExpired(h, before))
	was, is := otherProperties(before), otherProperties(after)
	switch {
	case after.Owner == before.Owner && after.Owner != "" && after.Owner != h.text():
		if after.Wanted() != h.text() || before.Wanted() != "" || !lease.Ours(before.Owner) || before.Continuation != after.Continuation || !maps.Equal(was, is) {
			breach("%s: writes lease %s of %q: request %q to %q, position %q to %q", h.id, after.Token,
				before.Owner, before.Wanted(), after.Wanted(), before.Continuation, after.Continuation)
		}
		return
	case s.replaces && after.Owner == "" && before.Owner == "":
		breach.when(after.Continuation != before.Continuation || after.Wanted() != before.Wanted(),
			"%s: writes the free lease %s, and changes it", h.id, after.Token)
	case after.Owner == "" && (before.Owner == "" || before.Owner != h.text()):
		breach("%s: frees lease %s of %q", h.id, after.Token, before.Owner)
	case after.Owner != before.Owner && after.Owner != "":
		breach.when(after.Owner != h.text(), "%s: writes the owner text %q", h.id, after.Owner)
		breach.when(before.Owner != "" && !expired && lease.Ours(before.Owner),
			"%s: takes lease %s from %q at age %s", h.id, after.Token, before.Owner, s.age)
		breach.when(after.Wanted() != "", "%s: acquires lease %s and keeps the hand-over request %q", h.id, after.Token, after.Wanted())
	case expired && after.Owner == h.text() && before.Wanted() != "" && after.Wanted() == "":
		// The host acquires its own expired lease again.
	case after.Wanted() != before.Wanted():
		breach("%s: changes the hand-over request of lease %s from %q to %q", h.id, after.Token, before.Wanted(), after.Wanted())
	}
	if v.start.Kind() == feed.StartTime && was[lease.PropertyBound] == "" && is[lease.PropertyBound] == v.start.String() {
		delete(is, lease.PropertyBound)
	}
	breach.when(!maps.Equal(was, is), "%s: changes the properties of lease %s from %v to %v", h.id, after.Token, before.Properties, after.Properties)
}

// otherProperties returns a copy of a lease's properties without the hand-over request.
func otherProperties(l lease.Lease) map[string]string {
	p := maps.Clone(l.Properties)
	delete(p, lease.PropertyWanted)
	return p
}

func judgeChildren(v *view, e entry, breach report) {
	if w, ok := sends(v, e); ok && w.op == opCreate && w.lease.Owner == "" && v.marker {
		judgeChild(v, w, breach)
	}
	a, ok := ours(e)
	if !ok {
		return
	}
	l, s := v.docs[a.lease.Token].Lease, v.writes[a.leaseWrite]
	switch {
	case a.op == opCreate && a.doc.Owner != "":
		judgePutBack(v, a, breach)
	case a.op != opDelete || s.discards:
	case s.replaces:
		for _, gap := range v.uncoveredIn(l.Range.OrFull(), l.Token) {
			breach("%s: deletes lease %s, and no other lease covers %s", a.host.id, l.Token, gap)
		}
	default:
		breach.when(l.PartitionID != "" && !v.isGone(l.PartitionID, l.Range), "%s: deletes lease %s, whose partition is not gone", a.host.id, l.Token)
		var pieces []feed.Range
		for _, piece := range v.leases {
			if piece.last.Token != "" && ancestor(l, piece.last) {
				pieces = append(pieces, piece.last.Range)
			}
		}
		if gap, ok := uncovered(l.Range.OrFull(), pieces); ok {
			breach("%s: deletes lease %s, but no lease covers %s", a.host.id, l.Token, gap)
		}
	}
}

// judgeChild judges the create of a child. The host may own several ancestors of it. One of
// them must be its parent: that of a gone partition, at the child's position.
func judgeChild(v *view, w *leaseWrite, breach report) {
	var wrong func()
	for _, d := range v.docs {
		a, l := d.Lease, w.lease
		if !ancestor(a, l) || a.Owner == "" || a.Owner != w.host.text() || !v.isGone(a.PartitionID, a.Range.OrFull()) || v.overwritten(v.tenures[tenureKey{w.host, a.Token}]) {
			continue
		}
		if start := a.Start(feed.Now()); a.Continuation == "" && start.Kind() == feed.StartNow {
			a = a.StartingAt(v.defaultStart()) // foreign hosts drop the start; our children have it again
		}
		bound := a.Properties[lease.PropertyBound]
		if l.Continuation == a.Continuation && l.Properties[lease.PropertyStart] == a.Properties[lease.PropertyStart] &&
			(bound == "" || bound == l.Properties[lease.PropertyBound]) {
			return
		}
		wrong = func() {
			breach("%s: creates child %s at %q with %v, lease %s is at %q with %v", w.host.id, l.Token, l.Continuation, l.Properties, a.Token, a.Continuation, a.Properties)
		}
	}
	if wrong != nil {
		wrong()
	}
}

// judgePutBack judges a lease that its owner recreates after a delete by hand. The owner
// must recreate it at its durable position, or before: the answer to a write may have been
// lost, and a lease without a position begins at its start.
func judgePutBack(v *view, a *application, breach report) {
	last, l := v.lease(a.doc.Token).last, a.doc
	breach.when(l.Continuation != "" && !v.overwritten(v.tenures[tenureKey{a.host, l.Token}]) && v.lsn(l) > v.lsn(last),
		"%s: puts lease %s back at %q; it was at %q", a.host.id, l.Token, l.Continuation, last.Continuation)
	if bound := last.Properties[lease.PropertyBound]; bound != "" && bound != l.Properties[lease.PropertyBound] {
		breach("%s: puts lease %s back with the bound %q; it was %q", a.host.id, l.Token, l.Properties[lease.PropertyBound], bound)
	}
}

func judgeShadowedLeases(v *view, e entry, breach report) {
	if r, ok := e.fact.(*rest); ok && r.what == restParents {
		for _, d := range v.docs {
			// The release of a lease may have failed. Then its document keeps the owner.
			live := d.Owner != "" && v.age(d.Lease) < v.times.takeover()
			breach.when(live && v.shadowed(d.Lease,
				"") && !v.isGone(d.PartitionID, d.Range), "lease %s has the live owner %q, though its parent exists", d.Token, d.Owner)
		}
	}
	a, ok := ours(e)
	if !ok || a.op != opUpdate || a.doc.Owner == "" || a.doc.Owner == v.docs[a.doc.Token].Owner {
		return
	}
	k, _ := v.knows(a.host, v.docs[a.doc.Token].Lease)
	breach.when(!k.clear, "%s: acquires lease %s, though its listings show an ancestor", a.host.id, a.doc.Token)
}

func judgeOneWrite(v *view, e entry, breach report) {
	if w, ok := sends(v, e); ok {
		breach.when(v.owners(w) && v.on(w.host, w.lease.Token).inFlight > 0, "%s: two writes of lease %s at a time", w.host.id, w.lease.Token)
	}
}

func judgeBounds(v *view, e entry, breach report) {
	a, ok := ours(e)
	if !ok || !v.refuses || a.op == opDelete || a.doc.Continuation == v.docs[a.doc.Token].Continuation {
		return
	}
	if bound := a.doc.Properties[lease.PropertyBound]; bound != v.start.String() {
		breach("%s: writes lease %s at %q with the bound %q; the start is %s", a.host.id, a.doc.Token, a.doc.Continuation, bound, v.start)
	}
}

func judgeMoves(v *view, e entry, breach report) {
	if r, ok := e.fact.(*rest); ok && r.what == restPlanned {
		if n := v.journal.writes.redelivered; n > 0 {
			breach("planned moves redelivered %d changes", n)
		}
	}
	a, ok := ours(e)
	if !ok || !v.clean || a.op != opUpdate || a.doc.Owner == "" {
		return
	}
	before, s := v.docs[a.doc.Token], v.writes[a.leaseWrite]
	last := v.lease(a.doc.Token).owned
	if before.Owner == "" || before.Owner == a.doc.Owner || s.age < v.times.takeover() || last < 0 || !slices.ContainsFunc(v.alive(), func(h *host) bool {
		return v.hosts[h].joined <= last && h.settings.maxLeases == 0
	}) {
		return
	}
	t := v.times
	if limit := 2*t.expiration + 2*t.acquire + t.acquire/5 + t.timeout; v.now-last > limit {
		breach("%s: acquires lease %s %s after its owner's last write", a.host.id, a.doc.Token, v.now-last)
	}
}

func judgeLimits(v *view, e entry, breach report) {
	if w, ok := sends(v, e); ok && v.writes[w].acquires {
		n := 0
		for key, t := range v.tenures {
			if key.host != w.host || key.token == w.lease.Token || !v.holds(t) || v.overwritten(t) {
				continue
			}
			// A host does not put back a lease that it has stolen and not used yet.
			_, stored := v.docs[key.token]
			if (stored || t.previousWrite < 0) && !v.shadowed(lease.Lease{Token: key.token, PartitionID: t.id, Range: t.r}, "") {
				n++
			}
		}
		breach.when(w.host.settings.isFull(n),
			"%s: acquires lease %s and holds %d; at most %d are allowed", w.host.id, w.lease.Token, n, w.host.settings.maxLeases)
	}
	if r, ok := e.fact.(*rest); ok && r.what == restShort {
		have, leases := map[string]int{}, v.usable()
		for _, l := range leases {
			if v.age(l) < v.times.takeover() {
				have[l.Owner]++
			}
		}
		free := len(leases)
		for _, h := range v.alive() {
			free -= have[h.text()]
		}
		for _, h := range v.alive() {
			if n := have[h.text()]; free > 0 && !h.settings.isFull(n) {
				breach("%s owns %d leases, at most %d are allowed, but %d leases have no owner", h.id, n, h.settings.maxLeases, free)
			}
		}
	}
}

func judgeDiscards(v *view, e entry, breach report) {
	switch f := e.fact.(type) {
	case *mark:
		if h := v.hostOf(f.host); !e.ends && !f.exists && !h.crashed && (!h.discarding || h.refused) {
			breach("%s: deletes the marker; it discards: %t, a lease has a live owner: %t", f.host.id, h.discarding, h.refused)
		}
	case *leaseWrite:
		if w, ok := sends(v, e); ok && v.writes[w].discards && !v.hostOf(w.host).unmarked {
			breach("%s: discards lease %s before the marker", w.host.id, w.lease.Token)
		}
	case *application:
		l := v.docs[f.lease.Token].Lease
		if s := v.writes[f.leaseWrite]; s.discards {
			breach.when(v.isLive(l, v.store().Truncate(time.Second)) && !v.listedExpired(f.host, l),
				"%s: discards lease %s of %q at age %s", f.host.id, l.Token, l.Owner, s.age)
		}
	}
	h := startsAfresh(e)
	if h == nil || !v.hostOf(h).discarding || v.hostOf(h).crashed {
		return
	}
	breach.when(!v.hostOf(h).unmarked, "%s: starts without the delete of the marker", h.id)
	for token := range v.docs {
		breach.when(v.lease(token).made < v.hostOf(h).joined, "%s: starts without the discard of lease %s", h.id, token)
	}
}

func judgeEverythingDelivered(v *view, e entry, breach report) {
	r, ok := e.fact.(*rest)
	if !ok || r.what != restHandled && r.what != restParents || v.lostVersions() {
		return
	}
	var waiting []feed.Range // keys whose gone lease stays while deletes are refused
	for _, l := range v.usable() {
		if r.what == restParents && v.isGone(l.PartitionID, l.Range) {
			waiting = append(waiting, l.Range.OrFull())
		}
	}
	missing := v.journal.unhandled(v.keys.OrFull(), func(k *keyLog) int64 {
		if slices.ContainsFunc(waiting, func(r feed.Range) bool { return r.Holds(k.epk) }) {
			return math.MaxInt64
		}
		return v.promised(k)
	})
	for _, c := range missing[:min(3, len(missing))] {
		breach("nobody handled %s, which was written after the first start", c)
	}
}
