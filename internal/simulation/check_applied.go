package simulation

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// applied checks a host's write at the moment at which the lease store applies it. answer
// is the document that the store holds after the write.
func (c *checker) applied(w *leaseWrite, answer lease.Lease) {
	now := c.world.engine.now().Truncate(time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	before, existed := c.docs[w.lease.Token]
	w.before = before
	wroteBefore := c.writtenAt[w.lease.Token]
	c.cost.wrote(w)
	if w.op != opCreate && w.lease.ETag != before.ETag {
		c.violate(6, "%s: an %s of lease %s was carried out though the document had changed", w.host.id, w.op, w.lease.Token)
	}
	switch w.op {
	case opCreate:
		if existed {
			c.violate(6, "%s: creates lease %s, which exists", w.host.id, w.lease.Token)
		}
		// The caller gave up long ago. If the partition was split and merged since, this
		// creates an EPK lease again. The hosts whose leases it shadows learn of it only
		// from a listing.
		if late := time.Since(w.start) > w.host.settings.times.timeout; late && isGone(c.world.engine.partitions(), answer.PartitionID, answer.Range.OrFull()) {
			c.exclusive = false
		}
		c.createdLate(w, answer)
		c.created(w.host, answer)
	case opUpdate:
		w.age = c.age(before, now)
		c.updated(w, before, answer)
		c.stole(w, before, answer, wroteBefore)
	case opDelete:
		if w.discards {
			c.discarded(w, before)
			return
		}
		c.deleted(w, before)
		return
	}
	c.docs[answer.Token] = answer
	c.writtenAt[answer.Token] = time.Now()
	c.positionStored(w.host, answer)
	if answer.Owner != "" && answer.Owner == w.host.text() {
		c.lastWrite[answer.Token] = time.Now()
	}
}

// age returns the time since the last write of a lease document. It uses the store's
// clock, as hosts do. If the store has no clock, it uses the hosts' clock.
func (c *checker) age(l lease.Lease, now time.Time) time.Duration {
	if c.world.clockless {
		return time.Since(c.writtenAt[l.Token])
	}
	return now.Sub(l.Modified)
}

// created checks that a host may create the lease document l.
func (c *checker) created(h *host, l lease.Lease) {
	if l.Owner != "" {
		c.putBack(h, l)
	}
	if l.Wanted() != "" {
		c.violate(6, "%s: creates lease %s with a hand-over request", h.id, l.Token)
	}
	if keys := c.world.keys.OrFull(); !keys.Contains(l.Range.OrFull()) {
		c.violate(11, "%s: creates lease %s, which is not within the feed range %s", h.id, l.Token, keys)
	}
	c.history[l.Token] = append(c.history[l.Token], l)
	c.bounded(h, l)
	if c.marker && !c.shadowed(l) {
		c.covered(h, l, c.promised)
	}
	c.changedAt = time.Now()
}

// bounded checks the bound of a lease whose start time the source refused. The position
// was read from the beginning. Without the bound, a later owner or a child would deliver
// the changes from before the start time.
func (c *checker) bounded(h *host, l lease.Lease) {
	if bound := l.Properties[lease.PropertyBound]; c.world.refuses && l.Continuation != "" && bound != c.world.start.String() {
		c.violate(19, "%s: writes lease %s at %q with the bound %q; the start is %s", h.id, l.Token, l.Continuation, bound, c.world.start)
	}
}

// putBack checks a lease that its owner recreates after a delete by hand. The owner must
// recreate it at its durable position.
func (c *checker) putBack(h *host, l lease.Lease) {
	c.learn(h, l.Owner)
	old := c.history[l.Token]
	if len(old) == 0 {
		c.violate(6, "%s: creates lease %s as its owner", h.id, l.Token)
		return
	}
	// The position may be before the applied one, because an answer may have been lost. A
	// lease that is put back without a position begins at its start, and skips nothing.
	// A foreign host may have moved the position back before the delete.
	t := c.tenures[tenureKey{h, l.Token}]
	overwritten := t != nil && t.overwritten
	if last := old[len(old)-1]; l.Continuation != "" && !overwritten && c.lsn(l) > c.lsn(last) {
		c.violate(8, "%s: puts lease %s back at %q; it was at %q", h.id, l.Token, l.Continuation, last.Continuation)
	}
	if bound := old[len(old)-1].Properties[lease.PropertyBound]; bound != "" && bound != l.Properties[lease.PropertyBound] {
		c.violate(8, "%s: puts lease %s back with the bound %q; it was %q", h.id, l.Token, l.Properties[lease.PropertyBound], bound)
	}
}

// lostVersions reports whether a lost lease may have started again from now: one that was
// deleted by hand, or one without which the marker was created late. That happens in all
// versions and deletes mode, unless the processor starts after a continuation. The caller
// holds c.mu.
func (c *checker) lostVersions() bool {
	return c.world.mode == feed.AllVersionsAndDeletes && c.world.start.Kind() == feed.StartNow && (!c.deletedAt.IsZero() || c.lateMark)
}

// covered checks that no change between from and the lease's position was skipped. If
// versions may be lost, covered checks nothing.
func (c *checker) covered(h *host, l lease.Lease, from floor) {
	if c.lostVersions() {
		return
	}
	if e, skipped := c.world.journal.skipped(l.Range.OrFull(), from, c.lsn(l)); skipped {
		c.violate(2, "%s: lease %s is at %q, but nobody acknowledged %s", h.id, l.Token, l.Continuation, e)
	}
}

// updated checks a write that replaces a document.
func (c *checker) updated(w *leaseWrite, before, after lease.Lease) {
	h := w.host
	expired := before.Owner != "" && (w.age >= c.world.times.takeover() || c.listedExpired(h, before))
	switch {
	case after.Owner == before.Owner && after.Owner != "" && after.Owner != h.text():
		c.asked(w, before, after)
		return
	case w.replaces && after.Owner == "" && before.Owner == "":
		if after.Continuation != before.Continuation || after.Wanted() != before.Wanted() {
			c.violate(6, "%s: writes the free lease %s, and changes it", h.id, after.Token)
		}
	case after.Owner == "" && (before.Owner == "" || before.Owner != h.text()):
		c.violate(6, "%s: frees lease %s of %q", h.id, after.Token, before.Owner)
	case after.Owner != "" && after.Owner != before.Owner:
		c.learn(h, after.Owner)
		c.acquired(w, before, after, expired)
	case expired && after.Owner == h.text() && before.Wanted() != "" && after.Wanted() == "":
		// The host acquires its own expired lease again.
	case after.Wanted() != before.Wanted():
		c.violate(6, "%s: changes the hand-over request of lease %s from %q to %q", h.id, after.Token, before.Wanted(), after.Wanted())
	}
	if was, is := otherProperties(before), otherProperties(after); !maps.Equal(was, is) && !c.bounds(was, is) {
		c.violate(6, "%s: changes the properties of lease %s from %v to %v", h.id, after.Token, before.Properties, after.Properties)
	}
	if after.Owner != before.Owner || after.Wanted() != before.Wanted() {
		c.changedAt = time.Now()
	}
	c.history[after.Token] = append(c.history[after.Token][:max(0, len(c.history[after.Token])-1)], after)
	if after.Continuation == before.Continuation {
		return
	}
	c.bounded(h, after)
	from, to := c.lsn(before), c.lsn(after)
	// Until a start time in the future is reached, its LSN grows with each new change. So
	// only a lease that had a continuation is checked.
	if to < from && before.Continuation != "" {
		c.violate(5, "%s: the position of lease %s falls from %q to %q", h.id, after.Token, before.Continuation, after.Continuation)
	}
	if !c.shadowed(after) {
		c.covered(h, after, at(from))
	}
	c.deliversLimited(h, after)
}

// bounds reports whether is equals was plus [lease.PropertyBound], and that property is
// the configured start time.
func (c *checker) bounds(was, is map[string]string) bool {
	if c.world.start.Kind() != feed.StartTime || was[lease.PropertyBound] != "" || is[lease.PropertyBound] != c.world.start.String() {
		return false
	}
	is = maps.Clone(is)
	delete(is, lease.PropertyBound)
	return maps.Equal(was, is)
}

// listedExpired reports whether a listing of the host shows the document as expired. The
// store's clock may have jumped back since then.
func (c *checker) listedExpired(h *host, l lease.Lease) bool {
	return h.hasListed(func(listing lease.Listing) bool { return listing.Now.Sub(l.Modified) >= c.world.times.takeover() })
}

// acquired checks a write by which a lease gets another owner.
func (c *checker) acquired(w *leaseWrite, before, after lease.Lease, expired bool) {
	h := w.host
	c.moves++
	c.overtaken(h, before)
	c.gotOtherOwner(after.Token)
	if before.Owner != "" && !expired && lease.Ours(before.Owner) {
		c.violate(6, "%s: takes lease %s from %q at age %s", h.id, after.Token, before.Owner, w.age)
	}
	if after.Wanted() != "" {
		c.violate(6, "%s: acquires lease %s and keeps the hand-over request %q", h.id, after.Token, after.Wanted())
	}
	if after.Continuation != before.Continuation {
		c.violate(5, "%s: acquires lease %s and moves it from %q to %q", h.id, after.Token, before.Continuation, after.Continuation)
	}
	without := func(listing lease.Listing) bool {
		return slices.ContainsFunc(listing.Leases, func(l lease.Lease) bool { return l.Token == before.Token && l.ETag == before.ETag }) &&
			!slices.ContainsFunc(listing.Leases, func(a lease.Lease) bool { return ancestor(a, after) })
	}
	if !h.hasListed(without) {
		c.violate(9, "%s: acquires lease %s, though its listings show an ancestor", h.id, after.Token)
	}
	if expired && c.world.clean {
		c.takenInTime(h, after)
	}
}

// takenInTime checks the time between the last write of a lease's owner and its acquire
// by another host. It applies to runs in which hosts crash but nothing else fails.
func (c *checker) takenInTime(h *host, l lease.Lease) {
	last, ok := c.lastWrite[l.Token]
	if !ok || !c.world.servedSince(last) {
		return
	}
	t := c.world.times
	limit := 2*t.expiration + 2*t.acquire + t.acquire/5 + t.timeout
	if silent := time.Since(last); silent > limit {
		c.violate(15, "%s: acquires lease %s %s after its owner's last write", h.id, l.Token, silent)
	}
}

// asked checks a host's write to a lease that another host owns. The write may only set a
// hand-over request. If the lease has expired since the host listed it, the request only
// costs time.
func (c *checker) asked(w *leaseWrite, before, after lease.Lease) {
	h := w.host
	wanted := after.Wanted()
	if wanted == "" || before.Wanted() != "" || !lease.Ours(before.Owner) ||
		before.Continuation != after.Continuation || !maps.Equal(otherProperties(before), otherProperties(after)) {
		c.violate(6, "%s: writes lease %s of %q: request %q to %q, position %q to %q", h.id, after.Token,
			before.Owner, before.Wanted(), wanted, before.Continuation, after.Continuation)
		return
	}
	c.learn(h, wanted)
	if wanted != h.text() {
		c.violate(6, "%s: asks for lease %s in the name of %q", h.id, after.Token, wanted)
	}
	c.changedAt = time.Now()
	c.cost.asks++
}

// deleted checks that a host deletes only gone leases, and only after their child leases
// have been created.
func (c *checker) deleted(w *leaseWrite, l lease.Lease) {
	h := w.host
	delete(c.docs, l.Token)
	c.changedAt = time.Now()
	if w.replaces {
		c.leftoverDeleted(w, l)
		return
	}
	if l.Owner != "" && l.Owner != h.text() {
		c.violate(6, "%s: deletes lease %s of %q", h.id, l.Token, l.Owner)
	}
	parts := c.world.engine.partitions()
	if l.PartitionID != "" && !isGone(parts, l.PartitionID, l.Range) {
		c.violate(8, "%s: deletes lease %s, whose partition is not gone", h.id, l.Token)
	}
	var pieces []feed.Range
	for _, made := range c.history {
		if piece := made[len(made)-1]; ancestor(l, piece) {
			pieces = append(pieces, piece.Range)
		}
	}
	if gap, ok := uncovered(l.Range.OrFull(), pieces); ok {
		c.violate(8, "%s: deletes lease %s, but no lease covers %s", h.id, l.Token, gap)
	}
	c.unshadow(h, l)
}

// unshadow checks the positions of the leases that gone was the last to shadow.
func (c *checker) unshadow(h *host, gone lease.Lease) {
	if !c.marker {
		return
	}
	for _, l := range c.docs {
		if ancestor(gone, l) && !c.shadowed(l) {
			c.covered(h, l, c.promised)
		}
	}
}

// operatorDeletes records that somebody deleted a document by hand. Three cases can break
// exclusive use: a delete during the first start, a delete during a create, and a second
// delete before the first one is mended. A host may still be in its first start when the
// marker exists; see [checker.sent].
func (c *checker) operatorDeletes(l lease.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mending := 2*c.world.times.expiration + 4*c.world.times.acquire
	if !c.marker || c.creates > 0 || !c.deletedAt.IsZero() && time.Since(c.deletedAt) < mending {
		c.exclusive = false
	}
	c.deletedAt = time.Now()
	c.changedAt = c.deletedAt
	delete(c.docs, l.Token)
}

// operatorWrites records that an operator edited the properties of a lease document.
func (c *checker) operatorWrites(l lease.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.docs[l.Token] = l
	c.writtenAt[l.Token] = time.Now()
}

// uncovered returns a part of r that no range in ranges covers. It returns false if they
// cover all of r.
func uncovered(r feed.Range, ranges []feed.Range) (feed.Range, bool) {
	at := r.Min
	for at < r.Max {
		next := at
		for _, piece := range ranges {
			if piece.Min <= at && piece.Max > next {
				next = piece.Max
			}
		}
		if next == at {
			end := r.Max
			for _, piece := range ranges {
				if piece.Min > at && piece.Min < end {
					end = piece.Min
				}
			}
			return feed.Range{Min: at, Max: end}, true
		}
		at = next
	}
	return feed.Range{}, false
}

func conflictWith(err error) (lease.Lease, bool) {
	if conflict, ok := errors.AsType[*lease.ConflictError](err); ok {
		return conflict.Current, true
	}
	return lease.Lease{}, false
}
