package engine

import (
	"sync/atomic"
	"time"
)

// clock is the store's one clock. It sets _ts and decides which items have expired. It
// starts at the wall clock's time, or at the last written _ts if the wall clock was set
// back since. It runs on monotonic time.
//
// Monotonic time stops while the machine is suspended. Without a correction, the clock
// would stay late, and a server would refuse the dates of all requests. So it advances to
// a wall clock that is ahead of it. It never goes back.
type clock struct {
	read func() reading
	// base is the clock's time when it was started. start is the elapsed time of the
	// system at that moment, as a time after the zero time.
	base  time.Time
	start time.Duration
	// skipped is the total of all advances in nanoseconds. It only grows.
	skipped atomic.Int64
}

// reading is the time of the system's two clocks at one moment.
type reading struct {
	wall time.Time
	// elapsed is monotonic time since an arbitrary origin.
	elapsed time.Duration
}

// maxLag is the largest difference by which the wall clock may be ahead of the store's
// clock. The system also corrects monotonic time slowly, so the difference stays smaller
// unless the machine is suspended.
const maxLag = time.Second

// systemClock returns a function that reads the system's clocks.
func systemClock() func() reading {
	origin := time.Now()
	return func() reading {
		now := time.Now()
		return reading{wall: now.Round(0), elapsed: now.Sub(origin)}
	}
}

// newClock starts a clock over the system's clocks. last is the last written _ts.
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

// seconds returns the time in seconds, as _ts has it.
func (c *clock) seconds() int64 { return c.now().Unix() }
