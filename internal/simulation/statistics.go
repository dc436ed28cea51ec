package simulation

// leaseMoves returns how often a lease got another owner.
func (w *world) leaseMoves() (n int) {
	owners := map[string]string{}
	for _, e := range w.ledger.entries {
		a, ok := e.fact.(*application)
		if !ok {
			continue
		}
		if a.op == opUpdate && a.doc.Owner != "" && a.doc.Owner != owners[a.lease.Token] {
			n++
		}
		owners[a.lease.Token] = a.doc.Owner
	}
	return n
}
