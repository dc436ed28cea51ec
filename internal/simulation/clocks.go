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

// hostClock contains the clocks of a host. The wall clock may jump. While the host is
// suspended, its monotonic clock loses most of the time, as on a machine that sleeps. It
// does not stop: a timer that is due by the wall clock would then fire again and again.
type hostClock struct {
	origin time.Time

	mu        sync.Mutex    // guards the fields below
	stepped   time.Duration // by how much the wall clock is ahead
	lost      time.Duration // the time that the monotonic clock lost in earlier suspensions
	suspended time.Time     // the start of the suspension; zero if the host is not suspended
	nap       *suspend      // the fact of the suspension
	behindAt  time.Time     // the last time at which one of the clocks was behind
}

// suspendedPace is the pace of a suspended host's monotonic clock: it counts one second in
// suspendedPace seconds.
const suspendedPace = 10

func newHostClock() *hostClock { return &hostClock{origin: time.Now()} }

// now returns the readings of the clocks.
func (c *hostClock) now() (mono time.Duration, wall time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return now.Sub(c.origin) - c.lost - c.losing(now), now.Add(c.stepped).Round(0)
}

// losing returns the time that the monotonic clock has lost in the present suspension.
func (c *hostClock) losing(now time.Time) time.Duration {
	if c.suspended.IsZero() {
		return 0
	}
	return now.Sub(c.suspended) / suspendedPace * (suspendedPace - 1)
}

// wake ends the suspension, if there is one.
func (c *hostClock) wake(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.lost += c.losing(now)
	if !c.suspended.IsZero() {
		c.behindAt = now
		h.world.ledger.end(c.nap, nil)
	}
	c.suspended = time.Time{}
}
