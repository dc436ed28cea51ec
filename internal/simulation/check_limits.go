package simulation

import (
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// This file checks the number of leases that a host has if Config.MinLeases or
// Config.MaxLeases bound it. These are the rules:
//
//   - A host that holds MaxLeases leases acquires no other lease. It also holds a lease
//     that was deleted by hand, because it puts that lease back.
//   - A lease stays without an owner only if every host has MaxLeases leases.
//   - A host's share is the number of leases divided by the number of hosts, rounded down
//     or up, within the bounds of the host. At rest no host lacks a lease that it could
//     ask for: one of a host that has more than the asking host's share.

// within returns n within the host's bounds.
func (s settings) within(n int) int {
	n = max(n, s.minLeases)
	if s.maxLeases > 0 {
		n = min(n, s.maxLeases)
	}
	return n
}

// isFull reports whether a host with n leases may acquire no more.
func (s settings) isFull(n int) bool { return s.maxLeases > 0 && n >= s.maxLeases }

// acquiresOne checks that a host which sends the acquire of a lease holds fewer leases
// than it may. The caller holds c.mu.
func (c *checker) acquiresOne(h *host, token string) {
	n := 0
	for key, t := range c.tenures {
		if key.host != h || key.token == token || !c.holds(t) || t.overwritten {
			continue
		}
		// A host does not put back a lease that it has stolen and not used yet.
		_, stored := c.docs[key.token]
		if stays := stored || t.previousWrite.IsZero(); stays && !c.shadowed(lease.Lease{Token: key.token, PartitionID: t.id, Range: t.r}) {
			n++
		}
	}
	if h.settings.isFull(n) {
		c.violate(12, "%s: acquires lease %s and holds %d; at most %d are allowed", h.id, token, n, h.settings.maxLeases)
	}
}

// isShort reports whether the live hosts may not own all leases. If a lease is free or has
// expired, each host must have as many leases as it may.
func (c *checker) isShort() bool {
	hosts, now := c.world.living(), c.world.engine.now().Truncate(time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	have, leases := map[string]int{}, c.unshadowed()
	for _, l := range leases {
		if c.age(l, now) < c.world.times.takeover() {
			have[l.Owner]++
		}
	}
	free := len(leases)
	for _, h := range hosts {
		free -= have[h.text()]
	}
	for _, h := range hosts {
		if n := have[h.text()]; free > 0 && !h.settings.isFull(n) {
			c.violate(12, "%s owns %d leases, at most %d are allowed, but %d leases have no owner", h.id, n, h.settings.maxLeases, free)
		}
	}
	return free > 0
}

// shares checks the shares of hosts of which some have bounds. The caller holds c.mu.
func (c *checker) shares(hosts []*host, leases []lease.Lease, have map[string]int) {
	for _, h := range hosts {
		owners := 1
		for owner := range have {
			if owner != h.text() {
				owners++
			}
		}
		mine := have[h.text()]
		low, high := h.settings.within(len(leases)/owners), h.settings.within((len(leases)+owners-1)/owners)
		for _, v := range hosts {
			n := have[v.text()]
			if mine < high && n > high || mine < low && n > low {
				c.violate(12, "%s owns %d of %d leases and may have %d to %d, but %s owns %d", h.id, mine, len(leases), low, high, v.id, n)
			}
		}
		if h.settings.maxLeases > 0 && mine > h.settings.maxLeases {
			c.violate(12, "%s owns %d leases; at most %d are allowed", h.id, mine, h.settings.maxLeases)
		}
	}
}

// areBounded reports whether some of the hosts have bounds.
func areBounded(hosts []*host) bool {
	return slices.ContainsFunc(hosts, func(h *host) bool { return h.settings.minLeases > 0 || h.settings.maxLeases > 0 })
}
