package balance

import (
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Decide determines which host should own which lease.
//
// Every host aims at floor to ceil of the leases per live host. A host counts if it owns
// a live lease or wants one. Free leases are acquired first: those handed over to
// this host, and those that no host wants. A free lease that was left for a whole
// interval is acquired by any host. So a host that wanted it and died disturbs the balance for a
// moment, and never the coverage.
//
// Then the host wants a lease of the most loaded host. The owner finishes its batch
// and releases the lease. The released lease is reserved for the host that wants it. With every
// such lease have(victim) is at least have(me) + 2, so each improves the balance. Hosts at floor
// or ceil write nothing, so leases do not move between equally loaded hosts.
//
// A foreign owner (Java, .NET) does not hand over what others want. Its surplus leases are
// stolen after all other moves. A steal is the acquire of a live lease. The new owner does not
// use the lease until its victim's last write has expired. The range is silent during that wait,
// and hosts that start at the same time do not see each other yet. So a host steals in regular
// cycles only, and only half of its deficit.
//
// Each host has its own order of the leases. It acquires free leases in that order and
// wants the last of a victim's leases. So hosts seldom write the same lease. If they
// do, compare-and-set lets one of them succeed.

// MoveKind is the kind of a [Move].
type MoveKind int

// The kinds of Move.
const (
	// MoveNone: there is nothing to do.
	MoveNone MoveKind = iota
	// MoveAcquire: Update with [protocol.Acquired].
	MoveAcquire
	// MoveWant: Update with [protocol.Wanted].
	MoveWant
	// MoveSteal: Update with [protocol.Acquired], for a lease that a foreign owner
	// still holds. The thief only renews the lease until Move.Until, and until a renewal
	// that began after that has succeeded. Before that it does not use the lease, put it
	// back, hand it over or release it.
	MoveSteal
)

// String returns the name of the kind for messages.
func (k MoveKind) String() string {
	switch k {
	case MoveAcquire:
		return "acquire"
	case MoveWant:
		return "ask"
	case MoveSteal:
		return "steal"
	case MoveNone:
	}
	return "none"
}

// Move is the next write of a host towards balance.
type Move struct {
	Kind MoveKind
	// Lease is the lease in the listing. Its ETag is the condition of the write.
	Lease lease.Lease
	// Until is set with MoveSteal. It is the moment, by the host's monotonic clock, at
	// which the lease would have expired if its owner had not written it again.
	Until time.Duration
}

// Decide returns the next write, or a Move of MoveNone. It returns the same Move until
// the lease is amended, skipped or removed.
func (p *Plan) Decide() Move {
	floor, ceil := p.share()
	if i, ok := p.nextFree(ceil); ok {
		return Move{Kind: MoveAcquire, Lease: *p.lease(i)}
	}
	if i, ok := p.nextLive(floor, ceil, false); ok {
		return Move{Kind: MoveWant, Lease: *p.lease(i)}
	}
	if lacks := ceil - p.have[p.me]; p.regular && !p.full() && p.stolen < (lacks+p.stolen+1)/2 {
		if i, ok := p.nextLive(floor, ceil, true); ok {
			l := *p.lease(i)
			age, _ := p.age(&l)
			return Move{Kind: MoveSteal, Lease: l, Until: p.mono + p.host.Terms.Takeover() - age}
		}
	}
	return Move{}
}

// full reports whether this host holds its maximum of leases. A lease that it is to hand
// over counts as the share of the host that wants it. But this host holds it until its batch is
// finished, so the lease counts for the maximum.
func (p *Plan) full() bool { return p.host.Max > 0 && p.held >= p.host.Max }

// nextFree returns the first free lease, in this host's order, that it may take.
func (p *Plan) nextFree(ceil int) (int32, bool) {
	if p.full() {
		return 0, false
	}
	mine := p.have[p.me]
	best, found := entry{}, false
	consider := func(h *queue, reserved string, left bool) {
		e, ok := h.top(func(e entry) bool { return p.available(e.index, reserved, left) })
		if ok && (!found || e.before(best)) {
			best, found = e, true
		}
	}
	// Left over: acquired even above this host's share, and whatever is reserved for it. A host
	// of .NET copies the property to the children of a split, so more may be reserved for this host
	// than its maximum, and the next rule acquires none of them.
	consider(&p.left, "", true)
	if mine <= ceil {
		consider(&p.free[p.me], p.host.Owner, false) // handed over to this host
	}
	if mine < ceil {
		consider(&p.unreserved, "", false)
		for h := range p.free {
			if int32(h) != p.me && p.have[h] > ceil && len(p.free[h]) > 0 {
				consider(&p.free[h], p.names[h], false) // the host that wants it has enough
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

// available reports whether lease i is still free, and no host may still use a part of it.
// If left is set, the lease must also be left over. Otherwise it must be reserved for the
// host reserved, or for no host if that is "".
func (p *Plan) available(i int32, reserved string, left bool) bool {
	if p.skipped[i] {
		return false
	}
	l := p.lease(i)
	s := p.state(l)
	if s.live || slices.ContainsFunc(p.busy, l.Range.Contains) {
		return false
	}
	if left {
		return p.leftOver(l)
	}
	return s.wanted == reserved
}

// leftOver reports whether this host's last regular cycle found the lease free, with the
// same ETag.
func (p *Plan) leftOver(l *lease.Lease) bool {
	etag, ok := p.before.free[l.ID]
	return p.regular && ok && etag == l.ETag
}

// nextLive returns the lease to want, or to steal if foreign is set. It belongs to the
// most loaded host of that kind.
func (p *Plan) nextLive(floor, ceil int, foreign bool) (int32, bool) {
	mine := p.have[p.me]
	if mine >= ceil {
		return 0, false
	}
	var best entry
	most, found := 0, false
	for v := range p.names {
		if int32(v) == p.me || p.have[v] < most || foreign == protocol.Ours(p.names[v]) {
			continue
		}
		if p.have[v] <= ceil && (mine >= floor || p.have[v] <= floor) {
			continue
		}
		// The order of names differs between listings, so a hash breaks ties.
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

// candidates holds the leases of one host that this host may want or steal.
type candidates struct {
	found []int32 // moved into order at the first use
	order queue
}

// lastOf returns the last lease of v, in this host's order, that may be wanted, or
// stolen if v is foreign.
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
		// The heap has the smallest entry on top, and the last lease is needed. So the
		// rank is inverted.
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

// addCandidate adds lease i to the candidates of its owner if it may be wanted or
// stolen. It does nothing before those candidates are first used.
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

// obtainable reports whether a live lease of another host may be wanted, or stolen if
// its owner is foreign. A shadowed lease may not. Neither may a lease that this host has
// a worker for. The release of that lease has no answer yet, and it may already belong to
// another host. A host has at most one write of a lease under way.
func (p *Plan) obtainable(i int32, l *lease.Lease) bool {
	if l.Owner == "" || l.Owner == p.host.Owner || p.skipped[i] || p.running(l.ID) || p.shadowed(l.ID) {
		return false
	}
	s := p.state(l)
	if protocol.Ours(l.Owner) {
		return s.young && l.Wanted() == "" // wanted by one host, and only while its owner seems alive
	}
	// The wait after a steal counts from the victim's last write. An amended lease was
	// written after the listing, perhaps long after it. Without a clock of the store the
	// time of that write is unknown. With one, the drift since the listing may exceed the
	// margin. The next listing shows the time.
	return s.live && !p.isAmended(l.ID)
}
