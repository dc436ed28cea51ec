package balance

import (
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// leaseState is the state of a lease at the time of a plan.
type leaseState struct {
	live  bool // owned, and not expired; else it is free, and anybody may acquire it
	young bool // live, and may be asked for by its age
	// wanted is the requester of a mark that counts: on a free lease it is a
	// reservation, on a live one of our kind a request under way. The mark of an
	// expired lease, and one on a foreign owner's, which wouldn't obey it, don't count.
	wanted string
}

// state returns the state of a lease.
func (p *Plan) state(l *lease.Lease) leaseState {
	var s leaseState
	if l.Owner != "" {
		age, young := p.age(l)
		s.live = age < p.host.Terms.Takeover()
		s.young = s.live && young
	}
	if w := l.Wanted(); w != "" && (l.Owner == "" || s.live && lease.Ours(l.Owner)) {
		s.wanted = w
	}
	return s
}

// age is how long ago the lease was written, as far as this host can tell, and
// whether that is short enough to ask for it. Where the store has no clock it
// counts from the listing that first showed this ETag; of a lease that this host
// hasn't seen change, nobody knows whether its owner lives, so it isn't young.
func (p *Plan) age(l *lease.Lease) (age time.Duration, young bool) {
	if p.seen != nil {
		if p.fresh[l.ID] {
			return 0, true // the next listing, which shows another ETag, starts the count
		}
		s := p.seen[l.ID]
		age = p.mono - s.since
		return age, s.changed && age < p.host.Terms.Young()
	}
	age = p.now.Sub(l.Modified)
	return age, age < p.host.Terms.Young()
}

// count adds the lease to what its hosts have, or (by -1) takes it out. It counts
// for the requester, to whom it goes next, else for the live owner, else for nobody.
func (p *Plan) count(l *lease.Lease, s leaseState, by int) {
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

// hostNumber gives each owner text that was seen a small number. A host exists
// for the balance while it has a reason.
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

// share is how many leases a host should have: floor to ceil of the leases per
// host. mine is limited by the host's bounds.
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
