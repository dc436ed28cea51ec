package engine

import (
	"sync/atomic"
	"time"
)

// clock is the store's one clock. It stamps _ts and decides what is expired. It
// starts at the wall clock's time, or at the last _ts that was written if the
// wall clock was set back since, and runs on monotonic time.
//
// Monotonic time stands still while the machine is suspended. Without a remedy the
// clock would be behind for good, and a server would refuse the dates of all requests.
// So it catches up with a wall clock that is ahead of it. It never goes back.
type clock struct {
	read func() reading
	// base is the time at the start, and start the elapsed time of that reading.
	base  time.Time
	start time.Duration
	// skipped is the time, in nanoseconds, by which the clock has caught up. It only grows.
	skipped atomic.Int64
}

// reading is one look at the system's clocks.
type reading struct {
	wall time.Time
	// elapsed is monotonic, from any origin.
	elapsed time.Duration
}

// maxLag is how far the clock may be behind the wall clock. Monotonic time is steered
// towards the right time too, so that they part by less than that.
const maxLag = time.Second

// systemClock returns the readings of the system's clocks.
func systemClock() func() reading {
	origin := time.Now()
	return func() reading {
		now := time.Now()
		return reading{wall: now.Round(0), elapsed: now.Sub(origin)}
	}
}

// newClock starts a clock over the system's; last is the last _ts written.
func newClock(last int64) *clock { return newClockOf(systemClock(), last) }

func newClockOf(read func() reading, last int64) *clock {
	r := read()
	base := r.wall
	if t := time.Unix(last, 0); base.Before(t) {
		base = t
	}
	return &clock{read: read, base: base.UTC(), start: r.elapsed}
}

// now returns the time. It is safe for concurrent use.
func (c *clock) now() time.Time {
	r := c.read()
	for {
		skipped := c.skipped.Load()
		now := c.base.Add(r.elapsed - c.start + time.Duration(skipped))
		lag := r.wall.Sub(now)
		if lag <= maxLag {
			return now
		}
		c.skipped.CompareAndSwap(skipped, skipped+int64(lag))
	}
}

// seconds is the clock in the form of _ts.
func (c *clock) seconds() int64 { return c.now().Unix() }
