package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/lease"
)

// elsewhere describes the checkpoint of a batch by another goroutine. It applies to
// manual checkpoints only.
type elsewhere struct {
	// variant is the feature that determines when the goroutine checkpoints the batch. If
	// it is empty, no other goroutine does.
	variant string
	// after is the time from the begin or the end of the handler's call to the
	// checkpoint. A goroutine that waits for an event does not wait longer than that.
	after time.Duration
	// joins reports whether the handler waits for the goroutine before it returns.
	joins bool
	// pile is the number of batches that are checkpointed together, out of order.
	pile int
}

// owed is a batch that another goroutine will checkpoint.
type owed struct {
	batch *changefeed.Batch
	// covers contains the handled batches up to this one that were not acknowledged yet.
	covers []*batch
}

func (b owed) lsn() int64 { return b.batch.Changes[len(b.batch.Changes)-1].LSN }

// duringCall starts a goroutine that checkpoints the batch while its handler runs. It
// returns a channel that is closed at the end of that goroutine. over is closed when the
// handler's call ends.
func (o *simObserver) duringCall(ctx context.Context, b owed, after time.Duration, over <-chan struct{}) <-chan struct{} {
	ended := make(chan struct{})
	o.world.pending.Go(func() {
		defer close(ended)
		o.later(b, after, nil)
		select {
		case <-over:
		default:
			if !o.host.crashed() {
				o.world.occurs(checkpointsDuringCall)
				o.decides(b.covers, delivery{vouched: true})
			}
		}
		_ = o.checkpoint(ctx, b)
	})
	return ended
}

// afterCall starts the goroutine that checkpoints the batch after its handler has
// returned.
func (o *simObserver) afterCall(ctx context.Context, b owed, does elsewhere) {
	w := o.world
	d := newDraw(w.seed, uint64(b.batch.Changes[0].LSN), "later", o.host.id, o.lease.Token)
	var event <-chan struct{}
	delay := d.span(1, 10*time.Millisecond)
	switch does.variant {
	case checkpointsDuringSplit:
		event = o.host.partitionsListed()
	case checkpointsAfterHandOver:
		event = w.moves(o.lease.Token)
		delay = d.span(1, w.times.acquire)
	case checkpointsOutOfOrder:
		o.outOfOrder(ctx, b, does, &d)
		return
	}
	w.pending.Go(func() {
		o.later(b, does.after, event)
		select {
		case <-event:
			o.later(b, delay, nil)
		default:
		}
		if o.host.crashed() {
			return
		}
		if o.happens(does) {
			w.occurs(does.variant)
		} else {
			w.occurs(lateCheckpoints)
		}
		_ = o.checkpoint(ctx, b)
	})
}

// later waits for d, or until an event, before another goroutine checkpoints a batch. event
// may be nil.
func (o *simObserver) later(b owed, d time.Duration, event <-chan struct{}) {
	name := fmt.Sprintf("checkpoint %s %d %d", o.lease.Token, o.run, b.lsn())
	o.world.instants.wait(event, nil, o.host.party, name, d)
}

// happens reports whether the event of the variant has happened for the lease.
func (o *simObserver) happens(does elsewhere) bool {
	switch does.variant {
	case checkpointsDuringSplit:
		return isGone(o.world.engine.partitions(), o.lease.PartitionID, o.lease.Range)
	case checkpointsAfterHandOver:
		owner := o.world.stored(o.lease.Token).Owner
		return owner != "" && owner != o.host.text()
	}
	return true
}

// outOfOrder adds the batch to a pile. When the pile is complete, a goroutine for each of
// its batches checkpoints that batch, in random order.
func (o *simObserver) outOfOrder(ctx context.Context, b owed, does elsewhere, d *draw) {
	o.pile = append(o.pile, b)
	if len(o.pile) < does.pile {
		return
	}
	pile := o.pile
	o.pile = nil
	for _, b := range pile {
		after := does.after + d.span(1, 20*time.Millisecond)
		o.world.pending.Go(func() {
			o.later(b, after, nil)
			if o.host.crashed() {
				return
			}
			if o.calledAfter(b.lsn()) {
				o.world.occurs(checkpointsOutOfOrder)
			}
			_ = o.checkpoint(ctx, b)
		})
	}
}

// checkpoint checkpoints the batch as a user would, and checks the result. A call that
// found the lease lost is repeated, because a second call must not report more.
func (o *simObserver) checkpoint(ctx context.Context, b owed) error {
	if o.host.crashed() {
		return errCrashed
	}
	o.decides(b.covers, delivery{acked: true})
	o.called.Store(max(o.called.Load(), b.lsn()))
	err := o.callCheckpoint(ctx, b)
	if errors.Is(err, lease.ErrLost) {
		err = o.callCheckpoint(ctx, b)
	}
	o.host.trace("checkpoint", o.lease.Token, outcome(err), b.lsn())
	return err
}

// callCheckpoint calls Batch.Checkpoint, and records it.
func (o *simObserver) callCheckpoint(ctx context.Context, b owed) error {
	f := &checkpoint{worker: o.fact, lsn: b.lsn()}
	o.world.ledger.add(f)
	err := b.batch.Checkpoint(context.WithoutCancel(ctx))
	o.world.ledger.end(f, func() { f.err = err })
	return err
}

// calledAfter reports whether the checkpoint of a later batch was called before.
func (o *simObserver) calledAfter(lsn int64) bool { return lsn < o.called.Load() }

// acknowledge checkpoints the batch in the handler. It then checkpoints an older batch,
// which must have no effect. A failed checkpoint does not fail the batch, because its
// changes were handled.
func (o *simObserver) acknowledge(ctx context.Context, b *changefeed.Batch) {
	newer := owed{batch: b, covers: o.handed}
	o.handed = nil
	if o.checkpoint(ctx, newer) == nil && o.older != nil {
		_ = o.checkpoint(ctx, owed{batch: o.older})
	}
	o.older = b
}

// acknowledgeAtClose checkpoints the last handled batch in the observer's Close.
func (o *simObserver) acknowledgeAtClose(ctx context.Context) {
	if o.last == nil || len(o.handed) == 0 {
		return
	}
	o.world.occurs(checkpointsAtClose)
	_ = o.checkpoint(ctx, owed{batch: o.last, covers: slices.Clone(o.handed)})
}
