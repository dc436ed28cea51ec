package changefeedtest

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// What is judged where foreign hosts are. The guarantees that need no clock hold
// with them as without: no change is skipped, no position is ahead of delivery, every
// range finds an owner. So does every rule of what our hosts do. Exclusive use holds
// between two of ours, with one exception, which is the foreign host's doing: it takes
// a lease from one of ours and frees it; another of ours acquires it, as it may; and
// the first one learns of it at its next write. From the moment in which a foreign host
// writes a lease, its owner of then counts as robbed: also one whom the answer to its
// acquire has yet to reach.
//
// Between ours and a foreign host it isn't judged, except in scenes whose foreign
// hosts keep to an order in which the wait after a steal is enough.

// comparable reports whether two uses of one range are a violation. The caller holds c.mu.
func (c *checker) comparable(a, b *use) bool {
	if a.foreign || b.foreign {
		return c.orderly && a.foreign != b.foreign
	}
	for _, u := range []*use{a, b} {
		if t := c.tenures[tenureKey{u.host, u.token}]; t != nil && t.robbed {
			return false
		}
	}
	return true
}

// confirmed reports whether a lease may be used as far as it was stolen: the last write
// that was answered with success was begun when its victim, had it been one of ours,
// would have stopped. The store's clock and the host's differ by less than the margin.
func (c *checker) confirmed(t *tenure) bool {
	return t.victimWrote.IsZero() || t.attempt.Sub(t.victimWrote) >= c.world.times.trust()
}

// stole notes whether an update took a lease from a live foreign owner, and when that
// had written it last. The caller holds c.mu.
func (c *checker) stole(w *leaseWrite, before, after lease.Lease, wrote time.Time) {
	if after.Owner == "" || after.Owner == before.Owner || after.Owner != w.host.text() {
		return
	}
	key := tenureKey{w.host, after.Token}
	delete(c.steals, key)
	if before.Owner != "" && !lease.Ours(before.Owner) && w.age < c.world.times.takeover() {
		c.steals[key] = wrote
		c.visits.stolen++
	}
}

// foreignBegins registers that a foreign host has a page in its handler.
func (c *checker) foreignBegins(ctx context.Context, h *host, token string, r feed.Range) *use {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastRead[token] = time.Now()
	return c.begin(&use{host: h, foreign: true, token: token, r: r, what: "page", ctx: ctx})
}

// foreignSends counts the creates of foreign hosts that are under way.
func (c *checker) foreignSends(op string, by int) {
	if op != opCreate {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creates += by
}

// foreignWrote is told of a foreign host's write in the moment in which the lease
// store carried it out; answer is what the store holds now.
func (c *checker) foreignWrote(h *host, op, token string, answer lease.Lease, sent time.Time) {
	parts := c.world.engine.partitions()
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.docs[token]
	if op != opCreate {
		c.overwritten[before.ETag] = true
		for key, t := range c.tenures {
			t.robbed = t.robbed || key.token == token
		}
	}
	if op == opDelete {
		c.foreignDeleted(h, before, parts)
		return
	}
	if answer.Owner != before.Owner || answer.Wanted() != before.Wanted() {
		c.changedAt = time.Now()
	}
	if answer.Owner != "" && answer.Owner != before.Owner {
		c.moves++
	}
	c.docs[token] = answer
	c.writtenAt[token] = time.Now()
	if answer.Owner != "" {
		c.lastWrite[token] = time.Now()
	}
	if op == opCreate {
		c.foreignCreated(h, answer, parts, sent)
		return
	}
	c.history[token] = append(c.history[token][:max(0, len(c.history[token])-1)], answer)
	if lease.Ours(before.Owner) && answer.Owner != before.Owner {
		c.visits.robbed++
	}
	if len(answer.Properties) < len(before.Properties) {
		c.visits.dropped++
	}
	switch from, to := c.lsn(before), c.lsn(answer); {
	case to < from: // to a position that was durable before
		c.visits.fell++
	case to > from && !c.shadowed(answer):
		c.covered(h, answer, from)
	}
}

// foreignCreated judges a child. A foreign host makes it whenever it gets to it: the
// split may be over long since, and leases of its keys be at work.
func (c *checker) foreignCreated(h *host, l lease.Lease, parts []feed.Partition, sent time.Time) {
	late := isGone(parts, l.PartitionID, l.Range.OrFull()) || time.Since(sent) > c.world.times.timeout
	for _, d := range c.docs {
		late = late || ancestor(l, d)
	}
	if late {
		c.exclusive = false
	}
	c.changedAt = time.Now()
	c.history[l.Token] = append(c.history[l.Token], l)
	if c.marker && !c.shadowed(l) {
		c.covered(h, l, c.promised())
	}
}

// foreignDeleted judges the end of a gone lease. Deleted late, a lease may have come
// back to life; that is a deletion by hand.
func (c *checker) foreignDeleted(h *host, l lease.Lease, parts []feed.Partition) {
	delete(c.docs, l.Token)
	c.changedAt = time.Now()
	if !isGone(parts, l.PartitionID, l.Range.OrFull()) {
		c.exclusive = false
		c.deletedAt = time.Now()
	}
	c.unshadow(h, l)
}

// position is where a lease stands.
func (c *checker) position(l lease.Lease) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lsn(l)
}

// writtenLast is when a lease was last written.
func (c *checker) writtenLast(token string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writtenAt[token]
}

// defaultStart is the start of a lease that tells none. Ours always tell it; a foreign
// host drops it, or has made the lease, and is configured as ours.
func (c *checker) defaultStart() feed.Start {
	if len(c.world.everyStranger()) > 0 {
		return c.world.start
	}
	return feed.Now()
}

// visits counts what foreign hosts brought about.
type visits struct {
	hosts   int // that came
	stolen  int // leases that ours took from them, alive
	robbed  int // leases that they took from ours, or freed
	fell    int // positions that they wrote back
	dropped int // writes that dropped properties
}

func (v *visits) add(o visits) {
	v.hosts += o.hosts
	v.stolen += o.stolen
	v.robbed += o.robbed
	v.fell += o.fell
	v.dropped += o.dropped
}

func (c *checker) visited() visits {
	strangers := len(c.world.everyStranger())
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.visits
	v.hosts = strangers
	return v
}
