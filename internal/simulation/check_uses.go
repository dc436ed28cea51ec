package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// use is a worker's use of a lease: a read in progress, a batch in a handler, or the open
// of an observer. It ends when ctx ends.
type use struct {
	host *host
	// foreign reports whether the host is one of another implementation.
	foreign bool
	token   string
	r       feed.Range
	what    string
	// naps is the number of suspensions of the host before the use began.
	naps int
	ctx  context.Context //nolint:containedctx // only its end is checked
}

// tenure is a host's right to a lease. It contains only what the host can conclude from
// the answers that it received.
type tenure struct {
	// id and r identify the lease's partition or range.
	id   string
	r    feed.Range
	host *host
	// attempt is when the host sent its last successful write of the lease. ahead is by
	// how much its wall clock was ahead then.
	attempt time.Time
	ahead   time.Duration
	// unproven reports whether the host concluded from a conflict that its acquire was
	// applied. The host's next successful write then begins the tenure, however late it
	// is.
	unproven bool
	// givenUp reports whether the host has sent a release or a delete of the lease. The
	// checker does not check later tries of it.
	givenUp bool
	// lapsed reports whether the trust has ended by the host's wall clock, which was set
	// back later. The host may have noticed it, or not.
	lapsed bool
	// askedAt is when the host first saw a hand-over request in the lease. It is zero if
	// the host saw none.
	askedAt time.Time
	// previousWrite is when the previous owner, a live foreign host, last wrote the lease
	// that this host stole. It is zero if the lease was not stolen.
	previousWrite time.Time
	// overwritten reports whether a foreign host has written the lease after the owner's
	// last write. The owner has not noticed that yet. Another of our hosts may acquire
	// the lease meanwhile.
	overwritten bool
	// overtaken reports whether another host has acquired the lease after a forward jump
	// of the store's clock; see [checker.overtaken].
	overtaken bool
}

type tenureKey struct {
	host  *host
	token string
}

// trusted reports whether the host still trusts its lease, because its last successful
// write is recent enough: by the time that has passed, and by the host's wall clock.
func (c *checker) trusted(t *tenure) bool {
	if t == nil {
		return false
	}
	passed := time.Since(t.attempt)
	return max(passed, passed+t.host.clock.ahead()-t.ahead) < c.world.times.trust()
}

// holds reports whether the host trusts its lease and has sent neither a release nor a
// delete.
func (c *checker) holds(t *tenure) bool { return c.trusted(t) && !t.givenUp }

