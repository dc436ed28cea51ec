package simulation

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed"
)

// limit draws the bounds of the number of a host's leases. Some hosts have none.
func (r *run) limit(h *host) {
	d := newDraw(r.scenario.seed, 0, "limits", h.id)
	s := &h.settings
	most := r.scenario.partitions + 2
	if d.chance(0.6) {
		s.maxLeases = d.between(1, most)
		most = s.maxLeases
	}
	if d.chance(0.5) {
		s.minLeases = d.between(1, most)
	}
}

// differ draws settings that differ between the hosts. The expiration interval is the
// same on all hosts, because the protocol requires it. The other intervals are at most
// those of the scenario, so the limits of the rules remain valid.
func (r *run) differ(h *host) {
	d := newDraw(r.scenario.seed, 0, "settings", h.id)
	s := &h.settings
	t := &s.times
	t.acquire = d.span(t.acquire/3, t.acquire+1)
	t.renew = d.span(t.renew/2, t.renew+1)
	t.timeout = d.span(t.timeout/2, t.timeout+1)
	t.poll = d.span(t.poll/3, t.poll+1)
	if t.drain > 0 {
		t.drain = d.span(time.Millisecond, t.drain+1)
	}
	s.maxItems, s.readAhead = drawPages(&d)
	switch kind := d.intn(3); {
	case kind == 0: // as the scenario has it
	case kind == 1 && !s.checkpoint.Manual:
		s.checkpoint = drawDeferred(&d)
	default:
		s.checkpoint = changefeed.Checkpointing{}
	}
}

// limitOne limits the number of a host's leases, unless the faults are over.
func (r *run) limitOne(h *host) {
	if !r.world.isCalm() {
		r.limit(h)
	}
}

// joinIfShort starts a host without limits if the others may not own all leases.
func (r *run) joinIfShort(_ context.Context) {
	if !r.isShort() {
		return
	}
	r.world.occurs(leaseLimits)
	r.world.join("host-last") //nolint:contextcheck // a host ends by a crash or a leave, not with the context that started it
	r.sleep(r.world.times.recovery())
}

// isShort reports whether the live hosts may not own all leases, because each of them has as
// many as it may.
func (r *run) isShort() bool {
	w := r.world
	w.rests(restShort, time.Now())
	have, leases := map[string]int{}, usable(w.documents())
	for _, l := range leases {
		age := w.engine.now().Truncate(time.Second).Sub(l.Modified)
		if w.clockless {
			age = time.Since(w.stored(l.Token).at)
		}
		if age < w.times.takeover() {
			have[l.Owner]++
		}
	}
	free := len(leases)
	for _, h := range w.living() {
		free -= have[h.text()]
	}
	return free > 0
}

// isFull reports whether a host with n leases may acquire no more.
func (s settings) isFull(n int) bool { return s.maxLeases > 0 && n >= s.maxLeases }

// drawDeferred draws after how many changes or how much time the processor checkpoints.
func drawDeferred(d *draw) changefeed.Checkpointing {
	return changefeed.Checkpointing{Changes: d.between(10, 200), Interval: d.span(time.Second, 10*time.Second)}
}
