package simulation

import (
	"sync"
	"time"
)

// storeClock is the clock of a simulated service. It gives the _ts of documents and the
// time of listings. It differs from the hosts' clock by an offset, and runs faster or
// slower by rate. The lease protocol only compares intervals of a host's clock with
// intervals of the store's clock. So one drifting store clock covers both slow and fast
// hosts.
type storeClock struct {
	origin time.Time
	// rate is the number of seconds by which the clock gains in each second. If negative,
	// the clock loses time.
	rate float64

	mu     sync.Mutex // guards the field below
	offset time.Duration
}

func newStoreClock(offset time.Duration, rate float64) *storeClock {
	return &storeClock{origin: time.Now(), offset: offset, rate: rate}
}

// now returns the time in UTC, without a monotonic part.
func (c *storeClock) now() time.Time {
	elapsed := time.Since(c.origin)
	elapsed += time.Duration(float64(elapsed) * c.rate)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.origin.Add(c.offset + elapsed).Round(0).UTC()
}

// jump sets the clock forward by d, or back if d is negative.
func (c *storeClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}
