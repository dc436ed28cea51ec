package simulation

import (
	"errors"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// This file judges the work on leases: reads, batches and checkpoints.

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
	case o.what == useRead && v.hostOf(o.host).slept(v.entries[v.began[o]].at) || u.what == useRead && v.hostOf(u.host).slept(v.now):
		return false
	}
	return !v.overtaken(v.tenures[u.key()]) && !v.overtaken(v.tenures[o.key()])
}

// doubled reports whether a doubling concerns both ranges of keys.
func (v *view) doubled(a, b feed.Range) bool {
	return slices.ContainsFunc(v.double, func(d doubling) bool { return d.keys.Overlaps(a) && d.keys.Overlaps(b) })
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
	default:
		// The host that replaces a gone lease may also own another ancestor of the child.
		parents := v.parents(w)
		may := slices.ContainsFunc(parents, func(a lease.Lease) bool {
			t := v.tenures[tenureKey{h, a.Token}]
			return t == nil || v.trusted(t) || v.overwritten(t)
		})
		breach(len(parents) > 0 && !may, "trust in the parents %+v has ended", parents)
	}
}

func judgeHandOver(v *view, u *use, t *tenure, breach report) {
	if u.batch != nil && t != nil && t.askedAt >= 0 {
		isNew := u.asked > t.askedAt && v.workers[u.batch.worker].failed == nil
		breach(isNew, "a new batch %s after the answer with a hand-over request", u.asked-t.askedAt)
	}
}

func judgeMisuse(_ *view, m *misuse, breach report) { breach(true, "the observer %s", m.text) }

func judgeOrder(v *view, u *use, _ *tenure, breach report) {
	if u.batch != nil {
		w, m := v.workers[u.batch.worker], v.matched[u.batch]
		breach(m.wrong != "", "after %d, the batch %s", w.position, m.wrong)
		breach(w.failed != nil && !slices.Equal(w.failed, m.records), "the batch differs from the one that failed")
		breach(!u.host.foreign && (!w.opened || w.closed), "a batch before the observer was opened, or after it was closed")
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
	early := w.ended && !drained && !errors.Is(w.cause, lease.ErrLost)
	breach(!h.crashed && late, "a handler still has a context %s after the drain timeout", stays)
	breach(!h.crashed && early, "the context of a handler ended: %v", w.cause)
}

func judgeCheckpoints(v *view, c *checkpoint, breach report) {
	w, h, t := v.workers[c.worker], v.hostOf(c.host), v.tenures[tenureKey{c.host, c.lease.Token}]
	switch {
	case h.crashed:
	case c.err == nil:
		breach(w.stored < c.lsn, "the checkpoint at %d returned nil, but the stored position is %d", c.lsn, w.stored)
	case !errors.Is(c.err, lease.ErrLost) || v.called[c] >= c.lsn:
		breach(true, "the checkpoint at %d returned %v; the last that returned nil was at %d", c.lsn, c.err, v.called[c])
	case h.left < 0 && t == w.tenure && v.holds(t):
		breach(!v.lapsed(t) && !v.overwritten(t) && !v.isGone(c.lease) && !v.hasChild(c.lease),
			"the checkpoint at %d returned %v, but the host holds the lease", c.lsn, c.err)
	}
}

func judgePurge(v *view, c *commit, breach report) {
	item := c.writes[0].item()
	old := v.journal.newest[item]
	breach(c.purge && (old == nil || !old.hasExpired(c.at)), "the store deletes item %s, which has not expired", item)
}

func judgeServed(v *view, s *served, breach report) {
	for _, r := range v.limited[s.read] {
		breach(r.hasExpired(v.store()), "the page contains %s, which has expired at %s", r, r.expires)
	}
}

func judgePassed(v *view, a *application, s *sending, breach report) {
	p := v.on(a.host, a.doc.Token).paging
	moves := a.op == opUpdate && a.doc.Continuation != s.before.Continuation
	if p == nil || !moves || p.tenure == nil || p.tenure != v.tenures[a.key()] {
		return
	}
	for _, r := range p.limited {
		delivered := r.acked || r.before.acked || v.passes != nil && !v.passes(r.id)
		breach(r.lsn <= v.lsn(a.doc) && !delivered, "nobody acknowledged %s, which the host has read before it expired", r)
	}
}

func judgeExpired(v *view, r *rest, breach report) {
	late := v.journal.expired(v.store().Add(-r.purge - time.Second))
	breach(len(late) > 0, "the store has not deleted the expired items of %v", late)
}
