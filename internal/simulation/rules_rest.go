package simulation

import (
	"errors"
	"maps"
	"slices"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/lease"
)

// This file judges what holds at rest, when no faults happen, and what estimators and
// readers tell.

func judgeFeedRange(v *view, a *application, _ *sending, breach report) {
	breach(a.op == opCreate && !v.keys.OrFull().Contains(a.doc.Range.OrFull()), "the lease is not within the feed range %s", v.keys.OrFull())
}

func judgeCoverage(v *view, r *rest, breach report) {
	leases := v.usable()
	gap, ok := uncovered(v.keys.OrFull(), leases)
	breach(ok, "no lease covers %s", gap)
	for i, l := range leases {
		read := v.lease(l.Token).read
		breach(r.what == restRead && read < r.since, "lease %s has not been read for %s", l.Token, v.now-read)
		if r.what != restCovered {
			continue
		}
		for _, o := range leases[:i] {
			a, b := l.Range.OrFull(), o.Range.OrFull()
			repaired := slices.ContainsFunc(v.double, func(d doubling) bool { return d.part && d.keys.Overlaps(a) && d.keys.Overlaps(b) })
			breach(a.Overlaps(b) && !repaired, "leases %s and %s overlap", o.Token, l.Token)
		}
		breach(v.isGone(l), "lease %s is gone but still exists", l.Token)
		breach(v.ownerOf(l) == nil, "lease %s is owned by %q, which is not a live host", l.Token, l.Owner)
	}
	breach(r.what == restCovered && !v.marker, "the marker is missing")
	for u, over := range v.uses {
		l, ok := v.docs[u.token]
		breach(r.what == restCovered && ok && !over && v.shadowed(l), "the lease is shadowed during %s", u)
	}
}

// ownerOf returns the live host that owns a lease, or nil.
func (v *view) ownerOf(l lease.Lease) *host {
	hosts := v.alive()
	if i := slices.IndexFunc(hosts, func(h *host) bool { return l.Owner != "" && h.text() == l.Owner }); i >= 0 {
		return hosts[i]
	}
	return nil
}

func judgeStable(v *view, r *rest, breach report) {
	breach(v.changedAt > r.since, "the owner of a lease, the host that wants one, a document or a worker changed %s after rest began", v.changedAt-r.since)
}

// judgeBalance judges the numbers of leases of the hosts. A host's share is the number of
// leases divided by the number of hosts, rounded down or up, within the bounds of the host.
// With bounds, no host may lack a lease of another one that has more than the first one's share.
func judgeBalance(v *view, _ *rest, breach report) {
	hosts, leases, have := v.alive(), v.usable(), map[string]int{}
	for _, l := range leases {
		have[l.Owner]++
		breach(l.Wanted() != "", "lease %s is still wanted by %q", l.Token, l.Wanted())
	}
	bounded := slices.ContainsFunc(hosts, func(h *host) bool { return h.settings.minLeases > 0 || h.settings.maxLeases > 0 })
	for _, h := range hosts {
		mine, owners := have[h.text()], len(hosts)
		if bounded {
			owners = len(have)
			if mine == 0 {
				owners++
			}
		}
		low, high := h.settings.within(len(leases)/owners), h.settings.within((len(leases)+owners-1)/owners)
		lacks := func(o *host) bool {
			n := have[o.text()]
			return mine < high && n > high || mine < low && n > low
		}
		wrong := !bounded && (mine < low || mine > high) || bounded && slices.ContainsFunc(hosts, lacks)
		breach(wrong || h.settings.maxLeases > 0 && mine > h.settings.maxLeases, "%s owns %d of %d leases and may have %d to %d; the hosts own %v",
			h.id, mine, len(leases), low, high, have)
	}
}

// within returns n within the host's bounds.
func (s settings) within(n int) int {
	n = max(n, s.minLeases)
	if s.maxLeases > 0 {
		n = min(n, s.maxLeases)
	}
	return n
}

// judgeCost judges the requests since they are counted. A host lists the leases once per
// interval, and a lease has one write per checkpoint and one per renewal. Both intervals have
// a jitter of a tenth.
func judgeCost(v *view, _ *rest, breach report) {
	lists, updates, batches := map[*host]int{}, map[string]int{}, map[string]int{}
	for _, e := range v.entries[v.counting:v.n] {
		switch f := e.fact.(type) {
		case *listing:
			if e.ends && f.err == nil {
				lists[f.host]++
			}
		case *use:
			if f.batch != nil && !e.ends {
				batches[f.token]++
			}
		case *application:
			if f.ours() && f.op == opUpdate {
				updates[f.lease.Token]++
			}
			breach(f.ours() && (f.op != opUpdate || f.doc.Owner != "" && f.doc.Owner != f.host.text()), "there was %s", f)
		}
	}
	span := v.now - v.entries[v.counting].at
	for _, h := range v.alive() {
		t, n := h.settings.times, lists[h]
		least, most := int(span/(t.acquire+t.acquire/10+t.timeout))-1, int(span/(t.acquire-t.acquire/10))+1
		breach(n < least || n > most, "%s: %d listings in %s, where %d to %d are due", h.id, n, span, least, most)
	}
	for _, l := range v.usable() {
		if h, n := v.ownerOf(l), updates[l.Token]; h != nil { // judgeCoverage reports others
			t := h.settings.times
			least, most := int(span/(t.renew+t.timeout))-1, int(span/(t.renew-t.renew/10))+1+batches[l.Token]
			breach(n < least || n > most, "lease %s: %d writes in %s, where %d to %d are due", l.Token, n, span, least, most)
		}
	}
}

func judgeFailure(_ *view, f *failure, breach report) { breach(true, "%s", f.text) }

func judgeReturned(v *view, f *returned, breach report) {
	h := v.hostOf(f.host)
	config, refused := errors.AsType[*changefeed.ConfigError](f.err)
	if h.crashed || h.left >= 0 && h.lists == 0 || h.discarding && h.refused && refused && config.Field == "DiscardLeases" {
		return
	}
	_, runs := errors.AsType[*changefeed.StillRunningError](f.err)
	// A call of the user's code lasts.
	outlasts := slices.ContainsFunc(slices.Collect(maps.Keys(v.uses)), func(u *use) bool { return u.host == f.host && u.what != useRead })
	breach(h.left < 0 || f.err != nil && !(runs && (outlasts || f.waited)), "%s: Run returned %v; it was stopped: %t", f.host.id, f.err, h.left >= 0)
}

func judgeFree(v *view, _ *rest, breach report) {
	for _, l := range v.usable() {
		breach(l.Owner != "", "lease %s is still owned by %q after all hosts left", l.Token, l.Owner)
	}
}
