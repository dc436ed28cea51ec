package simulation

import (
	"context"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// These are the names by which a run counts what foreign hosts do.
const (
	foreignJoins  = "foreign hosts"
	stolenLeases  = "leases that our hosts took from foreign owners"
	takenLeases   = "leases that foreign hosts took from our hosts, or freed"
	fallen        = "positions that foreign hosts moved back"
	droppedFields = "foreign writes that dropped properties"
)

// countVisits counts what foreign hosts have done in a run.
func (r *run) countVisits(context.Context) {
	w := r.world
	for range w.everyForeignHost() {
		w.occurs(foreignJoins)
	}
	docs := map[string]lease.Lease{}
	for _, e := range w.ledger.entries {
		a, ok := e.fact.(*application)
		if !ok {
			continue
		}
		before := docs[a.lease.Token]
		docs[a.lease.Token] = a.doc
		switch {
		case a.host == nil || a.op != opUpdate:
		case !a.host.foreign:
			if a.doc.Owner != "" && a.doc.Owner != before.Owner && before.Owner != "" && !protocol.Ours(before.Owner) {
				w.occurs(stolenLeases)
			}
		default:
			if protocol.Ours(before.Owner) && a.doc.Owner != before.Owner {
				w.occurs(takenLeases)
			}
			if len(a.doc.Properties) < len(before.Properties) {
				w.occurs(droppedFields)
			}
			if lsnAt(a.doc.Continuation) < lsnAt(before.Continuation) {
				w.occurs(fallen)
			}
		}
	}
}
