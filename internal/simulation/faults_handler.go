package simulation

import (
	"slices"
	"time"

	"github.com/changefeed-go/changefeed"
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
	d := newDraw(r.scenario.seed, uint64(o.run), "close", o.host.id, o.lease.Token)
	return d.chance(0.7)
}
