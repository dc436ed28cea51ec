package balance

import (
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// leaseState is the state of one lease, as the plan judges it.
type leaseState struct {
	live  bool // owned and not expired; otherwise it is free, and any host may acquire it
	young bool // live, and written so recently that it may be requested
	// wanted is the host of a valid mark. On a free lease it is a reservation. On a live
	// lease of our implementation it is a request. The mark of an expired lease is not
	// valid. Nor is one on a foreign owner's lease, because foreign owners do not obey
	// marks. A shadowed lease has no valid mark either: nobody may acquire that lease, which
	// is what removes a mark, so a host that died would count for as long as the lease
	// exists.
	wanted string
}

// state returns the state of a lease.
func (p *Plan) state(l *lease.Lease) leaseState {
	var s leaseState
	if l.Owner != "" {
		age, young := p.age(l)
		// After a forward jump of the store's clock, leases of this host look expired. The
		// host would count too few of them and acquire more than its share or its maximum.
		s.live = age < p.host.Terms.Takeover() || l.Owner == p.host.Owner && p.workers[l.ID]
		s.young = s.live && young
	}
	if w := l.Wanted(); w != "" && !p.shadowed(l.ID) && (l.Owner == "" || s.live && protocol.Ours(l.Owner)) {
		s.wanted = w
	}
	return s
}

// age returns the time since the lease was written, as far as this host knows. young
// reports whether it is short enough for a request. An amended lease was written after the
// listing, so it has not expired. If the store's clock was set back since the listing, its
// _ts does not show that. Without a clock of the store, age
// counts from the listing that first showed this ETag. If this host has not seen the
// lease change, its owner may be dead, so the lease is not young.
func (p *Plan) age(l *lease.Lease) (age time.Duration, young bool) {
	if p.seen != nil {
		if p.fresh[l.ID] {
			return 0, true // the next listing shows another ETag and starts the count
		}
		s := p.seen[l.ID]
		age = p.mono - s.since
		return age, s.changed && age < p.host.Terms.Young()
	}
	age = p.now.Sub(l.Modified)
	if age >= p.host.Terms.Takeover() && p.isAmended(l.ID) {
		age = 0
	}
	return age, age < p.host.Terms.Young()
}

// isAmended reports whether the lease was amended since the listing.
func (p *Plan) isAmended(id string) bool {
	if len(p.amended) == 0 {
		return false
	}
	i, ok := p.find(id)
	if ok {
		_, ok = p.amended[i]
	}
	return ok
}

// count adds the lease to the number of a host, or removes it if by is -1. The lease
// counts for the host that requests it, because that host gets it next. Otherwise it
// counts for its live owner, if there is one.
func (p *Plan) count(l *lease.Lease, s leaseState, by int) {
	// The listing may show another owner of a lease that a worker still trusts. The host
	// uses that lease until the worker's next write, so it holds it.
	if (s.live && l.Owner == p.host.Owner || p.workers[l.ID]) && !p.shadowed(l.ID) {
		p.held += by
	}
	if !s.live && s.wanted == "" {
		return
	}
	var has int32
	if s.live {
		has = p.hostNumber(l.Owner)
		p.reasons[has] += by
	}
	if s.wanted != "" {
		has = p.hostNumber(s.wanted)
		p.reasons[has] += by
		if has == p.me && s.live && l.Owner != p.host.Owner {
			p.marks += by
		}
	}
	if !p.shadowed(l.ID) {
		p.have[has] += by
	}
}

// hostNumber returns the number of an owner text, and assigns one to a new text. The
// balance counts a host while its number of reasons is above zero.
func (p *Plan) hostNumber(owner string) int32 {
	if n, ok := p.number[owner]; ok {
		return n
	}
	n := int32(len(p.names))
	p.number[owner] = n
	p.names = append(p.names, owner)
	p.have = append(p.have, 0)
	p.reasons = append(p.reasons, 0)
	p.free = append(p.free, queue{})
	return n
}

// share returns the number of leases that this host should have: floor to ceil of the
// leases per host, within the host's bounds.
func (p *Plan) share() (floor, ceil int) {
	hosts := 0
	for _, r := range p.reasons {
		if r > 0 {
			hosts++
		}
	}
	floor = p.usable / hosts
	ceil = (p.usable + hosts - 1) / hosts
	return p.bounded(floor), p.bounded(ceil)
}

func (p *Plan) bounded(n int) int {
	n = max(n, p.host.Min)
	if p.host.Max > 0 {
		n = min(n, p.host.Max)
	}
	return n
}
