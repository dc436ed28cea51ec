package balance

import (
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// Decide: who should own what.
//
// Every host aims at floor to ceil of the leases per live host, and a host is who
// owns a live lease or has asked for one. Free leases are acquired: those handed
// over to this host, those nobody asked for, and, when they were left for a whole
// interval, any, so that a requester that died costs balance for a moment and
// never coverage. Then the host asks the most loaded one, whose owner finishes
// its batch and releases; the mark reserves the released lease. have(victim) is
// at least have(me) + 2 with every ask, so every ask evens out, and hosts at floor
// or ceil write nothing: ties stay where they are.
//
// A foreign owner (Java, .NET) would not obey a mark. What it has too much of is
// stolen, after all else was tried: the acquire of a live lease, whose new owner
// waits until its victim's last write has expired before it uses it. That range is
// silent for the wait, and hosts that come at the same time don't see each other
// yet; so a host steals in regular cycles only, and half of what it is short of.
//
// Hosts look at the free leases in an order that is another one for each host, and
// ask for the last of a victim's in that order, so that they seldom meet at one
// lease. Where they do, compare-and-set lets one through.

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
	// MoveSteal: Update with [Lease.Acquired], of a lease that a foreign owner
	// still holds. Until Move.Until, and one renewal begun after it and answered
	// with success, the lease is renewed and nothing else: it is not used, not put
	// back, not handed over and not released.
	MoveSteal
)

// String names the kind for messages.
func (k MoveKind) String() string {
	switch k {
	case MoveAcquire:
		return "acquire"
	case MoveAsk:
		return "ask"
	case MoveSteal:
		return "steal"
	case MoveNone:
	}
	return "none"
}

// Move is the next write that a host should make to come nearer to balance.
type Move struct {
	Kind MoveKind
	// Lease is as the listing shows it; its ETag is the write's condition.
	Lease lease.Lease
	// Until is set with MoveSteal: the moment, by the host's monotonic clock, at
	// which the lease would have expired if its owner had not written it again.
	Until time.Duration
}

// Decide returns the next write, or a Move of MoveNone. It returns the same Move
// again until the lease was amended, skipped or removed.
func (p *Plan) Decide() Move {
	floor, ceil := p.share()
	if i, ok := p.nextFree(ceil); ok {
		return Move{Kind: MoveAcquire, Lease: *p.lease(i)}
	}
	if i, ok := p.nextLive(floor, ceil, false); ok {
		return Move{Kind: MoveAsk, Lease: *p.lease(i)}
	}
	if lacks := ceil - p.have[p.me]; p.regular && p.stolen < (lacks+p.stolen+1)/2 {
		if i, ok := p.nextLive(floor, ceil, true); ok {
			l := *p.lease(i)
			age, _ := p.age(&l)
			return Move{Kind: MoveSteal, Lease: l, Until: p.mono + p.host.Terms.Takeover() - age}
		}
	}
	return Move{}
}

// nextFree returns the first free lease, in this host's order, that it may take.
func (p *Plan) nextFree(ceil int) (int32, bool) {
	mine := p.have[p.me]
	best, found := entry{}, false
	consider := func(h *queue, reserved string, left bool) {
		e, ok := h.top(func(e entry) bool { return p.available(e.index, reserved, left) })
		if ok && (!found || e.before(best)) {
			best, found = e, true
		}
	}
	if p.host.Max == 0 || mine < p.host.Max {
		consider(&p.left, "", true) // left over: whatever I have
	}
	if mine <= ceil {
		consider(&p.free[p.me], p.host.Owner, false) // handed over to me
	}
	if mine < ceil {
		consider(&p.unreserved, "", false)
		for h := range p.free {
			if int32(h) != p.me && p.have[h] > ceil && len(p.free[h]) > 0 {
				consider(&p.free[h], p.names[h], false) // its requester has enough
			}
		}
	}
	return best.index, found
}

// enqueue adds a free lease to the queues of nextFree. An entry that no longer applies is
// dropped when it comes to the top.
func (p *Plan) enqueue(i int32, l *lease.Lease, s leaseState) {
	if s.live || p.shadowed(l.ID) || p.running(l.ID) {
		return
	}
	e := entry{rank: rank(p.host.Owner, l.ID), index: i}
	if s.wanted == "" {
		p.unreserved.push(e)
	} else {
		p.free[p.hostNumber(s.wanted)].push(e)
	}
	if p.leftOver(l) {
		p.left.push(e)
	}
}

