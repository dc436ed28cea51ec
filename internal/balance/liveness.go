package balance

import (
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// leaseState is the state of one lease, as the plan judges it.
type leaseState struct {
	live  bool // owned and not expired; otherwise it is free, and any host may acquire it
	young bool // live, and written so recently that it may be wanted
	// wanted is the host that wants the lease: a free one is reserved for it, and a live one
	// of our implementation is about to be handed over. It is empty if the lease has
	// expired, or has a foreign owner, who hands nothing over. It is also empty if the lease
	// is shadowed: since nobody may acquire such a lease, a host that wanted it and then died
	// would count as alive for as long as the lease exists.
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

// age returns the time since the lease was written, as far as this host knows. young reports
// whether it is short enough for the lease to be wanted. An amended lease was written after the
// listing, so it has not expired. If the store's clock was set back since the listing, its _ts
// does not show that. Without a clock of the store, age counts from the listing that first
// showed this ETag. If this host has not seen the lease change, its owner may be dead, so the
// lease is not young.
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
