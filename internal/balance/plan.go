// Package balance decides which host should own which lease, which leases are missing,
// and which leases replace the lease of a partition that was split or merged. It does no
// I/O.
//
// Every acquire interval, and more often while leases move ([Pace]), a host lists the
// leases. It makes a [Plan] of the listing and of its [Memory] of earlier ones. It
// creates missing leases and stops the workers of shadowed ones. Then it writes the moves
// of Decide, and amends the plan with each answer, until Decide returns none:
//
//	plan := balance.NewPlan(host, listing, memory, mono, regular, workers)
//	memory = plan.Memory()
//	for move := plan.Decide(); move.Kind != balance.MoveNone; move = plan.Decide() {
//		// write protocol.Acquired(move.Lease, me) to acquire, or protocol.Wanted(move.Lease, me) to want, and then
//		plan.Amend(answer) // or the conflict's Current
//	}
package balance

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Host describes the host that plans to [NewPlan]. All fields but Owner are the same on
// all hosts of a processor.
type Host struct {
	// Owner is the host's owner text, as returned by [protocol.NewOwner].
	Owner string
	// Min and Max bound the number of the host's leases. If zero, there is no bound. A
	// host takes up to Min leases from free ones and from hosts with more than Min. If
	// all other hosts have Min or fewer, a new host waits without leases. A host never
	// takes more than Max.
	Min, Max int
	// Terms are the intervals of the processor.
	Terms protocol.Terms
	// Range is the part of the container that the processor covers. If zero, it is the
	// whole container.
	Range feed.Range
	// Start and Mode apply to the leases that Missing returns. Dialect is the form of
	// their documents.
	Start   feed.Start
	Mode    feed.Mode
	Dialect lease.Dialect
}

// Plan evaluates one listing: the next writes ([Plan.Decide]), the missing leases
// ([Plan.Missing]), and the leases that must not run ([Plan.Shadowed]). [NewPlan] returns
// one per listing. Amend, Skip and Remove update it while the host carries out its moves.
// It is not safe for concurrent use.
//
// Creating a plan is O(n) if the ranges of the listing equal those of the listing before,
// and O(n log n) otherwise. Decide costs O(hosts), Amend O(log n).
type Plan struct {
	host    Host
	listing lease.Listing
	mono    time.Duration
	now     time.Time // Listing.Now, or mono as a time if the store has no clock
	regular bool
	workers map[string]bool // by lease ID; see NewPlan
	before  Memory
	seen    map[string]sighting // by lease ID, for stores without a clock; shared with Memory
	fresh   map[string]bool     // IDs of amended leases: written at an unknown time after the listing; for stores without a clock only

	coverage *coverage
	gaps     []gap
	index    map[string]int32  // ID to index in the listing; filled at the first use
	freeNow  map[string]string // Memory.free of this listing
	amended  map[int32]lease.Lease
	skipped  map[int32]bool // removed or skipped: Decide does not return them
	removed  map[int32]bool
	busy     []feed.Range // the ranges of shadowed leases that a host may still use

	usable     int
	wants      int // leases that this host wants and others still own
	stolen     int // leases that this host has stolen since the listing
	me         int32
	names      []string // known hosts, this host first; the slices below have the same order
	number     map[string]int32
	have       []int   // usable leases counted as this host's
	held       int     // leases that this host holds and may use, also those that others want
	reasons    []int   // number of reasons to count as a host: live leases, and leases that it wants
	free       []queue // free leases by the host that they are reserved for
	unreserved queue   // free leases that no host wants
	left       queue   // free leases that were left over for an interval
	victims    map[int32]*candidates
}

// NewPlan returns the plan for l. The listing was received at mono, by the host's
// monotonic clock. regular reports whether the cycle is a regular one. workers has the ID
// of each lease that the host has a worker for. Such a lease is neither acquired nor
// wanted. The value reports whether the worker trusts its lease. If so, the host holds
// the lease, even if it looks expired by the store's clock. workers must not change.
func NewPlan(h Host, l lease.Listing, m Memory, mono time.Duration, regular bool, workers map[string]bool) *Plan {
	p := &Plan{
		host: h, listing: l, mono: mono, now: l.Now, regular: regular, workers: workers, before: m,
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
	p.held = p.unlisted()
	p.reasons[p.me]++
	for i := range l.Leases {
		lease := &l.Leases[i]
		s := p.state(lease)
		p.count(lease, s, 1)
		p.use(lease, s)
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

// unlisted returns the number of leases that this host holds and that are missing in the
// listing. An operator has deleted them, and their workers put them back. Only a host with
// a maximum needs the number.
func (p *Plan) unlisted() int {
	n := 0
	if p.host.Max == 0 {
		return n
	}
	for id, trusted := range p.workers {
		if _, listed := p.find(id); trusted && !listed {
			n++
		}
	}
	return n
}

// use records the range of l if a host may use it although an ancestor of l exists. That
// host acquired l before it saw the ancestor, and stops when a listing shows it. Until then
// no host may acquire the ancestor. A foreign owner does not stop, so its lease does not
// count.
func (p *Plan) use(l *lease.Lease, s leaseState) {
	if p.shadowed(l.ID) && (p.running(l.ID) || s.live && l.Owner != p.host.Owner && protocol.Ours(l.Owner)) {
		p.busy = append(p.busy, l.Range)
	}
}

// Amend replaces a lease of the listing by l, the answer to a write or the Current of a
// conflict. It ignores a lease that the listing does not have.
func (p *Plan) Amend(l lease.Lease) {
	i, ok := p.find(l.ID)
	if !ok || p.removed[i] {
		return
	}
	old := p.lease(i)
	was := p.state(old)
	p.count(old, was, -1)
	if was.live && !protocol.Ours(old.Owner) && l.Owner == p.host.Owner {
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
	p.use(&l, s)
	p.count(&l, s, 1)
	p.enqueue(i, &l, s)
	p.addCandidate(i, &l)
}

// Skip excludes the lease from Decide until the next listing, because a write of it
// failed or has an unknown outcome.
func (p *Plan) Skip(id string) {
	if i, ok := p.find(id); ok {
		if p.skipped == nil {
			p.skipped = map[int32]bool{}
		}
		p.skipped[i] = true
	}
}

// Remove removes a lease that was found absent from the plan. Leases that it shadowed
// stay shadowed until the next listing.
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

// Shadowed reports whether the listing shows an ancestor of the lease. Such a lease is
// neither acquired nor run.
func (p *Plan) Shadowed(id string) bool { return p.shadowed(id) }

// Shadows returns the ID of the widest ancestor by the ID of each lease that the listing
// shows to be shadowed. The map must not be changed.
func (p *Plan) Shadows() map[string]string { return p.coverage.shadowed }

// Overlaps returns the keys that two leases of the listing cover, though neither covers the
// other.
func (p *Plan) Overlaps() []Overlap { return p.coverage.overlaps }

// Token returns the token of the lease with an ID, or the ID if the listing has no such
// lease that can be read.
func (p *Plan) Token(id string) string {
	if i, ok := p.find(id); ok {
		return p.lease(i).Token
	}
	return id
}

// WantsOut reports whether this host wants a lease that another host still owns.
func (p *Plan) WantsOut() bool { return p.wants > 0 }

func (p *Plan) shadowed(id string) bool {
	_, ok := p.coverage.shadowed[id]
	return ok
}

// running reports whether this host has a worker for the lease.
func (p *Plan) running(id string) bool {
	_, ok := p.workers[id]
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
