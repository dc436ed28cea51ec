package simulation

import (
	"context"
	"time"
)

// These are the kinds of events of clocks.
var (
	eventStoreClock = &eventKind{func(_ context.Context, r *run, e event) {
		r.restsIn += max(0, -e.d)
		r.world.jumpStoreClock(e.d)
	}}
	eventHostClock = &eventKind{func(_ context.Context, r *run, e event) { r.stepHostClock(e) }}
	eventSuspend   = &eventKind{func(_ context.Context, r *run, e event) { r.suspendHost(e) }}
)

// jumpStoreClock sets the clock of the lease store and of the change feed forward or back.
// Only the engine in memory has such a clock.
func (w *world) jumpStoreClock(d time.Duration) {
	e, ok := w.engine.(*memEngine)
	if !ok {
		return
	}
	w.ledger.add(&storeStep{d})
	e.clock.jump(d)
	w.inject()
	w.occurs(storeClockJumps)
	w.trace.add("operator", "store clock", "", "", int64(d))
}

// stepHostClock sets the wall clock of a host forward or back. It leaves out a paused host,
// because that may have begun a batch when its clock showed another time. Nor does it set back
// the clock of a host that suspendHost would leave out.
func (r *run) stepHostClock(e event) {
	hosts := r.world.living()
	if len(hosts) == 0 {
		return
	}
	h := hosts[e.n%len(hosts)]
	if h.closedGate() != nil || e.d < 0 && h.clock.fellBehind(r.scenario.times.expiration) {
		return
	}
	r.world.ledger.add(&wallStep{h, e.d})
	h.clock.step(e.d)
	r.world.inject()
	r.world.occurs(hostClockJumps)
	h.trace("wall clock", "", "", int64(e.d))
}

// suspendHost suspends a host, until e.d later. It leaves out a host one of whose clocks
// fell behind less than an expiration interval ago. Both clocks of such a host would be
// behind, and the host could not notice the end of its trust.
func (r *run) suspendHost(e event) {
	hosts := r.world.living()
	if len(hosts) == 0 {
		return
	}
	h := hosts[e.n%len(hosts)]
	if h.clock.fellBehind(r.scenario.times.expiration) {
		return
	}
	r.world.inject()
	r.world.occurs(suspensions)
	h.trace("suspend", "", "", int64(e.d))
	h.clock.suspend(h)
	h.pause()
	r.world.later(operatorParty, "resume "+h.id, e.d, h.resume)
}

// addJumps adds n jumps of a clock. A jump goes back by at most back, or forward by at most
// forward.
func (s *scenario) addJumps(d *draw, n int, k *eventKind, back, forward time.Duration) {
	first := len(s.events)
	s.add(d, n, k, 0, 0.95)
	for i := range s.events[first:] {
		s.events[first+i].d = d.span(time.Second, forward)
		if d.chance(0.5) {
			s.events[first+i].d = -d.span(time.Second, back)
		}
	}
}

// jump sets the clock forward by d, or back if d is negative.
func (c *storeClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// suspend begins a suspension.
func (c *hostClock) suspend(h *host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.suspended.IsZero() {
		c.suspended, c.nap = time.Now(), &suspend{h}
		h.world.ledger.add(c.nap)
	}
}

// step sets the wall clock forward by d, or back if d is negative.
func (c *hostClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stepped += d
	if d < 0 {
		c.behindAt = time.Now()
	}
}

// fellBehind reports whether the wall clock went back, or the monotonic clock lost time,
// less than d ago.
func (c *hostClock) fellBehind(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.suspended.IsZero() || !c.behindAt.IsZero() && time.Since(c.behindAt) < d
}
