package simulation

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// doubling is an event after which two hosts may use the same keys, though all hosts follow
// the protocol.
type doubling struct {
	keys  feed.Range
	until time.Duration // by then, the hosts have noticed
	part  bool          // two leases overlap in part until an operator repairs them
}

// doubles records a create or a delete after which two hosts may use the same keys.
func (v *view) doubles(a *application) {
	s, l := v.sent[a.leaseWrite], a.lease
	if a.op == opDelete {
		l = s.before
	}
	keys, gone, took := l.Range.OrFull(), v.isGone(l), v.now-s.at
	mending := 2*v.times.expiration + 4*v.times.acquire
	// The lease is above others, or a part of it is in another one. Our hosts alone do not
	// create such parts: one of the two leases is of a foreign host or an operator.
	var doubles, above, across bool
	for _, o := range v.docs {
		above = above || ancestor(l, o)
		part := o.Token != l.Token && o.Range.OrFull().Overlaps(keys) && !ancestor(o, l) && !ancestor(l, o)
		across = across || part && (!a.ours() || v.lease(o.Token).strange)
	}
	switch {
	case a.op == opDelete && a.host == nil: // in a first start, during a create, or before another one is mended
		doubles = !v.marker || v.creates > 0 || v.deleted >= 0 && v.now-v.entries[v.deleted].at < mending
	case a.op == opDelete: // of a lease that is not gone, by a foreign host
		doubles = a.host.foreign && !gone
	case a.host == nil || across: // an operator or a foreign host has created one of the two leases
		doubles = across
	case a.host.foreign: // a foreign host creates a lease late, or above others
		doubles = above || gone || took > v.times.timeout
	case gone && took > a.host.settings.times.timeout: // the host has given the create up long ago
		doubles = true
	case l.Owner == "": // a first start creates what was deleted
		doubles = v.deleted >= 0 && !v.hostOf(a.host).marked
	default: // the owner puts back what another host could acquire or delete meanwhile
		doubles = v.overtaken(v.tenures[a.key()])
	}
	if doubles {
		v.double = append(v.double, doubling{keys, v.now + mending, across && a.op == opCreate})
	}
}
