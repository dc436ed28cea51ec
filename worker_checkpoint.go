package changefeed

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// mark is a position together with the number of the page that ends there.
// Positions are opaque; the numbers tell which of two is the later one. The
// position that the lease had when it was acquired is number 0.
type mark struct {
	page int64
	at   feed.Continuation
}

// progress knows how far a lease may be moved. It moves only over what was
// acknowledged: batches for which the handler returned nil, with manual
// checkpoints those that the user checkpointed, and pages that held nothing to
// hand out (empty ones, or filtered ones) as long as nothing before them is
// unacknowledged.
//
// The invariant that everything rests on: due never lies behind a change that was
// handed out and not acknowledged, nor behind one that was not handed out.
type progress struct {
	// due is the position that the lease may have, durable the one that the store
	// has. due is never the earlier one.
	due, durable mark
	// handed is the last page handed out, acked the last one acknowledged.
	handed, acked int64
	// idle is the last page with nothing to hand out, when it could not become due
	// at once.
	idle mark
}

// newProgress starts from the position that the document has.
func newProgress(durable feed.Continuation) progress {
	at := mark{at: durable}
	return progress{due: at, durable: at}
}

// handedOut says that a page went to the handler, which returned.
func (p *progress) handedOut(page int64) { p.handed = max(p.handed, page) }

// acknowledge says that everything up to a mark is done with. An older mark
// after a newer one changes nothing.
func (p *progress) acknowledge(at mark) {
	if at.page <= p.acked {
		return
	}
	p.acked = at.page
	if at.page > p.due.page {
		p.due = at
	}
	if p.idle.page > p.due.page && p.acked >= p.handed {
		p.due = p.idle
	}
}

// pass says that the page that ends at a mark held nothing to hand out.
func (p *progress) pass(at mark) {
	if p.acked >= p.handed {
		p.due = at
		return
	}
	p.idle = at
}

// stored says that the store has the position.
func (p *progress) stored(at mark) {
	if at.page > p.durable.page {
		p.durable = at
	}
}

// behind reports whether the store's position is an older one than the due one.
func (p *progress) behind() bool { return p.durable.page < p.due.page }

// handledBatch is a batch whose position is not durable yet.
type handledBatch struct {
	page    int64
	changes int
}

// handled acknowledges a batch for which the handler returned nil.
func (lw *leaseWriter) handled(at mark, changes int) {
	lw.progress.acknowledge(at)
	lw.unsaved = append(lw.unsaved, handledBatch{at.page, changes})
	lw.changes += changes
}

// positionDue reports whether the due position is to be written now, and not just
// to be carried by the next renewal.
func (lw *leaseWriter) positionDue() bool {
	w, every := lw.w, lw.w.cfg.Checkpoint
	switch {
	case !lw.progress.behind() || w.split.cutting():
		return false
	case !lw.anchored || w.split.gone || len(lw.asks) > 0:
		return true
	case len(lw.unsaved) == 0:
		return false // nothing but idle pages, or manual
	case every.everyBatch() || every.Changes > 0 && lw.changes >= every.Changes:
		return true
	case every.Interval > 0:
		if w.now.Mono >= lw.since+every.Interval {
			return true
		}
		w.wake(lw.since + every.Interval)
	}
	return false
}

// markDurable records that the store has a position, and answers the checkpoints that waited for it.
func (lw *leaseWriter) markDurable(at mark) {
	if at.page > lw.progress.durable.page {
		lw.since = lw.w.now.Mono
	}
	lw.stored(at)
	lw.anchored = lw.anchored || at.at != ""
	for len(lw.unsaved) > 0 && lw.unsaved[0].page <= at.page {
		lw.changes -= lw.unsaved[0].changes
		lw.unsaved = lw.unsaved[1:]
	}
	lw.inDoubt, lw.vanished, lw.notBefore = false, false, 0
	lw.retryDelay.done()
	rest := lw.asks[:0]
	for _, ask := range lw.asks {
		if ask.at.page > lw.progress.durable.page {
			rest = append(rest, ask)
			continue
		}
		ask.reply <- nil
	}
	clear(lw.asks[len(rest):])
	lw.asks = rest
}

// stored counts a checkpoint when the stored position moves.
func (lw *leaseWriter) stored(at mark) {
	if at.page > lw.progress.durable.page && at.at != lw.progress.durable.at {
		lw.w.metrics.checkpointed()
	}
	lw.progress.stored(at)
}

// checkpointAsk is a request of the user for a checkpoint.
type checkpointAsk struct {
	at    mark
	reply chan error // of capacity 1
}

// checkpoint asks the worker to make a position durable, and waits. It is called
// from the user's goroutines.
func (w *worker) checkpoint(ctx context.Context, at mark) error {
	ask := &checkpointAsk{at: at, reply: make(chan error, 1)}
	select {
	case w.asks <- ask:
	case <-w.done:
		return w.afterwards(at)
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-ask.reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// afterwards answers a checkpoint that comes when the worker is over.
func (w *worker) afterwards(at mark) error {
	if at.page <= w.finished {
		return nil
	}
	return lease.ErrLost
}

// asked takes a user's checkpoint. While children of a gone lease are being made,
// and after trust ended, the position can't move any more; the ask is answered in
// the end.
func (lw *leaseWriter) asked(ask *checkpointAsk) {
	if ask.at.page <= lw.progress.durable.page {
		ask.reply <- nil
		return
	}
	if !lw.w.trust.holds(lw.w.now) {
		ask.reply <- lease.ErrLost
		return
	}
	if !lw.w.split.cutting() {
		lw.progress.acknowledge(ask.at)
	}
	lw.asks = append(lw.asks, ask)
}

// settle answers what still waits when the worker is over.
func (lw *leaseWriter) settle() {
	for _, ask := range lw.asks {
		if ask.at.page <= lw.progress.durable.page {
			ask.reply <- nil
		} else {
			ask.reply <- lease.ErrLost
		}
	}
	lw.asks = nil
}
