// Package balance decides which host should own which lease, which leases are missing, and
// which leases replace the lease of a partition that was split or merged. It does no I/O.
//
// Every acquire interval, and after each [Pace] between, a host lists the leases and makes a
// [Plan] of the listing with its [Memory] of earlier ones. It creates what is missing, stops
// the workers of leases that are shadowed, and then writes what Decide returns, amending the
// plan with each answer, until Decide returns nothing:
//
//	plan := balance.NewPlan(host, listing, memory, mono, regular, running)
//	memory = plan.Memory()
//	for move := plan.Decide(); move.Kind != balance.MoveNone; move = plan.Decide() {
//		// write move.Lease.Acquired(me), or .Asked(me) to ask, and then
//		plan.Amend(answer) // or the conflict's Current
//	}
package balance

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Host is what [NewPlan] needs to know of the host that plans. All but Owner is
// the same on all hosts of a processor.
type Host struct {
	// Owner is the host's owner text, made by [NewOwner].
	Owner string
	// Min and Max bound how many leases the host wants; 0: no bound. A host takes
	// up to Min of what is free or what hosts with more than Min have, so a host
	// that comes when all others have Min or less stands by. It never takes more
	// than Max.
	Min, Max int
	// Terms are the times.
	Terms lease.Terms
	// Range is the part of the container that the processor covers; zero:
	// everything.
	Range feed.Range
	// Start and Mode go into the leases that Missing makes, whose form is Dialect's.
	Start   feed.Start
	Mode    feed.Mode
	Dialect lease.Dialect
}

// Plan judges one listing: who should own what ([Plan.Decide]), what is missing
// ([Plan.Missing]), and what must not be run ([Plan.Shadowed]). It is made per
// listing by [NewPlan], and kept up to date by Amend, Skip and Remove while the host
// carries out what Decide returns. Not safe for concurrent use.
//
// Making it is O(n) for a listing whose ranges are those of the one before, else
// O(n log n). Decide costs O(hosts), Amend O(log n).
type Plan struct {
	host    Host
	listing lease.Listing
	mono    time.Duration
	now     time.Time // Listing.Now, or mono as a time where the store has no clock
	regular bool
	running func(id string) bool
	before  Memory
	seen    map[string]sighting // stores without a clock only; by ID; shared with Memory
	fresh   map[string]bool     // of these, amended: written after the listing, nobody knows when

	coverage *coverage
	gaps     []gap
	index    map[string]int32  // ID to place in the listing; made when first needed
	freeNow  map[string]string // as Memory.free, of this listing
	amended  map[int32]lease.Lease
	skipped  map[int32]bool // removed, or left out of what Decide proposes
	removed  map[int32]bool

	usable     int
	marks      int // marks of mine on leases that others still own
	stolen     int // leases that this host has stolen since the listing
	me         int32
	names      []string // hosts seen, me first; the slices below go with it
	number     map[string]int32
	have       []int   // usable leases counted as this host's
	reasons    []int   // why it counts as a host: leases it owns live, marks of it that count
	free       []queue // free leases by whom they are reserved for; 0 (me) holds those for me
	unreserved queue   // free leases that nobody asked for
	left       queue   // free leases that nobody took for an interval
	victims    map[int32]*candidates
}

// NewPlan judges l, received at mono (the host's monotonic clock), by what the
// host remembers. running reports whether the host has a worker for the lease of
// that ID (such a lease is neither acquired nor asked for). regular tells a cycle
// of the acquire interval from a quick one between.
func NewPlan(h Host, l lease.Listing, m Memory, mono time.Duration, regular bool, running func(id string) bool) *Plan {
	p := &Plan{
		host: h, listing: l, mono: mono, now: l.Now, regular: regular, running: running, before: m,
		number: map[string]int32{},
	}
	if l.Now.IsZero() {
		p.now = time.Unix(0, 0).Add(mono)
		p.seen = m.sightings(l.Leases, mono)
	}
	p.coverage = m.coverage.of(placed(l), h.Range.OrFull())
	p.gaps = m.gapsNow(p)
	for i := range l.Leases {
		if !p.shadowed(l.Leases[i].ID) {
			p.usable++
		}
	}
	p.me = p.hostNumber(h.Owner)
	p.reasons[p.me]++
	for i := range l.Leases {
		lease := &l.Leases[i]
		s := p.state(lease)
		p.count(lease, s, 1)
		if s.live {
			continue
		}
		p.enqueue(int32(i), lease, s)
		if regular {
			p.freeNow = remember(p.freeNow, lease)
		}
	}
	return p
}

// Amend puts l, the answer to a write or the Current of a conflict, in the
// listing's place of it. A lease that the listing doesn't show is left to the
// next listing.
func (p *Plan) Amend(l lease.Lease) {
	i, ok := p.find(l.ID)
	if !ok || p.removed[i] {
		return
	}
	old := p.lease(i)
	was := p.state(old)
	p.count(old, was, -1)
	if was.live && !lease.Ours(old.Owner) && l.Owner == p.host.Owner {
		p.stolen++
	}
	if p.amended == nil {
		p.amended = map[int32]lease.Lease{}
	}
	if p.seen != nil {
		if p.fresh == nil {
			p.fresh = map[string]bool{}
		}
		p.fresh[l.ID] = true
	}
	p.amended[i] = l
	s := p.state(&l)
	p.count(&l, s, 1)
	p.enqueue(i, &l, s)
	p.addCandidate(i, &l)
}

// Skip leaves the lease out of what Decide proposes until the next listing: a
// write of it failed, or its outcome is unknown.
func (p *Plan) Skip(id string) {
	if i, ok := p.find(id); ok {
		if p.skipped == nil {
			p.skipped = map[int32]bool{}
		}
		p.skipped[i] = true
	}
}

// Remove takes a lease that was found to be absent out of the listing. What it
// shadowed stays shadowed until the next listing.
func (p *Plan) Remove(id string) {
	i, ok := p.find(id)
	if !ok || p.removed[i] {
		return
	}
	old := p.lease(i)
	p.count(old, p.state(old), -1)
	if !p.shadowed(id) {
		p.usable--
	}
	if p.removed == nil {
		p.removed = map[int32]bool{}
	}
	p.removed[i] = true
	p.Skip(id)
}

// Shadowed reports whether the listing shows an ancestor of the lease: such a
// lease is neither acquired nor run.
func (p *Plan) Shadowed(id string) bool { return p.shadowed(id) }

// MarksOut reports whether a mark of this host is outstanding: on a lease that
// another host still owns.
func (p *Plan) MarksOut() bool { return p.marks > 0 }

func (p *Plan) shadowed(id string) bool {
	_, ok := p.coverage.shadowed[id]
	return ok
}

func (p *Plan) find(id string) (int32, bool) {
	if p.index == nil {
		p.index = make(map[string]int32, len(p.listing.Leases))
		for i := range p.listing.Leases {
			p.index[p.listing.Leases[i].ID] = int32(i)
		}
	}
	i, ok := p.index[id]
	return i, ok
}

func (p *Plan) lease(i int32) *lease.Lease {
	if l, ok := p.amended[i]; ok {
		return &l
	}
	return &p.listing.Leases[i]
}
