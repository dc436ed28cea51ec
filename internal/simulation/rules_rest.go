package simulation

import (
	"errors"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
)

// This file judges what holds at rest, when no faults happen, and what estimators and
// readers tell.

func judgeCoverage(v *view, e entry, breach report) {
	if a, ok := ours(e); ok && a.op == opCreate && !v.keys.OrFull().Contains(a.doc.Range.OrFull()) {
		breach("%s: creates lease %s, which is not within the feed range %s", a.host.id, a.doc.Token, v.keys.OrFull())
	}
	r, ok := e.fact.(*rest)
	if !ok || r.what != restCovered && r.what != restRead && r.what != restParents {
		return
	}
	leases := v.usable()
	ranges := make([]feed.Range, len(leases))
	for i, l := range leases {
		ranges[i] = l.Range.OrFull()
		breach.when(r.what == restRead && v.lease(l.Token).read < r.since, "lease %s has not been read for %s", l.Token, v.now-v.lease(l.Token).read)
	}
	if gap, ok := uncovered(v.keys.OrFull(), ranges); ok {
		breach("no lease covers %s", gap)
	}
	if r.what != restCovered {
		return
	}
	breach.when(!v.marker, "the marker is missing")
	for i, l := range leases {
		for j, other := range leases[:i] {
			if ranges[j].Overlaps(ranges[i]) && !slices.ContainsFunc(v.double, func(d doubling) bool {
				return d.part && d.keys.Overlaps(ranges[i]) && d.keys.Overlaps(ranges[j])
			}) {
				breach("leases %s and %s overlap", other.Token, l.Token)
			}
		}
		breach.when(v.isGone(l.PartitionID, l.Range), "lease %s is gone but still exists", l.Token)
		breach.when(l.Owner == "" || !slices.ContainsFunc(v.alive(), func(h *host) bool { return h.text() == l.Owner }),
			"lease %s is owned by %q, which is not a live host", l.Token, l.Owner)
	}
	for _, u := range v.uses {
		if d, ok := v.docs[u.token]; ok && !u.over && v.shadowed(d.Lease, "") {
			breach("%s: a %s of the shadowed lease %s", u.host.id, u.what, u.token)
		}
	}
}

func judgeBalance(v *view, e entry, breach report) {
	r, ok := e.fact.(*rest)
	switch {
	case !ok:
	case r.what == restStable && v.changedAt > r.since:
		breach("an owner, a hand-over request, a document or a worker changed %s after rest began", v.changedAt-r.since)
	case r.what == restBalanced:
		judgeShares(v, breach)
	}
}

