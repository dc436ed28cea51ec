package simulation

import (
	"sync"
	"time"
)

// hostClock contains the clocks of a host. The wall clock may jump. While the host is
// suspended, its monotonic clock loses most of the time, as on a machine that sleeps. It
// does not stop: a timer that is due by the wall clock would then fire again and again.
type hostClock struct {
	origin time.Time

	mu        sync.Mutex    // guards the fields below
	stepped   time.Duration // by how much the wall clock is ahead
	lost      time.Duration // the time that the monotonic clock lost in earlier suspensions
	suspended time.Time     // the start of the suspension; zero if the host is not suspended
	naps      int           // number of suspensions so far
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

// suspend begins a suspension.
func (c *hostClock) suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.suspended.IsZero() {
		c.suspended = time.Now()
		c.naps++
	}
}

// wake ends the suspension, if there is one.
func (c *hostClock) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.lost += c.losing(now)
	c.suspended = time.Time{}
}

// step sets the wall clock forward by d, or back if d is negative.
func (c *hostClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stepped += d
}

// ahead returns by how much the wall clock is ahead.
func (c *hostClock) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stepped
}

// slept reports whether the host has been suspended since it had had a number of
// suspensions, or is suspended now.
func (c *hostClock) slept(naps int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.naps > naps || !c.suspended.IsZero()
}

// suspensions returns the number of suspensions so far.
func (c *hostClock) suspensions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.naps
}
