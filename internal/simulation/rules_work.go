package simulation

import (
	"errors"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// This file judges the work on leases: reads, batches and checkpoints.

// begins returns the fact of an entry if a use of a lease begins.
func begins(v *view, e entry) (u *use, t *tenure, ok bool) {
	u, ok = e.fact.(*use)
	if !ok || e.ends || v.hostOf(u.host).crashed {
		return nil, nil, false
	}
	return u, v.tenures[tenureKey{u.host, u.token}], true
}

// overslept reports whether the host trusted its lease when the processor called the user's
// code, one of its clocks fell behind before the use began, and trust has ended meanwhile. The
// host notices that within a moment, and ends the context of the call.
func (v *view) overslept(u *use, t *tenure) bool {
	h := v.hostOf(u.host)
	return t != nil && !u.host.foreign && !v.trusted(t) && h.fellBehind(u.asked) && v.trustedAt(t, u.asked)
}

func judgeExclusiveUse(v *view, e entry, breach report) {
	u, mine, ok := begins(v, e)
	if !ok || v.overslept(u, mine) {
		return
	}
	for _, other := range v.uses {
		if other.host == u.host && other.token == u.token && other.what != u.what {
			continue // the worker reads the next page while its handler handles a batch
		}
		if !other.over && other.keys.Overlaps(u.keys) && v.comparable(u, other) && !v.doubled(u.keys, other.keys) {
			breach("%s: a %s of lease %s (%s) during a %s of lease %s (%s) by %s",
				u.host.id, u.what, u.token, u.keys, other.what, other.token, other.keys, other.host.id)
		}
	}
	if u.host.foreign || v.overwritten(mine) || v.overtaken(mine) {
		return
	}
	for key, t := range v.tenures {
		if key.host == u.host || !t.r.Overlaps(u.keys) || !v.holds(t) || v.overwritten(t) || v.overtaken(t) || !v.confirmed(t) ||
			v.isGone(t.id, t.r) || v.doubled(u.keys, t.r) {
			continue
		}
		breach("%s: a %s of lease %s (%s) while %s trusts lease %s (%s)",
			u.host.id, u.what, u.token, u.keys, key.host.id, key.token, t.r)
	}
}

// comparable reports whether no fact exempts two overlapping uses of a range.
func (v *view) comparable(u *use, other *using) bool {
	if u.host.foreign || other.host.foreign {
		return v.strictForeign && u.host.foreign != other.host.foreign
	}
	if other.what == useRead && v.hostOf(other.host).slept(other.at) || u.what == useRead && v.hostOf(u.host).slept(v.now) {
		return false
	}
	a, b := v.tenures[tenureKey{u.host, u.token}], v.tenures[tenureKey{other.host, other.token}]
	return !v.overwritten(a) && !v.overwritten(b) && !v.overtaken(a) && !v.overtaken(b)
}

// doubled reports whether a doubling concerns both ranges of keys.
func (v *view) doubled(a, b feed.Range) bool {
	return slices.ContainsFunc(v.double, func(d doubling) bool { return d.keys.Overlaps(a) && d.keys.Overlaps(b) })
}

func judgeTrust(v *view, e entry, breach report) {
	if w, ok := sends(v, e); ok {
		judgeSending(v, w, breach)
	}
	u, t, ok := begins(v, e)
	switch {
	case !ok || u.host.foreign:
	case t == nil:
		breach("%s: a %s of lease %s, which it does not hold", u.host.id, u.what, u.token)
	case t.givenUp:
		breach("%s: a %s of lease %s after its release or delete was sent", u.host.id, u.what, u.token)
	case v.overslept(u, t):
	case !v.trusted(t):
		breach("%s: a %s of lease %s after trust ended", u.host.id, u.what, u.token)
	case !v.confirmed(t):
		breach("%s: a %s of lease %s, which it stole %s after the previous owner's last write and has not confirmed",
			u.host.id, u.what, u.token, t.attempt-t.previousWrite)
	}
}

// judgeSending judges the trust in which a host sends a write. A release or a delete is
// judged at its first try.
func judgeSending(v *view, w *leaseWrite, breach report) {
	h, t := w.host, v.tenures[tenureKey{w.host, w.lease.Token}]
	switch {
	case v.releases(w):
		breach.when(t != nil && !t.givenUp && !v.trusted(t), "%s: sends a release or delete of lease %s after trust ended", h.id, w.lease.Token)
		breach.when(t != nil && !v.confirmed(t), "%s: sends a release or delete of the stolen lease %s before it is confirmed", h.id, w.lease.Token)
		for _, u := range v.uses {
			breach.when(u.host == h && u.token == w.lease.Token && !u.over,
				"%s: sends a release or delete of lease %s during a %s", h.id, w.lease.Token, u.what)
		}
	case w.op == opUpdate && w.mine():
		breach.when(t != nil && !t.givenUp && !t.inferred && !v.trusted(t) && !v.writes[w].acquires,
			"%s: writes lease %s after trust ended", h.id, w.lease.Token)
	case w.op == opCreate && w.lease.Owner == "" && v.marker:
		// The host that replaces a gone lease may also own another ancestor of the child.
		var late *tenure
		for _, d := range v.docs {
			a := v.tenures[tenureKey{h, d.Token}]
			if !ancestor(d.Lease, w.lease) || d.Owner == "" || d.Owner != h.text() || !v.isGone(d.PartitionID, d.Range.OrFull()) {
				continue
			}
			if a == nil || v.trusted(a) || v.overwritten(a) {
				return
			}
			late = a
		}
		if late != nil {
			breach("%s: creates child %s of lease %s after trust ended", h.id, w.lease.Token, late.token)
		}
	}
}

func judgeHandOver(v *view, e entry, breach report) {
	u, t, ok := begins(v, e)
	if !ok || u.batch == nil || t == nil || t.askedAt < 0 || u.asked <= t.askedAt || v.workers[u.batch.worker].failed != nil {
		return
	}
	breach("%s: lease %s: a new batch %s after the answer with a hand-over request", u.host.id, u.token, u.asked-t.askedAt)
}

func judgeOrder(v *view, e entry, breach report) {
	if m, ok := e.fact.(*misuse); ok {
		breach("%s: observer of lease %s %s", m.host.id, m.lease.Token, m.text)
	}
	u, _, ok := begins(v, e)
	if !ok || u.batch == nil {
		return
	}
	b, w := u.batch, v.workers[u.batch.worker]
	breach.when(w.wrong[b] != "", "%s: lease %s, after %d: the batch %s", u.host.id, u.token, w.position, w.wrong[b])
	breach.when(w.failed != nil && !slices.Equal(w.failed, w.matched[b]),
		"%s: lease %s: the batch differs from the one that failed", u.host.id, u.token)
	breach.when(!u.host.foreign && (!w.opened || w.closed),
		"%s: lease %s: a batch before the observer was opened, or after it was closed", u.host.id, u.token)
}

func judgePromptReads(v *view, e entry, breach report) {
	r, ok := e.fact.(*read)
	if !ok || e.ends || v.hostOf(r.host).crashed {
		return
	}
	if p := v.on(r.host, r.token).paging; p != nil && p.due && p.tenure == v.tenures[tenureKey{r.host, r.token}] && p.after == r.req.From.Continuation() && v.now > p.since {
		breach("%s: lease %s: the read after %s is %s late, though more changes may follow", r.host.id, r.token, p.after, v.now-p.since)
	}
}

func judgeDrain(v *view, e entry, breach report) {
	w, ok := e.fact.(*wait)
	if !ok || v.hostOf(w.host).crashed {
		return
	}
	h := v.hostOf(w.host)
	stays := v.now - h.left - w.host.settings.times.drain // since the end of the drain timeout
	drained := h.left >= 0 && stays >= 0
	switch {
	case !w.ended && drained && stays > 0 && !h.fellBehind(h.left):
		breach("%s: a handler of lease %s still has a context %s after the drain timeout", w.host.id, w.lease.Token, stays)
	case w.ended && !drained && !errors.Is(w.cause, lease.ErrLost):
		breach("%s: the context of a handler of lease %s ended: %v", w.host.id, w.lease.Token, w.cause)
	}
}

func judgeCheckpoints(v *view, e entry, breach report) {
	c, ok := e.fact.(*checkpoint)
	if !ok || !e.ends || v.hostOf(c.host).crashed {
		return
	}
	w, t := v.workers[c.worker], v.tenures[tenureKey{c.host, c.lease.Token}]
	switch {
	case c.err == nil && w.stored < c.lsn:
		breach("%s: the checkpoint of lease %s at %d returned nil, but the stored position is %d", c.host.id, c.lease.Token, c.lsn, w.stored)
	case c.err == nil:
	case !errors.Is(c.err, lease.ErrLost):
		breach("%s: the checkpoint of lease %s at %d returned %v", c.host.id, c.lease.Token, c.lsn, c.err)
	case w.called[c] >= c.lsn:
		breach("%s: the checkpoint of lease %s at %d returned %v; that at %d has returned nil before", c.host.id, c.lease.Token, c.lsn, c.err, w.called[c])
	case v.hostOf(c.host).left < 0 && t == w.tenure && v.holds(t) && !v.lapsed(t) && !v.overwritten(t) &&
		!v.isGone(c.lease.PartitionID, c.lease.Range) && !v.hasChild(c.lease):
		breach("%s: the checkpoint of lease %s at %d returned %v, but the host holds the lease", c.host.id, c.lease.Token, c.lsn, c.err)
	}
}

func judgeTimeToLive(v *view, e entry, breach report) {
	switch f := e.fact.(type) {
	case *commit:
		if old := v.journal.newest[f.writes[0].item()]; f.purge && (old == nil || !old.hasExpired(f.at)) {
			breach("the store deletes item %s, which has not expired", f.writes[0].item())
		}
	case *served:
		for _, r := range v.limited[f.read] {
			breach.when(r.hasExpired(v.store()), "a page contains %s, which has expired at %s", r, r.expires.Format(time.TimeOnly))
		}
	case *application:
		p := v.on(f.host, f.doc.Token).paging
		if p == nil || f.op != opUpdate || p.tenure == nil || p.tenure != v.tenures[tenureKey{f.host, f.doc.Token}] || f.doc.Continuation == v.docs[f.doc.Token].Continuation {
			return
		}
		for _, r := range p.limited {
			breach.when(r.lsn <= v.lsn(f.doc) && !r.acked && !r.before.acked && (v.passes == nil || v.passes(r.id)),
				"%s: lease %s is at %q, but nobody acknowledged %s, which the host has read before it expired", f.host.id, f.doc.Token, f.doc.Continuation, r)
		}
	case *rest:
		if f.what != restExpired {
			return
		}
		for _, r := range v.journal.expired(v.store().Add(-f.purge - time.Second)) {
			breach("the store has not deleted the item of %s, which expired at %s", r, r.expires.Format(time.TimeOnly))
			return
		}
	}
}
