package lease

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// MoveKind tells what a [Move] is.
type MoveKind int

// The kinds of Move.
const (
	// MoveNone: there is nothing to do.
	MoveNone MoveKind = iota
	// MoveAcquire: Update with [Lease.Acquired].
	MoveAcquire
	// MoveAsk: Update with [Lease.Asked].
	MoveAsk
)

// Move is the next write that a host should make to come nearer to balance.
type Move struct {
	Kind MoveKind
	// Lease is as the listing shows it; its ETag is the write's condition.
	Lease Lease
}

// Host is what [NewPlan] needs to know of the host that plans. All but Owner is
// the same on all hosts of a processor.
type Host struct {
	// Owner is the host's owner text, made by [NewOwner].
	Owner string
	// Min and Max bound how many leases the host wants; 0: no bound.
	Min, Max int
	// Terms are the times.
	Terms Terms
	// Range is the part of the container that the processor covers; zero:
	// everything.
	Range feed.Range
	// Start and Mode go into the leases that Missing makes.
	Start feed.Start
	Mode  feed.Mode
}

// Memory is what a host remembers from one listing to the next: since when each
// lease has shown its ETag (for stores without a clock), which leases the last
// regular cycle showed free, and which gaps were seen. The zero Memory
// remembers nothing. It is a value, never changed once made.
type Memory struct {
	// fields are unexported
}

// Plan judges one listing. It is made per listing by [NewPlan], and kept up to
// date by Amend and Remove while the host carries out what Decide returns. Not safe for
// concurrent use.
type Plan struct {
	// fields are unexported
}

// NewPlan judges l, received at mono (the host's monotonic clock), by what the
// host remembers. running reports whether the host has a worker for the lease of that ID
// (such a lease is never acquired). regular tells a cycle of the acquire interval from a quick one between.
func NewPlan(h Host, l Listing, m Memory, mono time.Duration, regular bool, running func(id string) bool) *Plan {
	panic("to do")
}

// Decide returns the next write, or a Move of MoveNone. It returns the same Move
// again until the lease was amended or removed.
func (p *Plan) Decide() Move { panic("to do") }

// Amend puts l, the answer to a write or the Current of a conflict, in the
// listing's place of it. A lease that the listing doesn't show is left to the next listing.
func (p *Plan) Amend(l Lease) { panic("to do") }

// Remove takes a lease that was found to be absent out of the listing. What it
// shadowed stays shadowed until the next listing.
func (p *Plan) Remove(id string) { panic("to do") }

// MarksOut reports whether a mark of this host is outstanding: on a lease that
// another host still owns.
func (p *Plan) MarksOut() bool { panic("to do") }

// Shadowed reports whether the listing shows an ancestor of the lease: such a lease is
// neither acquired nor run.
func (p *Plan) Shadowed(id string) bool { panic("to do") }

// Due reports whether there is a gap to be closed now, so that Missing, and the
// partitions it needs, are worth asking for: at bootstrap (the listing has no marker) any gap,
// afterwards one that was seen for long enough (healing).
func (p *Plan) Due() bool { panic("to do") }

// Complete reports whether the marker should be made: the listing has none, and no gap.
func (p *Plan) Complete() bool { panic("to do") }

// Missing returns the leases to create for the gaps that are due, cut at the borders of the
// partitions. Each carries its start (continuation or [PropertyStart]), except one whose start
// is now: Lease.Start(feed.Now()) of it is now, and the caller stores a continuation in it, that of
// a read made before the marker was found absent, or, when it heals (all versions and deletes), of
// a new one, and tells the user that versions were lost.
func (p *Plan) Missing(partitions []feed.Partition) []Lease { panic("to do") }

// Memory returns what to remember for the next listing.
func (p *Plan) Memory() Memory { panic("to do") }
