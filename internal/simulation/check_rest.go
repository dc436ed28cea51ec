package simulation

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// This file checks the invariants that hold at rest, when no faults happen: coverage,
// stability and cost.

// costs counts the requests to the lease store since the last reset. checker.mu guards
// it.
type costs struct {
	since   time.Time
	lists   map[*host]int
	updates map[string]int // updates of lease documents, by token
	others  int            // number of creates and deletes
	batches map[string]int
	asks    int
}

func newCosts() costs {
	return costs{
		since: time.Now(), lists: map[*host]int{}, updates: map[string]int{}, batches: map[string]int{},
	}
}

func (c *costs) wrote(w *leaseWrite) {
	if w.op == opUpdate {
		c.updates[w.lease.Token]++
		return
	}
	c.others++
}

// unshadowed returns the leases that no other lease shadows, which hosts may use. The
// caller holds c.mu.
func (c *checker) unshadowed() []lease.Lease {
	var leases []lease.Lease
	for _, l := range c.docs {
		if !c.shadowed(l) {
			leases = append(leases, l)
		}
	}
	return leases
}

// covers checks the coverage of the keys. The leases must cover all keys without overlap,
// no lease may be gone, and a live host must own each lease.
func (c *checker) covers() {
	parts := c.world.engine.partitions()
	owners := map[string]*host{}
	for _, h := range c.world.living() {
		owners[h.text()] = h
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.marker {
		c.violate(11, "the marker is missing")
	}
	leases := c.unshadowed()
	ranges := make([]feed.Range, len(leases))
	for i, l := range leases {
		ranges[i] = l.Range.OrFull()
		for _, other := range leases[:i] {
			if other.Range.OrFull().Overlaps(ranges[i]) && !c.overlapped {
				c.violate(11, "leases %s and %s overlap", other.Token, l.Token)
			}
		}
		if isGone(parts, l.PartitionID, l.Range) {
			c.violate(11, "lease %s is gone but still exists", l.Token)
		}
		if l.Owner == "" || owners[l.Owner] == nil {
			c.violate(11, "lease %s is owned by %q, which is not a live host", l.Token, l.Owner)
		}
	}
	if gap, ok := uncovered(c.world.keys.OrFull(), ranges); ok {
		c.violate(11, "no lease covers %s", gap)
	}
	for _, u := range c.uses {
		l, ok := c.docs[u.token]
		if ok && u.ctx.Err() == nil && c.shadowed(l) {
			c.violate(11, "%s: a %s of the shadowed lease %s", u.host.id, u.what, u.token)
		}
	}
}

// wasRead checks that a host has read the change feed of every lease since t.
func (c *checker) wasRead(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.unshadowed() {
		if c.lastRead[l.Token].Before(t) {
			c.violate(11, "lease %s has not been read for %s", l.Token, time.Since(c.lastRead[l.Token]))
		}
	}
}

// balanced checks that every live host owns its share of the leases: their number divided
// by the number of hosts, rounded down or up. If some hosts have bounds, see
// check_limits.go.
func (c *checker) balanced() {
	hosts := c.world.living()
	c.mu.Lock()
	defer c.mu.Unlock()
	have := map[string]int{}
	leases := c.unshadowed()
	for _, l := range leases {
		have[l.Owner]++
		if l.Wanted() != "" {
			c.violate(12, "lease %s still has a hand-over request from %q", l.Token, l.Wanted())
		}
	}
	if len(hosts) == 0 {
		return
	}
	if areBounded(hosts) {
		c.shares(hosts, leases, have)
		return
	}
	low, high := len(leases)/len(hosts), (len(leases)+len(hosts)-1)/len(hosts)
	for _, h := range hosts {
		if n := have[h.text()]; n < low || n > high {
			c.violate(12, "%s owns %d of %d leases on %d hosts", h.id, n, len(leases), len(hosts))
		}
	}
}

// stable checks that no lease has changed its owner or its hand-over request since t.
func (c *checker) stable(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changedAt.After(t) {
		c.violate(12, "an owner, a hand-over request, a document or a worker changed %s after rest began", c.changedAt.Sub(t))
	}
}

// resetCosts sets the counts of requests to zero.
func (c *checker) resetCosts() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cost = newCosts()
}

// requestsAtRest checks the number of requests to the lease store since resetCosts. Each
// host may list the leases once per interval. Each lease may have one write per
// checkpoint and one per renewal. No other request is allowed.
func (c *checker) requestsAtRest() {
	hosts, owners := c.world.living(), map[string]times{}
	for _, h := range hosts {
		owners[h.text()] = h.settings.times
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	span := time.Since(c.cost.since)
	for _, h := range hosts {
		t := h.settings.times
		least, most := int(span/(t.acquire+t.acquire/10+t.timeout))-1, int(span/(t.acquire-t.acquire/10))+1
		if n := c.cost.lists[h]; n < least || n > most {
			c.violate(13, "%s: %d listings in %s, where %d to %d are due", h.id, n, span, least, most)
		}
	}
	for _, l := range c.unshadowed() {
		t, ok := owners[l.Owner]
		if !ok {
			continue // covers reports it
		}
		// A renewal may come early by up to a tenth of the interval.
		most := int(span/(t.renew-t.renew/10)) + 1 + c.cost.batches[l.Token]
		least := int(span/(t.renew+t.timeout)) - 1
		if n := c.cost.updates[l.Token]; n > most || n < least {
			c.violate(13, "lease %s: %d writes in %s with %d batches, where %d to %d are due",
				l.Token, n, span, c.cost.batches[l.Token], least, most)
		}
	}
	if c.cost.others > 0 || c.cost.asks > 0 {
		c.violate(13, "%d creates and deletes and %d hand-over requests at rest", c.cost.others, c.cost.asks)
	}
}

// allHandled checks that every change after the marker was handled.
func (c *checker) allHandled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lostVersions() {
		return
	}
	for i, e := range c.world.journal.unhandled(c.world.keys.OrFull(), c.promised) {
		if i == 3 {
			break
		}
		c.violate(3, "nobody handled %s, which was written after the marker", e)
	}
}

// allFree checks that no lease has an owner after all hosts have left.
func (c *checker) allFree() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.unshadowed() {
		if l.Owner != "" {
			c.violate(11, "lease %s is still owned by %q after all hosts left", l.Token, l.Owner)
		}
	}
}

// returned checks the error that Run returned on host h. Run must return nil if the host
// was stopped and its handlers returned.
func (c *checker) returned(h *host, err error) {
	if h.crashed() {
		return
	}
	h.mu.Lock()
	leaving := h.leaving
	ignores := c.world.ignoresContext || h.waiting > 0 || h.waited
	h.mu.Unlock()
	switch {
	case c.discardRefused(h, err):
	case !leaving:
		c.fail(11, "%s: Run returned before it was stopped: %v", h.id, err)
	case err != nil && !ignores:
		c.fail(11, "%s: Run returned %v", h.id, err)
	}
}

// summary contains the statistics of the run of one seed.
type summary struct {
	seed                        uint64
	hosts, partitions, topology int
	crashes, faults, moves      int
	writes                      writes
	visits                      visits
	features                    map[string]int // how often each feature of the seed occurred, by name
	simulated                   time.Duration
	hash                        uint64
	violations                  []violation
	trace                       string
}
