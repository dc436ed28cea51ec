package changefeedtest

import (
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

func (c *checker) visited() visits {
	strangers := len(c.world.everyStranger())
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.visits
	v.hosts = strangers
	return v
}
