package balance

import "github.com/changefeed-go/changefeed/lease"

// count adds the lease to the number of a host, or removes it if by is -1. The lease
// counts for the host that wants it, because that host gets it next. Otherwise it
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
			p.wants += by
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
