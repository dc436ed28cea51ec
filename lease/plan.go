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

// Host is what [NewPlan] needs to know of the host that plans.
type Host struct {
	// Owner is the host's owner text.
	Owner string
	// Min and Max bound how many leases the host wants; 0: no bound.
	Min, Max int
	Terms    Terms
}

// Memory is what a host remembers from one listing to the next: since when each
// lease has shown its ETag (for stores without a clock), which leases the last
// regular cycle showed free, and which gaps were seen. The zero Memory
// remembers nothing. It is a value: methods return the next one.
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

// Decide returns the next write, or a Move of MoveNone.
func (p *Plan) Decide() Move { panic("to do") }

// Amend puts l, the answer to a write or the Current of a conflict, in the
// listing's place of it.
func (p *Plan) Amend(l Lease) { panic("to do") }

// Remove takes a lease that was found to be absent out of the listing.
func (p *Plan) Remove(id string) { panic("to do") }

// Shadowed reports whether the listing shows an ancestor of the lease: such a lease is
// neither acquired nor run.
func (p *Plan) Shadowed(id string) bool { panic("to do") }

// Missing returns the leases to create so that the listing covers covered
// (full range unless the processor has a feed range): at bootstrap (the listing has no marker) every
// gap at once, afterwards only what was a gap for long enough (healing). Initialised
// tells whether a marker should be made: no marker, and no gap.
func (p *Plan) Missing(partitions []feed.Partition, covered feed.Range) (gaps []Lease, complete bool) {
	panic("to do")
}

// Memory returns what to remember for the next listing.
func (p *Plan) Memory() Memory { panic("to do") }
