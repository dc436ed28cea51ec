package engine

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// clock is the store's one clock. It sets _ts and decides which items have expired. It
// starts at the wall clock's time, or at the last written _ts if the wall clock was set
// back since. It runs on monotonic time.
//
// Monotonic time stops while the machine is suspended. Without a correction, the clock
// would stay late, and a server would refuse the dates of all requests. So it advances to
// a wall clock that is ahead of it. It never goes back, so a wall clock that is far ahead
// for a moment leaves its time in every later _ts. Such a jump may also be a suspend, and
// only the user can tell, so the clock logs it.
type clock struct {
	logger *slog.Logger
	read   func() reading
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

// What the clock logs, because the wall clock was or is probably wrong.
const (
	// reportedJump is the least advance to a wall clock that is logged when it happens.
	reportedJump = time.Hour
	// reportedLead is the least time that is logged at a start by which the last _ts is
	// ahead of the wall clock.
	reportedLead = time.Minute
	// reportedRest is the least time between the last _ts and a start that is logged then.
	reportedRest = 30 * 24 * time.Hour
)

// systemClock returns a function that reads the system's clocks.
func systemClock() func() reading {
	origin := time.Now()
	return func() reading {
		now := time.Now()
		return reading{wall: now.Round(0), elapsed: now.Sub(origin)}
	}
}

// newClock starts a clock over the system's clocks. last is the last written _ts, and 0 if
// nothing was written.
func newClock(last int64, logger *slog.Logger) *clock {
	return newClockOf(systemClock(), last, logger)
}

func newClockOf(read func() reading, last int64, logger *slog.Logger) *clock {
	r := read()
	base, t := r.wall.UTC(), unixTime(last)
	log := logger.With(slog.Time("last write", t), slog.Time("wall clock", base))
	switch lead := t.Sub(base); {
	case lead >= reportedLead:
		log.Warn("store's clock is ahead of the wall clock, as the last write was; every _ts goes on from there",
			slog.Duration("ahead", lead.Round(time.Second)))
	case last > 0 && -lead >= reportedRest:
		log.Warn("last write was long before the wall clock; if the wall clock is wrong, stop the store: _ts never goes back, and expired items are deleted")
	}
	if base.Before(t) {
		base = t
	}
	return &clock{logger: logger, read: read, base: base, start: r.elapsed}
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
		if c.skipped.CompareAndSwap(skipped, skipped+int64(lag)) && lag >= reportedJump {
			c.logger.Warn("store's clock advanced to the wall clock, as after a suspend; if the wall clock is wrong, stop the store: _ts never goes back, and expired items are deleted",
				slog.Time("from", now), slog.Time("to", r.wall.UTC()), slog.Duration("by", lag.Round(time.Second)))
		}
	}
}

// seconds returns the time in seconds, as _ts has it.
func (c *clock) seconds() int64 { return c.now().Unix() }
