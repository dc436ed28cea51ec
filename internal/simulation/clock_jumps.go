package simulation

import "time"

// jumpStoreClock sets the clock of the lease store and of the change feed forward or back.
func (r *run) jumpStoreClock(d time.Duration) {
	e, ok := r.world.engine.(*memEngine)
	if !ok {
		return
	}
	r.world.check.storeClockJumps(d)
	e.clock.jump(d)
	r.setBack += max(0, -d)
	r.world.inject()
	r.world.occurs(storeClockJumps)
	r.world.trace.add("operator", "store clock", "", "", int64(d))
}

// stepHostClock sets the wall clock of a host forward or back. It leaves out a paused host,
// which may have begun a batch at the time before.
func (r *run) stepHostClock(e event) {
	hosts := r.world.living()
	if len(hosts) == 0 {
		return
	}
	h := hosts[e.n%len(hosts)]
	if h.closedGate() != nil {
		return
	}
	h.clock.step(e.d)
	r.world.inject()
	r.world.occurs(hostClockJumps)
	r.world.trace.add(h.id, "wall clock", "", "", int64(e.d))
}

// suspendHost suspends a host, until e.d later.
func (r *run) suspendHost(e event) {
	hosts := r.world.living()
	if len(hosts) == 0 {
		return
	}
	h := hosts[e.n%len(hosts)]
	r.world.inject()
	r.world.occurs(suspensions)
	r.world.trace.add(h.id, "suspend", "", "", int64(e.d))
	h.clock.suspend()
	h.pause()
	r.world.later(e.d, h.resume)
}

// addJumps adds n jumps of a clock. A jump goes back by at most back, or forward by at most
// forward.
func (s *scenario) addJumps(d *draw, n int, k eventKind, back, forward time.Duration) {
	first := len(s.events)
	s.add(d, n, k, 0, 0.95)
	for i := range s.events[first:] {
		s.events[first+i].d = d.span(time.Second, forward)
		if d.chance(0.5) {
			s.events[first+i].d = -d.span(time.Second, back)
		}
	}
}

// storeClockJumps records that the store's clock is about to jump by d. After a jump
// forward, live leases look expired. Another host may acquire a lease whose owner wrote it
// before the jump, and the owner learns of that only at its next write.
func (c *checker) storeClockJumps(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d > 0 {
		c.jumpedAt = time.Now()
	}
}

// doubtful reports whether another host may have acquired the lease since the store's
// clock jumped forward. It is false after the owner's next write. The caller holds c.mu.
func (c *checker) doubtful(t *tenure) bool {
	return t != nil && !c.jumpedAt.IsZero() && !t.attempt.After(c.jumpedAt)
}
