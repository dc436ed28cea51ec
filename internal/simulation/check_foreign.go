package simulation

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Foreign hosts weaken one check. Guarantees that need no clock hold with foreign hosts
// as without them: no change is skipped, no position is ahead of delivery, and every
// range finds an owner. The rules for our own hosts hold, too.
//
// Exclusive use holds between two of our hosts, with one exception. A foreign host takes
// a lease from one of our hosts and frees it. Another of our hosts acquires it. The first
// one learns of this only at its next write. So a tenure counts as overwritten from the
// foreign host's write on, even if the answer to its acquire has not arrived yet.
//
// Exclusive use between our hosts and a foreign one is not checked. Exceptions are the
// tests whose foreign hosts act in an order for which the wait after a steal suffices.

// comparable reports whether two overlapping uses of a range violate exclusive use. See
// also [checker.overtaken]. The caller holds c.mu.
func (c *checker) comparable(a, b *use) bool {
	if a.foreign || b.foreign {
		return c.orderly && a.foreign != b.foreign
	}
	for _, u := range []*use{a, b} {
		if u.what == "read" && u.host.clock.slept(u.naps) {
			return false // the host ignores the answer, because its trust has ended
		}
		if t := c.tenures[tenureKey{u.host, u.token}]; t != nil && t.overwritten || t.isOvertaken() {
			return false
		}
	}
	return true
}

// confirmed reports whether a host may use its lease. A lease that was not stolen needs
// no confirmation. A stolen lease needs a successful write that was sent late enough. By
// then the previous owner, if it followed our protocol, would have stopped. The clocks of
// the store and of the host differ by less than the margin.
func (c *checker) confirmed(t *tenure) bool {
	return t.previousWrite.IsZero() || t.attempt.Sub(t.previousWrite) >= c.world.times.trust()
}

// stole records whether an update took a lease from a live foreign owner, and when that
// owner last wrote it. The caller holds c.mu.
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

// defaultStart returns the start of a lease whose document records none. Our hosts always
// record a start, but foreign hosts drop it or create leases without one. Foreign hosts
// have the same configuration as ours.
func (c *checker) defaultStart() feed.Start {
	if len(c.world.everyForeignHost()) > 0 {
		return c.world.start
	}
	return feed.Now()
}

// visits counts the actions of foreign hosts in one run.
type visits struct {
	hosts       int // foreign hosts that joined
	stolen      int // leases that our hosts stole from live foreign owners
	overwritten int // leases that foreign hosts took from our hosts, or freed
	fell        int // positions that foreign hosts moved back
	dropped     int // foreign writes that dropped properties
}

// documents returns the lease documents in the store, sorted by token.
func (c *checker) documents() []lease.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.docs), func(a, b lease.Lease) int { return strings.Compare(a.Token, b.Token) })
}

func (c *checker) visited() visits {
	foreignHosts := len(c.world.everyForeignHost())
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.visits
	v.hosts = foreignHosts
	return v
}

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
// long after the split. By then other leases of its keys may be in use. It also works on
// leases whose ancestors exist, and splits a lease beside leftovers. So its child may
// overlap another lease in part, until an operator repairs the leases.
func (c *checker) foreignCreated(h *host, l lease.Lease, parts []feed.Partition, sent time.Time) {
	shared := isGone(parts, l.PartitionID, l.Range.OrFull()) || time.Since(sent) > c.world.times.timeout
	for _, d := range c.docs {
		inPart := d.Range.OrFull().Overlaps(l.Range.OrFull()) && !ancestor(d, l) && !ancestor(l, d) && d.Token != l.Token
		c.overlapped = c.overlapped || inPart
		shared = shared || ancestor(l, d) || inPart
	}
	if shared {
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
