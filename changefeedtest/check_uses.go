package changefeedtest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// use is one worker's hold on a range: a read under way, or a batch in a handler.
// It is over when the context that came with it ends.
type use struct {
	host *host
	// foreign: the host is one of another implementation.
	foreign bool
	token   string
	r       feed.Range
	what    string
	ctx     context.Context //nolint:containedctx // judged, not passed on
}

// tenure is what the simulation knows of a host's right to a lease: the same
// that the host may conclude from the answers it got, and nothing else.
type tenure struct {
	// id and r tell what the lease is of: a partition, or a range.
	id string
	r  feed.Range
	// attempt is when the last write that was answered with success was started.
	attempt time.Time
	// unproven: it rests on a conflict that showed an acquire as arrived. The next
	// write that is answered with success begins the tenure, whenever it comes.
	unproven bool
	// givenUp: a release or a delete was sent. repeats of it are no news.
	givenUp bool
	// askedAt is when an answer first showed a mark; zero: none did.
	askedAt time.Time
	// victimWrote is when the live foreign owner that the lease was stolen from had
	// written it last; zero: it wasn't stolen.
	victimWrote time.Time
	// robbed: a foreign host has written the lease since. Its owner doesn't know it
	// yet, and whoever of ours comes after the foreign host may begin meanwhile.
	robbed bool
}

type tenureKey struct {
	host  *host
	token string
}

// trusted reports whether the host may still use its lease.
func (c *checker) trusted(t *tenure) bool {
	return t != nil && time.Since(t.attempt) < c.world.times.trust()
}

// holds reports whether the host may go on to use its lease.
func (c *checker) holds(t *tenure) bool { return c.trusted(t) && !t.givenUp }

// readBegins is told of a read that a worker sends. A gone lease isn't used:
// reading it only says so.
func (c *checker) readBegins(ctx context.Context, h *host, token string, r feed.Request) *use {
	parts := c.world.engine.partitions()
	if h.crashed() || isGone(parts, r.Partition.ID, r.Range) {
		return nil
	}
	keys := r.Range.OrFull()
	for _, p := range parts {
		if p.ID == r.Partition.ID {
			keys = keys.Intersect(p.Range)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastRead[token] = time.Now()
	return c.begin(&use{host: h, token: token, r: keys, what: "read", ctx: ctx})
}

// begin registers a use and judges it. The caller holds c.mu.
func (c *checker) begin(u *use) *use {
	t := c.tenures[tenureKey{u.host, u.token}]
	switch {
	case u.foreign:
	case t == nil:
		c.violate(7, "%s: a %s of lease %s, which it doesn't hold", u.host.id, u.what, u.token)
	case t.givenUp:
		c.violate(7, "%s: a %s of lease %s after its release or delete was sent", u.host.id, u.what, u.token)
	case !c.trusted(t):
		c.violate(7, "%s: a %s of lease %s after trust ended", u.host.id, u.what, u.token)
	case !c.confirmed(t):
		c.violate(7, "%s: a %s of lease %s, which it stole %s after its victim's last write and hasn't confirmed since",
			u.host.id, u.what, u.token, t.attempt.Sub(t.victimWrote))
	}
	for _, other := range c.uses {
		if other.host == u.host && other.token == u.token && other.what != u.what {
			continue // the same worker reads ahead of its handler
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

// trustedByOthers judges a use by who else may begin one at any moment: no other
// host trusts a lease of the same keys. A gone lease is not used, so trust in it
// harms nobody.
func (c *checker) trustedByOthers(u *use) {
	if mine := c.tenures[tenureKey{u.host, u.token}]; !c.exclusive || u.foreign || mine != nil && mine.robbed {
		return
	}
	for key, t := range c.tenures {
		if key.host == u.host || !t.r.Overlaps(u.r) || !c.holds(t) || t.robbed || !c.confirmed(t) || isGone(c.world.engine.partitions(), t.id, t.r) {
			continue
		}
		c.violate(1, "%s: a %s of lease %s (%s) while %s trusts lease %s (%s)",
			u.host.id, u.what, u.token, u.r, key.host.id, key.token, t.r)
	}
}

// ends is told that a use is over.
func (c *checker) ends(u *use) {
	if u == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses = slices.DeleteFunc(c.uses, func(other *use) bool { return other == u })
}

// buried forgets what a crashed host was doing.
func (c *checker) buried(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses = slices.DeleteFunc(c.uses, func(u *use) bool { return u.host == h })
	maps.DeleteFunc(c.tenures, func(key tenureKey, _ *tenure) bool { return key.host == h })
}
