package simulation

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// foreignBegins records that a foreign host begins to handle a page of a range's changes.
func (c *checker) foreignBegins(ctx context.Context, h *host, token string, r feed.Range) *use {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastRead[token] = time.Now()
	return c.begin(&use{host: h, foreign: true, token: token, r: r, what: "page", ctx: ctx})
}

// foreignSends adds by to the number of creates by foreign hosts that are in progress. It
// ignores other operations.
func (c *checker) foreignSends(op string, by int) {
	if op != opCreate {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creates += by
}

// foreignWrote checks a foreign host's write at the moment at which the lease store
// applies it. answer is the document that the store holds after the write.
func (c *checker) foreignWrote(h *host, op, token string, answer lease.Lease, sent time.Time) {
	parts := c.world.engine.partitions()
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.docs[token]
	if op != opCreate {
		c.overwritten[before.ETag] = true
		for key, t := range c.tenures {
			t.overwritten = t.overwritten || key.token == token
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
		c.visits.overwritten++
	}
	if len(answer.Properties) < len(before.Properties) {
		c.visits.dropped++
	}
	switch from, to := c.lsn(before), c.lsn(answer); {
	case to < from: // to an earlier durable position
		c.visits.fell++
	case to > from && !c.shadowed(answer):
		c.covered(h, answer, at(from))
	}
}

// foreignCreated checks the create of a child lease. A foreign host may create the child
// long after the split. By then other leases of its keys may be in use.
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
		c.covered(h, l, c.promised)
	}
}

// foreignDeleted checks that a foreign host deletes a gone lease. A late delete may hit a
// lease that is not gone. It then counts as a delete by hand.
func (c *checker) foreignDeleted(h *host, l lease.Lease, parts []feed.Partition) {
	delete(c.docs, l.Token)
	c.changedAt = time.Now()
	if !isGone(parts, l.PartitionID, l.Range.OrFull()) {
		c.exclusive = false
		c.deletedAt = time.Now()
	}
	c.unshadow(h, l)
}

// position returns the position of a lease as an LSN.
func (c *checker) position(l lease.Lease) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lsn(l)
}

// writtenLast returns the time at which anybody last wrote a lease.
func (c *checker) writtenLast(token string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writtenAt[token]
}

func (v *visits) add(o visits) {
	v.hosts += o.hosts
	v.stolen += o.stolen
	v.overwritten += o.overwritten
	v.fell += o.fell
	v.dropped += o.dropped
}