// available reports whether lease i is still free, and reserved for that host ("":
// nobody) or, if left is set, left over.
func (p *Plan) available(i int32, reserved string, left bool) bool {
	if p.skipped[i] {
		return false
	}
	l := p.lease(i)
	s := p.state(l)
	if s.live {
		return false
	}
	if left {
		return p.leftOver(l)
	}
	return s.wanted == reserved
}

// leftOver reports whether a free lease was free, with the same ETag, when this
// host's last regular cycle looked.
func (p *Plan) leftOver(l *lease.Lease) bool {
	etag, ok := p.before.free[l.ID]
	return p.regular && ok && etag == l.ETag
}

// nextLive returns the lease to ask for, or to steal: one of the most loaded host's,
// of our kind or foreign.
func (p *Plan) nextLive(floor, ceil int, foreign bool) (int32, bool) {
	mine := p.have[p.me]
	if mine >= ceil {
		return 0, false
	}
	var best entry
	most, found := 0, false
	for v := range p.names {
		if int32(v) == p.me || p.have[v] < most || foreign == lease.Ours(p.names[v]) {
			continue
		}
		if p.have[v] <= ceil && (mine >= floor || p.have[v] <= floor) {
			continue
		}
		// The names' order differs between listings, so ties are broken by hash.
		e := entry{rank: rank(p.host.Owner, p.names[v]), index: int32(v)}
		if found && p.have[v] == most && best.before(e) {
			continue
		}
		if _, ok := p.lastOf(int32(v)); ok {
			best, most, found = e, p.have[v], true
		}
	}
	if !found {
		return 0, false
	}
	e, _ := p.lastOf(best.index)
	return e.index, true
}

// candidates are the leases of one host that may be asked for or stolen.
type candidates struct {
	found []int32 // moved into order when it is first read
	order queue
}

// lastOf finds, in this host's order, the last lease of v that may be asked for, or
// stolen when v is foreign.
func (p *Plan) lastOf(v int32) (entry, bool) {
	if p.victims == nil {
		p.victims = map[int32]*candidates{}
		for i := range p.listing.Leases {
			p.addCandidate(int32(i), p.lease(int32(i)))
		}
	}
	from := p.victims[v]
	if from == nil {
		return entry{}, false
	}
	for _, i := range from.found {
		// The heap has the smallest on top; the last is wanted.
		from.order = append(from.order, entry{rank: ^rank(p.host.Owner, p.lease(i).ID), index: i})
	}
	if len(from.found) > 0 {
		from.found = nil
		from.order.init()
	}
	return from.order.top(func(e entry) bool {
		l := p.lease(e.index)
		return l.Owner == p.names[v] && p.obtainable(e.index, l)
	})
}

// addCandidate adds a lease that may be asked for or stolen, once there is need of any.
func (p *Plan) addCandidate(i int32, l *lease.Lease) {
	if p.victims == nil || !p.obtainable(i, l) {
		return
	}
	v := p.hostNumber(l.Owner)
	if p.victims[v] == nil {
		p.victims[v] = &candidates{}
	}
	p.victims[v].found = append(p.victims[v].found, i)
}

// obtainable reports whether a live lease of another host may be asked for or, when
// its owner is foreign, be stolen. One that is shadowed may not, and neither may one
// that this host has a worker for, whose release isn't answered yet and which may
// already be another's: a host writes a lease once at a time.
func (p *Plan) obtainable(i int32, l *lease.Lease) bool {
	if l.Owner == "" || l.Owner == p.host.Owner || p.skipped[i] || p.running(l.ID) || p.shadowed(l.ID) {
		return false
	}
	s := p.state(l)
	if lease.Ours(l.Owner) {
		return s.young && l.Wanted() == "" // asked for once, and not when its owner may be dead
	}
	// A store without a clock doesn't tell when an amended lease was written, nor
	// therefore how long to wait.
	return s.live && !p.fresh[l.ID]
}
