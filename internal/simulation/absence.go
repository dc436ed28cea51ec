package simulation

import "time"

// empty ends all hosts, by a crash or regularly, and starts one when the absence is over.
func (r *run) empty(e event) {
	r.mu.Lock()
	if until := time.Now().Add(e.d); until.After(r.awayUntil) {
		r.awayUntil = until
	}
	r.mu.Unlock()
	r.endHosts(e.n)
	r.world.trace.add("operator", "absence", "", "", int64(e.d))
	r.world.later(operatorParty, "back", e.d, func() {
		r.mu.Lock()
		barred := r.barred
		r.mu.Unlock()
		if !barred {
			r.world.join("host-back")
		}
	})
}

// endHosts ends all hosts. n selects the hosts that crash, while the others leave.
func (r *run) endHosts(n int) {
	for i, h := range r.world.living() {
		if (n+i)%3 == 0 || r.scenario.faultLevel == calm {
			h.leave()
			continue
		}
		r.crashed++
		h.crash()
	}
}

// away reports whether no host may join, because all hosts are absent.
func (r *run) away() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.barred || time.Now().Before(r.awayUntil)
}
