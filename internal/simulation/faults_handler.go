package simulation

import (
	"slices"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/lease"
)

// elsewhereShare is the share of the batches that are checkpointed by another goroutine,
// in seeds with such checkpoints.
const elsewhereShare = 0.5

// elsewhere draws whether and when another goroutine checkpoints a batch. takes is the
// time that the handler takes for the batch.
func (r *run) elsewhere(o *simObserver, b *changefeed.Batch, takes time.Duration) elsewhere {
	s := r.scenario
	if !s.has(lateCheckpoints) || r.world.isCalm() {
		return elsewhere{}
	}
	d := newDraw(s.seed, uint64(b.Changes[0].LSN), "late checkpoint", o.host.id, o.lease.Token)
	if !d.chance(elsewhereShare) {
		return elsewhere{}
	}
	variants := slices.DeleteFunc([]string{
		lateCheckpoints, checkpointsDuringCall, checkpointsMinutesLater, checkpointsOutOfOrder, checkpointsAfterHandOver, checkpointsDuringSplit,
	}, func(name string) bool { return !s.has(name) })
	does := elsewhere{variant: variants[d.intn(len(variants))]}
	t := s.times
	switch does.variant {
	case checkpointsDuringCall:
		does.after, does.joins = d.span(0, takes), d.chance(0.5)
		return does
	case checkpointsMinutesLater, checkpointsAfterHandOver:
		does.after = d.span(t.expiration, 4*t.expiration)
	case checkpointsOutOfOrder:
		does.pile = d.between(2, 5)
		does.after = d.span(0, 20*time.Millisecond)
		if d.chance(0.2) {
			does.after = d.span(0, t.expiration)
		}
	default:
		does.after = d.span(time.Millisecond, t.expiration)
	}
	// No goroutine checkpoints at rest, where each write is counted.
	last := time.Until(r.calmAt) - d.span(time.Millisecond, t.timeout)
	if does.after > last {
		return elsewhere{}
	}
	return does
}

// atClose draws whether the observer's Close checkpoints the last batch.
func (r *run) atClose(o *simObserver) bool {
	if !r.scenario.has(checkpointsAtClose) {
		return false
	}
	d := newDraw(r.scenario.seed, uint64(o.run), "close", o.host.id, o.lease.Token)
	return d.chance(0.7)
}

// opening is the fault of an attempt to create or to open an observer. It takes a time,
// and then fails in one of three ways. Without a failure the attempt is only slow.
type opening struct {
	takes  time.Duration
	err    error
	panics bool
	exits  bool
}

// opens draws the fault of one attempt to create or to open the observer of a lease.
func (r *run) opens(h *host, l lease.Lease, what string) opening {
	s := r.scenario
	if !s.has(failingOpens) || r.world.isCalm() {
		return opening{}
	}
	d := newDraw(s.seed, uint64(h.count(what, l.Token)), what, h.id, l.Token)
	odds := s.odds.open
	if time.Since(r.world.trace.origin) < r.down(&r.opensDown) {
		odds = 0.8
	}
	if !d.chance(odds) {
		return opening{}
	}
	r.world.inject()
	r.world.occurs(failingOpens)
	var does opening
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
