package balance

import "time"

// Pace schedules the cycles of one host: a regular one every acquire interval, and quick
// ones in between while leases move. The zero Pace belongs to a new host. It is a value.
type Pace struct {
	step int
}

// Cycle is the result of one cycle, which lists the leases and writes the moves of
// Decide.
type Cycle struct {
	// Regular reports whether the cycle was a regular one.
	Regular bool
	// Conflicts, Acquired and Wanted count the answers to the writes of the cycle.
	Conflicts, Acquired, Wanted int
	// WantsOut is Plan.WantsOut at the end of the cycle.
	WantsOut bool
}

// MaxConflicts is the number of conflicts after which a host ends a cycle, because its
// listing is too old.
const MaxConflicts = 16

// After reports whether a quick cycle should follow c. It returns the delay before it, to
// which the caller adds 10 % of jitter: 1, 2, 4, then 8 s. The delay is reset to 1 s by a
// regular cycle, and by a cycle that had conflicts and acquired a lease. A regular cycle
// that is due earlier replaces the quick one.
func (p Pace) After(c Cycle) (next Pace, pause time.Duration, quick bool) {
	if c.Regular || c.Conflicts > 0 && c.Acquired > 0 {
		p.step = 0
	}
	if c.Conflicts == 0 && c.Wanted == 0 && !c.WantsOut {
		return Pace{}, 0, false
	}
	pause = time.Second << p.step
	p.step = min(p.step+1, 3)
	return p, pause, true
}
