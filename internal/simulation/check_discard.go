package simulation

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// This file checks Config.DiscardLeases. These are the rules:
//
//   - The host deletes the marker before the first lease.
//   - It deletes no lease that has a live owner. Then Run returns an error instead.
//   - Run returns that error only if a listing or a conflict has shown such an owner.
//   - When the host begins its first start, all leases that existed when it joined are
//     deleted.
//   - The keys of a discarded lease start over. Every change from the start on is handled
//     again. With a start from now, that is every change after the next marker.
//
// A host that crashes meanwhile leaves some leases. Their keys do not start over. The same
// holds for a lease whose create was sent before the discard and arrives after it.

// discard is the discard of the leases by a host. checker.mu guards it.
type discard struct {
	over chan struct{} // closed when the discard has succeeded
	// ended reports whether over is closed.
	ended bool
	// refused reports whether an answer has shown a lease with a live owner.
	refused bool
	// unmarked reports whether the host has deleted the marker.
	unmarked bool
}

func newDiscard() *discard { return &discard{over: make(chan struct{})} }

// runs reports whether the host is discarding the leases. The caller holds checker.mu.
func (d *discard) runs() bool { return d != nil && !d.ended }

// isLive reports whether a host that discards must regard the lease as one with a live
// owner. Without a clock of the store, that is every lease with an owner.
func (c *checker) isLive(l lease.Lease, now time.Time) bool {
	return l.Owner != "" && (c.world.clockless || now.Sub(l.Modified) < c.world.times.takeover())
}

// discardLists records whether a listing shows a lease with a live owner.
func (c *checker) discardLists(h *host, listing lease.Listing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.discard.runs() {
		h.discard.refused = slices.ContainsFunc(listing.Leases, func(l lease.Lease) bool { return c.isLive(l, listing.Now) })
	}
}

// markSent checks a write of the marker before it leaves the host.
func (c *checker) markSent(h *host, initialised bool) {
	if initialised {
		c.discardEnds(h)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case h.crashed():
	case !h.discard.runs():
		c.violate(22, "%s: deletes the marker, but does not discard the leases", h.id)
	case h.discard.refused:
		c.violate(22, "%s: deletes the marker, though a lease has a live owner", h.id)
	}
}

// markAnswered records that a host has deleted the marker.
func (c *checker) markAnswered(h *host, initialised bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !initialised && err == nil && h.discard != nil {
		h.discard.unmarked = true
	}
}

// discardSends checks a write of a host that discards the leases. The first write of
// another kind than a delete ends the discard. The caller holds c.mu.
func (c *checker) discardSends(w *leaseWrite) {
	if w.op != opDelete {
		c.endDiscard(w.host)
	}
	if w.discards = w.host.discard.runs(); w.discards && !w.host.discard.unmarked {
		c.violate(22, "%s: discards lease %s before the marker", w.host.id, w.lease.Token)
	}
}

// discardEnds records that a host begins its first start. If it discards the leases, it
// has done so.
func (c *checker) discardEnds(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endDiscard(h)
}

// endDiscard ends a host's discard. The caller holds c.mu.
func (c *checker) endDiscard(h *host) {
	if !h.discard.runs() || h.crashed() {
		return
	}
	h.discard.ended = true
	close(h.discard.over)
	c.world.occurs(discards)
	if !h.discard.unmarked {
		c.violate(22, "%s: starts without the delete of the marker", h.id)
	}
	for token := range c.docs {
		if c.madeAt[token].Before(h.joined) {
			c.violate(22, "%s: starts without the discard of lease %s", h.id, token)
		}
	}
}

// discarded checks the discard of a lease. Its keys start over, unless another lease
// covers them. The caller holds c.mu.
func (c *checker) discarded(w *leaseWrite, l lease.Lease) {
	now := c.world.engine.now().Truncate(time.Second)
	if c.isLive(l, now) && !c.listedExpired(w.host, l) {
		c.violate(22, "%s: discards lease %s of %q at age %s", w.host.id, l.Token, l.Owner, now.Sub(l.Modified))
	}
	delete(c.docs, l.Token)
	c.changedAt, c.discardAt = time.Now(), time.Now()
	for _, r := range c.uncoveredIn(l.Range.OrFull()) {
		maps.DeleteFunc(c.history, func(token string, made []lease.Lease) bool {
			_, stored := c.docs[token]
			return !stored && r.Contains(made[len(made)-1].Range.OrFull())
		})
		c.world.journal.restart(r)
		if !c.marker {
			c.unmarked = append(c.unmarked, r)
		} else if n := len(c.floors); n > 0 {
			c.floors = append(c.floors, markFloor{[]feed.Range{r}, c.floors[n-1].counters})
		}
	}
}

// uncoveredIn returns the parts of r that no lease covers. The caller holds c.mu.
func (c *checker) uncoveredIn(r feed.Range) []feed.Range {
	var covered, gaps []feed.Range
	for _, l := range c.docs {
		covered = append(covered, l.Range.OrFull())
	}
	for {
		gap, ok := uncovered(r, covered)
		if !ok {
			return gaps
		}
		gaps, covered = append(gaps, gap), append(covered, gap)
	}
}

// createdLate records the time of a create. If it was sent before a discard, the keys of
// the lease resume from its position. The caller holds c.mu.
func (c *checker) createdLate(w *leaseWrite, l lease.Lease) {
	c.madeAt[l.Token] = time.Now()
	if w.start.Before(c.discardAt) {
		c.world.journal.resume(l.Range.OrFull(), c.lsn(l))
	}
}

// discardRefused reports whether err is the error of a host that was rightly refused the
// discard. The host then counts as stopped.
func (c *checker) discardRefused(h *host, err error) bool {
	c.mu.Lock()
	refused := h.discard.runs() && h.discard.refused
	c.mu.Unlock()
	config, ok := errors.AsType[*changefeed.ConfigError](err)
	if !refused || !ok || config.Field != "DiscardLeases" {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaving, h.leftAt = true, time.Now()
	return true
}

// restart records that the changes of range r are delivered again.
func (j *journal) restart(r feed.Range) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.restarts++
	for _, k := range j.in(r) {
		k.settled = 0
		for _, r := range k.records {
			r.before = delivery{r.acked || r.before.acked, r.handled || r.before.handled, r.vouched || r.before.vouched}
			r.acked, r.handled, r.vouched, r.restarted = false, false, false, j.restarts
		}
	}
}

// resume records that the changes of range r up to the LSN to are not delivered again.
func (j *journal) resume(r feed.Range, to int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.between(r, 0, to) {
		r.acked, r.handled, r.vouched = r.acked || r.before.acked, r.handled || r.before.handled, r.vouched || r.before.vouched
	}
}

// restartCount returns the number of restarts.
func (j *journal) restartCount() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.restarts
}

// note records the state of the worker's changes. It ignores those whose keys have started
// over since the worker began.
func (o *simObserver) note(changes []*record, handled, acked bool) {
	o.world.journal.note(o.current(changes), handled, acked)
}

// current returns the changes whose keys have not started over since the worker began.
func (o *simObserver) current(changes []*record) []*record {
	j := o.world.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(changes), func(r *record) bool { return r.restarted > o.restarts })
}
