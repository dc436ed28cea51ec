package balance

import "time"

// Pace spaces the cycles of one host: a regular one every acquire interval, and
// quick ones between while leases move. The zero Pace is that of a host that
// begins. It is a value.
type Pace struct {
	step int
}

// Cycle is what came of one cycle: list, then write what Decide returns until it
// returns nothing.
type Cycle struct {
	// Regular tells a cycle of the acquire interval from a quick one.
	Regular bool
	// Conflicts, Acquired and Asked count the answers to its writes.
	Conflicts, Acquired, Asked int
	// MarksOut is Plan.MarksOut at its end.
	MarksOut bool
}

// MaxConflicts is how many conflicts end a cycle: the listing is too old.
const MaxConflicts = 16

// After tells whether a quick cycle should follow c, and after which pause (the
// caller adds 10 % of jitter): 1, 2, 4, then 8 s. It begins at 1 s again after a
// regular cycle, and after one that had conflicts and still acquired something.
// A regular cycle that is due sooner takes its place.
func (p Pace) After(c Cycle) (next Pace, pause time.Duration, quick bool) {
	if c.Regular || c.Conflicts > 0 && c.Acquired > 0 {
		p.step = 0
	}
	if c.Conflicts == 0 && c.Asked == 0 && !c.MarksOut {
		return Pace{}, 0, false
	}
	pause = time.Second << p.step
	p.step = min(p.step+1, 3)
	return p, pause, true
}
