package store

import "time"

// clock is the store's one clock. It stamps _ts and decides what is expired. It
// starts at the wall clock's time, or at the last _ts that was written if the
// wall clock was set back since, and runs on monotonic time: it never goes back.
type clock struct {
	base  time.Time // the time at start
	start time.Time // carries the monotonic reading
}

// newClock starts a clock; last is the last _ts written.
func newClock(last int64) clock {
	now := time.Now()
	base := now.Round(0)
	if t := time.Unix(last, 0); base.Before(t) {
		base = t
	}
	return clock{base: base.UTC(), start: now}
}

func (c clock) now() time.Time { return c.base.Add(time.Since(c.start)) }

// seconds is the clock in the form of _ts.
func (c clock) seconds() int64 { return c.now().Unix() }