// judgeShares judges the numbers of leases of the hosts. A host's share is the number of
// leases divided by the number of hosts, rounded down or up, within the bounds of the host.
// With bounds, no host may lack a lease that it could ask for: one of a host that has more
// than the asking host's share.
func judgeShares(v *view, breach report) {
	hosts, leases, have := v.alive(), v.usable(), map[string]int{}
	for _, l := range leases {
		have[l.Owner]++
		breach.when(l.Wanted() != "", "lease %s still has a hand-over request from %q", l.Token, l.Wanted())
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
		breach.when(!bounded && (mine < low || mine > high) || h.settings.maxLeases > 0 && mine > h.settings.maxLeases,
			"%s owns %d of %d leases on %d hosts", h.id, mine, len(leases), owners)
		for _, o := range hosts {
			if n := have[o.text()]; bounded && (mine < high && n > high || mine < low && n > low) {
				breach("%s owns %d of %d leases and may have %d to %d, but %s owns %d", h.id, mine, len(leases), low, high, o.id, n)
			}
		}
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

// isFull reports whether a host with n leases may acquire no more.
func (s settings) isFull(n int) bool { return s.maxLeases > 0 && n >= s.maxLeases }

// judgeCost judges the number of requests to the lease store since they are counted. Each
// host may list the leases once per interval. Each lease may have one write per checkpoint
// and one per renewal. Both intervals have a jitter of a tenth.
func judgeCost(v *view, e entry, breach report) {
	r, ok := e.fact.(*rest)
	if !ok || r.what != restCost {
		return
	}
	c := v.counted
	span := v.now - c.since
	for _, h := range v.alive() {
		t := h.settings.times
		least, most := int(span/(t.acquire+t.acquire/10+t.timeout))-1, int(span/(t.acquire-t.acquire/10))+1
		if n := c.lists[h]; n < least || n > most {
			breach("%s: %d listings in %s, where %d to %d are due", h.id, n, span, least, most)
		}
	}
	for _, l := range v.usable() {
		i := slices.IndexFunc(v.alive(), func(h *host) bool { return h.text() == l.Owner })
		if i < 0 {
			continue // judgeCoverage reports it
		}
		t := v.alive()[i].settings.times
		most := int(span/(t.renew-t.renew/10)) + 1 + c.batches[l.Token]
		least := int(span/(t.renew+t.timeout)) - 1
		if n := c.updates[l.Token]; n > most || n < least {
			breach("lease %s: %d writes in %s with %d batches, where %d to %d are due", l.Token, n, span, c.batches[l.Token], least, most)
		}
	}
	breach.when(c.others > 0, "%d creates, deletes and hand-over requests at rest", c.others)
}

func judgeEnd(v *view, e entry, breach report) {
	switch f := e.fact.(type) {
	case *failure:
		breach("%s", f.text)
	case *returned:
		h := v.hostOf(f.host)
		config, refused := errors.AsType[*changefeed.ConfigError](f.err)
		switch {
		case h.crashed || h.discarding && h.refused && refused && config.Field == "DiscardLeases":
		case h.left < 0:
			breach("%s: Run returned before it was stopped: %v", f.host.id, f.err)
		case f.err != nil && !v.ignoresContext && !f.waited:
			breach("%s: Run returned %v", f.host.id, f.err)
		}
	case *rest:
		for _, l := range v.usable() {
			breach.when(f.what == restFree && l.Owner != "", "lease %s is still owned by %q after all hosts left", l.Token, l.Owner)
		}
	}
}

func judgeEstimates(v *view, e entry, breach report) {
	r, ok := e.fact.(*measurement)
	if !ok || !e.ends {
		return
	}
	if r.err != nil {
		breach.when(r.state != underway, "cannot measure the lag at rest: %v", r.err)
		return
	}
	largest := map[string]int64{} // the largest lag of the leases of each partition
	for _, l := range r.got.Lags {
		judgeLag(v, r, l, breach)
		for _, p := range v.live {
			if l.Known() && !l.Shadowed && p.Range.Contains(l.Range) {
				largest[p.ID] = max(largest[p.ID], v.measured[l.LeaseToken].lag())
			}
		}
	}
	want := int64(estimator.Unknown)
	for _, n := range largest {
		want = max(want, 0) + n
	}
	t := r.got.Total
	sum := estimator.Sum(r.got.Lags)
	// With manual checkpoints, the user may not have checkpointed the last changes.
	behind := (t.LSNs != 0 || t.Age != 0) && !v.checkpoint.Manual
	switch {
	case r.state != underway && (sum.LSNs != t.LSNs || sum.Leases != t.Leases):
		breach("the total is %+v; the sum of the lags is %+v", t, sum)
	case r.state == idle && (behind || t.Owned != t.Leases || t.Splitting != 0):
		breach("the total at rest is %+v; want no lag and only owned leases", t)
	case r.state == stopped && (t.LSNs != want || t.Owned != 0):
		breach("the total without hosts is %+v; want %d transactions and no owned leases", t, want)
	}
}

// judgeLag judges the lag of one lease. A lease whose read was answered with a GoneError has
// no partition in the report.
func judgeLag(v *view, r *measurement, l estimator.Lag, breach report) {
	m, atRest := v.measured[l.LeaseToken], r.state != underway
	d, stored := v.docs[l.LeaseToken]
	if shadowed := stored && v.shadowed(d.Lease, ""); atRest && l.Shadowed != shadowed {
		breach("lease %s is reported as shadowed: %t; want %t", l.LeaseToken, l.Shadowed, shadowed)
	}
	// The user has not checkpointed the lease, and the source has lost the changes after its
	// position, or refuses its start time.
	_, lost := errors.AsType[*feed.HistoryLostError](l.Err)
	refused := l.Continuation == "" && errors.Is(l.Err, feed.ErrUnsupported) && v.refuses
	unmeasurable := v.checkpoint.Manual && (lost || refused)
	switch {
	case l.Err != nil || !l.Known() && (l.Unstarted || l.Splitting && l.Partition == ""):
		breach.when(atRest && !l.Shadowed && !unmeasurable, "the lag of lease %s is unknown at rest: %+v", l.LeaseToken, l)
		return
	case m == nil:
		breach("the lag of lease %s is %d, but nobody read it", l.LeaseToken, l.LSNs)
		return
	case m.from.Continuation() != l.Continuation:
		breach("the lag of lease %s is that after %s; the lease is at %s", l.LeaseToken, m.from, l.Continuation)
		return
	case !m.told:
		return
	case m.page.End < 0 && len(m.page.Changes) > 0:
		breach.when(l.Known(), "the lag of lease %s is %d, but the source has not returned the end of the feed", l.LeaseToken, l.LSNs)
	case l.LSNs < m.unread.transactions:
		breach("the lag of lease %s is %d; %d transactions are unread", l.LeaseToken, l.LSNs, m.unread.transactions)
	case m.from.Kind() == feed.StartTime:
		return // on a merged partition, older changes may follow the start
	case l.LSNs != m.lag():
		breach("the lag of lease %s is %d; want %d, from transaction %d on to %d", l.LeaseToken, l.LSNs, m.lag(), m.unread.first, m.end)
	}
	breach.when(!l.Oldest.Equal(m.unread.at), "the oldest unread change of lease %s is of %s; want %s", l.LeaseToken, l.Oldest, m.unread.at)
	// Without a clock of the store, the age is a difference between two clocks. With one,
	// the estimator adds the time since the listing by its own clock, which drifts.
	age := m.now.Sub(m.unread.at) - 2*time.Second
	breach.when(m.unread.transactions > 0 && !v.clockless && l.Age < age, "the age of lease %s is %s; want at least %s", l.LeaseToken, l.Age, age)
	breach.when(atRest && m.unread.transactions == 0 && l.Age != 0, "the age of lease %s is %s, but no change is unread", l.LeaseToken, l.Age)
}

func judgeReaders(v *view, e entry, breach report) {
	switch f := e.fact.(type) {
	case *readerPage:
		if len(f.changes) == 0 {
			return
		}
		from, found := v.tiles.at(f.keys)
		if !found || from < 0 {
			breach("the reader returns changes of %s, which it has not begun to read", f.keys)
			return
		}
		if _, wrong := v.journal.match(f.keys.Intersect(f.prefix), from, f.changes, v.journal.contains); wrong != "" {
			breach("the reader, in %s after %d: the page %s", f.keys, from, wrong)
		}
	case *readerEnds:
		breach.when(f.err != nil, "the reader has not reached the end of the feed: %v", f.err)
		for _, t := range v.tiles {
			if left := v.journal.unread(t.keys.Intersect(f.prefix), feed.After(continuation(t.lsn))); left.transactions > 0 {
				breach("the reader has not returned %d transactions of %s, from %d on", left.transactions, t.keys, left.first)
			}
		}
	}
}
