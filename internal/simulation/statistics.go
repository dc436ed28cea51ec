package simulation

import (
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// visits counts the actions of foreign hosts in one run.
type visits struct {
	hosts       int // foreign hosts that joined
	stolen      int // leases that our hosts took from foreign owners
	overwritten int // leases that foreign hosts took from our hosts, or freed
	fell        int // positions that foreign hosts moved back
	dropped     int // foreign writes that dropped properties
}

func (v *visits) add(o visits) {
	v.hosts += o.hosts
	v.stolen += o.stolen
	v.overwritten += o.overwritten
	v.fell += o.fell
	v.dropped += o.dropped
}

// statistics returns how often a lease got another owner, and what foreign hosts did.
func (w *world) statistics() (moves int, v visits) {
	v.hosts = len(w.everyForeignHost())
	docs := map[string]lease.Lease{}
	for _, e := range w.ledger.entries {
		a, ok := e.fact.(*application)
		if !ok {
			continue
		}
		before := docs[a.lease.Token]
		docs[a.lease.Token] = a.doc
		moved := a.op == opUpdate && a.doc.Owner != "" && a.doc.Owner != before.Owner
		if moved {
			moves++
		}
		switch {
		case a.host == nil || a.op != opUpdate:
		case !a.host.foreign:
			if moved && before.Owner != "" && !protocol.Ours(before.Owner) {
				v.stolen++
			}
		default:
			if protocol.Ours(before.Owner) && a.doc.Owner != before.Owner {
				v.overwritten++
			}
			if len(a.doc.Properties) < len(before.Properties) {
				v.dropped++
			}
			if lsnAt(a.doc.Continuation) < lsnAt(before.Continuation) {
				v.fell++
			}
		}
	}
	return moves, v
}
