package simulation

import (
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// childSent checks the create of a child lease. The host must own the parent, and must
// still trust it.
func (c *checker) childSent(h *host, l lease.Lease) {
	if !c.marker || l.Owner != "" || h.text() == "" {
		return
	}
	parts := c.world.engine.partitions()
	var wrong *violation
	for _, a := range c.docs {
		// The host that replaces a gone lease may also own the lease of a partition with
		// the same range, which came from a split and a merge. That lease is not the
		// parent.
		if !ancestor(a, l) || a.Owner != h.text() || !isGone(parts, a.PartitionID, a.Range.OrFull()) {
			continue
		}
		v := c.childOf(h, a, l)
		if v == nil {
			return // the other ancestors are not its parents
		}
		wrong = v
	}
	if wrong != nil {
		c.violate(wrong.invariant, "%s", wrong.text)
	}
}

// childOf returns how a child that host h creates violates an invariant, if lease a is the
// parent. The caller holds c.mu.
func (c *checker) childOf(h *host, a, l lease.Lease) *violation {
	if at := a.Start(feed.Now()); a.Continuation == "" && at.Kind() == feed.StartNow {
		a = a.StartingAt(c.defaultStart()) // foreign hosts drop the start; our children have it again
	}
	bound := a.Properties[lease.PropertyBound]
	t := c.tenures[tenureKey{h, a.Token}]
	switch {
	case t != nil && t.overwritten:
		return nil // the document in the store is not the one that the host knows
	case t != nil && !c.trusted(t):
		return &violation{invariant: 7, text: fmt.Sprintf("%s: creates child %s of lease %s after trust ended", h.id, l.Token, a.Token)}
	case l.Continuation != a.Continuation || l.Properties[lease.PropertyStart] != a.Properties[lease.PropertyStart]:
		return &violation{invariant: 8, text: fmt.Sprintf("%s: creates child %s at %q, lease %s is at %q", h.id, l.Token, l.Continuation, a.Token, a.Continuation)}
	case bound != "" && bound != l.Properties[lease.PropertyBound]:
		return &violation{invariant: 8, text: fmt.Sprintf("%s: creates child %s with the bound %q, that of lease %s is %q",
			h.id, l.Token, l.Properties[lease.PropertyBound], a.Token, bound)}
	}
	return nil
}

// replaces reports whether the host sends the write while it replaces a gone lease, and not
// as the owner of the lease that it writes. The caller holds c.mu.
func (c *checker) replaces(w *leaseWrite) bool {
	h, l := w.host, w.lease
	switch {
	case h.text() == "" || h.discard.runs() || l.Owner == h.text() && !c.deletesLostLease(w):
		return false
	case w.op == opUpdate:
		// The host writes the child at once after the create that met it. Its trust in the
		// gone lease may end in between.
		return l.Owner == "" && l.ETag == c.freeChildren[tenureKey{h, l.Token}]
	}
	parts := c.world.engine.partitions()
	for key, t := range c.tenures {
		if key.host != h || !c.holds(t) {
			continue
		}
		a := lease.Lease{Token: key.token, PartitionID: t.id, Range: t.r}
		if ancestor(a, l) && isGone(parts, t.id, t.r) || c.hasChild(a) && ancestor(a, l) {
			return true
		}
	}
	return false
}

// deletesLostLease reports whether the host deletes a lease that names it as the owner, but
// which it has lost: its trust has ended by itself, and a listing of the host shows the
// document as expired. Then the host's own text protects the lease no more than that of any
// other host. The caller holds c.mu.
func (c *checker) deletesLostLease(w *leaseWrite) bool {
	t := c.tenures[tenureKey{w.host, w.lease.Token}]
	lost := t == nil || !t.givenUp && !c.trusted(t)
	return w.op == opDelete && lost && !c.world.clockless && c.seenFree(w.host, w.lease)
}

// leftoverDeleted checks the delete of a leftover: a lease within the one that the host
// replaces. It must have no live owner, and other leases must cover its keys. The caller
// holds c.mu.
func (c *checker) leftoverDeleted(w *leaseWrite, l lease.Lease) {
	if l.Owner != "" && w.age < c.world.times.takeover() && !c.listedExpired(w.host, l) {
		c.violate(6, "%s: deletes lease %s of %q", w.host.id, l.Token, l.Owner)
	}
	for _, gap := range c.uncoveredIn(l.Range.OrFull()) {
		c.violate(8, "%s: deletes lease %s, and no other lease covers %s", w.host.id, l.Token, gap)
	}
	c.unshadow(w.host, l)
}

// hasChild reports whether a lease within the range of l exists. A worker that has begun to
// create the children of its lease continues, even if the partitions have merged again
// since. The caller holds c.mu.
func (c *checker) hasChild(l lease.Lease) bool {
	for _, d := range c.docs {
		if l.AncestorOf(d) {
			return true
		}
	}
	return false
}