// readBegins records that a worker sends a read, and checks that it may. It returns nil
// for a gone lease, because such a read returns only GoneError.
func (c *checker) readBegins(ctx context.Context, h *host, token string, r feed.Request) *use {
	parts := c.world.engine.partitions()
	if h.crashed() || isGone(parts, r.Partition.ID, r.Range) {
		return nil
	}
	keys := c.world.keysOf(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastRead[token] = time.Now()
	c.checkDueRead(h, token, r.From)
	return c.begin(&use{host: h, token: token, r: keys, what: "read", ctx: ctx})
}

// keysOf returns the keys that a request reads.
func (w *world) keysOf(r feed.Request) feed.Range {
	keys := r.Range.OrFull()
	for _, p := range w.engine.partitions() {
		if p.ID == r.Partition.ID {
			keys = keys.Intersect(p.Range)
		}
	}
	return keys
}

// handOver is the moment at which the processor called the user's code, and whether the host
// trusted the lease then.
type handOver struct {
	at      time.Time
	trusted bool
}

// handsOver returns the present moment as the one at which the processor calls the user's
// code for a lease.
func (c *checker) handsOver(h *host, token string) handOver {
	c.mu.Lock()
	defer c.mu.Unlock()
	return handOver{at: time.Now(), trusted: c.trusted(c.tenures[tenureKey{h, token}])}
}

// overslept reports whether the host was suspended after it had called the user's code, and
// its trust has ended meanwhile. The host notices that within a moment, and ends the context
// of the call. A call for a lease that the host did not trust is not excused. The caller
// holds c.mu.
func (c *checker) overslept(o *simObserver, called handOver) bool {
	t := c.tenures[tenureKey{o.host, o.lease.Token}]
	return called.trusted && t != nil && !c.trusted(t) && o.host.clock.fellBehind(time.Since(called.at))
}

// openBegins records that a worker opens its observer, and checks that it may. It returns
// nil for a gone lease, because no change will be delivered, and for a host that was
// suspended after it had called Open.
func (c *checker) openBegins(ctx context.Context, o *simObserver, called handOver) *use {
	if o.host.crashed() || isGone(c.world.engine.partitions(), o.lease.PartitionID, o.lease.Range) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.overslept(o, called) {
		return nil
	}
	return c.begin(&use{host: o.host, token: o.lease.Token, r: o.lease.Range.OrFull(), what: "open", ctx: ctx})
}

// begin records that a worker begins to use a lease, and checks that it may. The caller
// holds c.mu.
func (c *checker) begin(u *use) *use {
	u.naps = u.host.clock.suspensions()
	t := c.tenures[tenureKey{u.host, u.token}]
	switch {
	case u.foreign:
	case t == nil:
		c.violate(7, "%s: a %s of lease %s, which it does not hold", u.host.id, u.what, u.token)
	case t.givenUp:
		c.violate(7, "%s: a %s of lease %s after its release or delete was sent", u.host.id, u.what, u.token)
	case !c.trusted(t):
		c.violate(7, "%s: a %s of lease %s after trust ended", u.host.id, u.what, u.token)
	case !c.confirmed(t):
		c.violate(7, "%s: a %s of lease %s, which it stole %s after the previous owner's last write and has not confirmed",
			u.host.id, u.what, u.token, t.attempt.Sub(t.previousWrite))
	}
	for _, other := range c.uses {
		if other.host == u.host && other.token == u.token && other.what != u.what {
			continue // the worker reads the next page while its handler handles a batch
		}
		if other.ctx.Err() == nil && other.r.Overlaps(u.r) && c.exclusive && c.comparable(u, other) {
			c.violate(1, "%s: a %s of lease %s (%s) during a %s of lease %s (%s) by %s",
				u.host.id, u.what, u.token, u.r, other.what, other.token, other.r, other.host.id)
		}
	}
	c.uses = append(c.uses, u)
	c.trustedByOthers(u)
	return u
}

// trustedByOthers checks that no other host trusts a lease of the same keys, because that
// host could begin to use it at any moment. It ignores gone leases, which no host uses.
func (c *checker) trustedByOthers(u *use) {
	if mine := c.tenures[tenureKey{u.host, u.token}]; !c.exclusive || u.foreign || mine != nil && mine.overwritten || mine.isOvertaken() {
		return
	}
	for key, t := range c.tenures {
		if key.host == u.host || !t.r.Overlaps(u.r) || !c.holds(t) || t.overwritten || t.isOvertaken() || !c.confirmed(t) || isGone(c.world.engine.partitions(), t.id, t.r) {
			continue
		}
		c.violate(1, "%s: a %s of lease %s (%s) while %s trusts lease %s (%s)",
			u.host.id, u.what, u.token, u.r, key.host.id, key.token, t.r)
	}
}

// contextEnds checks the context of a handler, after the handler has waited for its end or
// for the end of its work.
func (c *checker) contextEnds(ctx context.Context, o *simObserver) {
	h := o.host
	h.mu.Lock()
	left, dead := h.leftAt, h.isDead
	h.mu.Unlock()
	stays := time.Since(left) - h.settings.times.drain // since the end of the drain timeout
	drained := !left.IsZero() && stays >= 0
	switch ended := ctx.Err() != nil; {
	case dead:
	case !ended && drained && stays > 0 && h.clock.fellBehind(time.Since(left)):
		// The host counts the drain timeout by a clock that has lost time since.
	case !ended && drained && stays > 0:
		c.fail(17, "%s: a handler of lease %s still has a context %s after the drain timeout", h.id, o.lease.Token, stays)
	case ended && !drained && !errors.Is(context.Cause(ctx), lease.ErrLost):
		c.fail(17, "%s: the context of a handler of lease %s ended: %v", h.id, o.lease.Token, context.Cause(ctx))
	case ended && drained && h.settings.times.drain == 0:
		c.world.occurs(drainOff)
	}
}

// ends records that a use has ended. It ignores nil.
func (c *checker) ends(u *use) {
	if u == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses = slices.DeleteFunc(c.uses, func(other *use) bool { return other == u })
}

// forgetHost removes all uses and tenures of a crashed host.
func (c *checker) forgetHost(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses = slices.DeleteFunc(c.uses, func(u *use) bool { return u.host == h })
	maps.DeleteFunc(c.tenures, func(key tenureKey, _ *tenure) bool { return key.host == h })
}

// dueRead is a read that a worker must send at once. after is its position, and since is
// the time from which it is due.
type dueRead struct {
	tenure *tenure
	// end is the end of the feed that the reads must reach without a delay. It is the end
	// that the first of several empty pages showed.
	end   int64
	after feed.Continuation
	since time.Time
}

// readAnswered records the answer to a worker's read. If more changes may follow the
// page, the next read is due at once.
func (c *checker) readAnswered(h *host, token string, from feed.Start, page feed.Page, err error) {
	// With a smaller read-ahead, the next read waits for the handler.
	if err != nil || h.settings.readAhead != 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := tenureKey{h, token}
	next := dueRead{tenure: c.tenures[key], after: page.Continuation, since: time.Now()}
	if len(page.Changes) == 0 {
		next.end = page.End
		if last := c.reads[key]; last.tenure == next.tenure && last.after == from.Continuation() && last.end > 0 {
			next.end = last.end
		}
	}
	if mayContinue(page, from, next.end) {
		c.due[key] = next
	} else {
		next.end = 0
	}
	c.reads[key] = next
}

// mayContinue reports whether more changes may follow a page at once. That is so for a
// page with changes, unless it is known to be the last one. It is also so for an empty
// page that has advanced and is known to be before end.
func mayContinue(page feed.Page, from feed.Start, end int64) bool {
	if len(page.Changes) > 0 {
		return page.End < 0 || page.LSN < page.End
	}
	return page.Continuation != from.Continuation() && page.LSN >= 0 && page.LSN < min(page.End, end)
}

// checkDueRead checks that a read which was due at once is not sent later. The caller
// holds c.mu.
func (c *checker) checkDueRead(h *host, token string, from feed.Start) {
	key := tenureKey{h, token}
	due, ok := c.due[key]
	delete(c.due, key)
	if !ok || due.tenure != c.tenures[key] || due.after != from.Continuation() {
		return
	}
	if late := time.Since(due.since); late > 0 {
		c.violate(16, "%s: lease %s: the read after %s is %s late, though more changes may follow", h.id, token, due.after, late)
	}
}
