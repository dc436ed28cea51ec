package simulation

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// This file makes attempts to create or to open an observer fail.

// openFaults are the faults of such attempts in a scenario.
type openFaults struct {
	odds  float64       // of a fault
	until time.Duration // until then most attempts fail; guarded by the run's mutex
}

func (s *scenario) openFaults() *openFaults { return stateOf[openFaults](&s.states) }

// eventOpenOutage begins a time in which most attempts fail.
var eventOpenOutage = &eventKind{func(_ context.Context, r *run, e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scenario.openFaults().until = e.at + e.d
}}

func (s *scenario) drawOpenFaults(d *draw) {
	s.openFaults().odds = 0.3 * d.float()
	s.add(d, d.between(1, 2), eventOpenOutage, 0, 0.9)
}

// longestRetryDelay is the longest time between two attempts to open an observer: 30 s
// and a fifth.
const longestRetryDelay = 36 * time.Second

// opening is the fault of an attempt to create or to open an observer. It takes a time,
// and then fails in one of three ways. Without a failure the attempt is only slow.
type opening struct {
	takes  time.Duration
	err    error
	panics bool
	exits  bool
}

// drawOpening draws the fault of one attempt to create or to open the observer of a lease.
func (r *run) drawOpening(h *host, l lease.Lease, what string) (does opening) {
	s, f := r.scenario, r.scenario.openFaults()
	if r.world.isCalm() {
		return does
	}
	d := newDraw(s.seed, uint64(h.count(what, l.Token)), what, h.id, l.Token)
	odds := f.odds
	if time.Since(r.world.trace.origin) < r.down(&f.until) {
		odds = 0.8
	}
	if !d.chance(odds) {
		return does
	}
	r.world.inject()
	r.world.occurs(failingOpens)
	switch d.intn(5) {
	case 0:
		does.panics = true
	case 1:
		does.exits = true
	case 2:
		does.takes = min(d.span(time.Second, s.times.expiration), time.Until(r.calmAt))
	default:
		does.err = errHandler
	}
	does.takes += d.span(1, 10*time.Millisecond)
	return does
}

// failsOpens makes the attempts of a world fail as draw says.
func (w *world) failsOpens(draw func(h *host, l lease.Lease, what string) opening) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opening = func(ctx context.Context, h *host, l lease.Lease, what string) error {
		w.pending.Add(1)
		defer w.pending.Done()
		return draw(h, l, what).execute(ctx, h, l, what)
	}
}

// execute executes the fault of one attempt.
func (does opening) execute(ctx context.Context, h *host, l lease.Lease, what string) error {
	var err error
	if ctx.Done() == nil { // Config.Observer has no context, so it may outlast the drain timeout
		h.waits(func() { err = h.sleep(ctx, what+" "+l.Token, does.takes) })
	} else {
		err = h.sleep(ctx, what+" "+l.Token, does.takes)
	}
	switch {
	case err != nil:
	case does.panics:
		panic(fmt.Sprintf("%s panics on lease %s", what, l.Token))
	case does.exits:
		runtime.Goexit()
	default:
		err = does.err
	}
	return err
}
