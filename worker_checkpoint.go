package changefeed

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// pagePosition is the position after a page, with the page's number. Positions are opaque, so
// only the numbers show which of two is later. Page 0 ends at the position at which
// the lease was acquired.
type pagePosition struct {
	page int64
	at   feed.Continuation
}

// progress records how far the position of a lease may move. It moves over acknowledged
// batches: those for which the handler returned nil, or with manual checkpoints those
// that the user checkpointed. It also moves over empty and filtered pages while no batch
// before them waits for its acknowledgement.
//
// Invariant: due is never after a change that was not delivered, or that was delivered
// and not acknowledged.
type progress struct {
	// due is the latest position that may be stored in the lease. durable is the position
	// that is stored. due is never before durable.
	due, durable pagePosition
	// handed is the number of the last page that was delivered. acked is the number of
	// the last page that was acknowledged.
	handed, acked int64
	// idle is the position after the last page without changes for the handler that waits for an
	// earlier page to be acknowledged.
	idle pagePosition
}

// newProgress returns the progress of a lease whose document has the position durable.
func newProgress(durable feed.Continuation) progress {
	at := pagePosition{at: durable}
	return progress{due: at, durable: at}
}

// handedOut records that page was delivered: the handler has returned.
func (p *progress) handedOut(page int64) { p.handed = max(p.handed, page) }

// acknowledge records that all changes before at were handled. It has no effect
// if a later one was acknowledged before.
func (p *progress) acknowledge(at pagePosition) {
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

// pass records a page that has no changes for the handler. at is the position after it.
func (p *progress) pass(at pagePosition) {
	if p.acked >= p.handed {
		p.due = at
		return
	}
	p.idle = at
}

// stored records that the lease store holds the position at.
func (p *progress) stored(at pagePosition) {
	if at.page > p.durable.page {
		p.durable = at
	}
}

// behind reports whether the position in the store is older than the due one.
func (p *progress) behind() bool { return p.durable.page < p.due.page }

// handledBatch is a batch that was handled and whose position is not stored yet. page is
// its number and changes its size.
type handledBatch struct {
	page    int64
	changes int
}

// handled records a batch for which the handler returned nil, or that has no changes for it.
// at is the position after it, and changes its size.
func (lw *leaseWriter) handled(at pagePosition, changes int) {
	if changes == 0 {
		lw.progress.pass(at)
		return
	}
	lw.progress.handedOut(at.page)
	if lw.w.cfg.Checkpoint.Manual {
		return
	}
	lw.progress.acknowledge(at)
	lw.unsaved = append(lw.unsaved, handledBatch{at.page, changes})
	lw.changes += changes
}

// mayHandOut reports whether the stored position is recent enough to deliver a batch; see
// the conditions at deliverer.
func (lw *leaseWriter) mayHandOut() bool {
	const most = 1
	return lw.anchored && (!lw.w.cfg.Checkpoint.everyBatch() || len(lw.unsaved) <= most)
}

// positionDue reports whether the due position must be written now. Otherwise the next
// renewal writes it.
func (lw *leaseWriter) positionDue() bool {
	w, every := lw.w, lw.w.cfg.Checkpoint
	switch {
	case !lw.progress.behind():
		return false
	case !lw.anchored || w.phase == phaseGone || len(lw.asks) > 0:
		return true
	case len(lw.unsaved) == 0:
		return false // the due position is after pages without changes only, or checkpoints are manual
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

// setDurable records that the lease store holds the position at. It answers the calls of
// Batch.Checkpoint that waited for that position.
func (lw *leaseWriter) setDurable(at pagePosition) {
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

// stored records the stored position in progress. If the position has moved, it counts a
// checkpoint in the metrics.
func (lw *leaseWriter) stored(at pagePosition) {
	if at.page > lw.progress.durable.page && at.at != lw.progress.durable.at {
		lw.w.metrics.checkpointed()
	}
	lw.progress.stored(at)
}

// checkpointAsk is a call of Batch.Checkpoint that waits until its position is stored.
type checkpointAsk struct {
	at    pagePosition
	reply chan error // receives the call's result; it has a capacity of 1
}

// checkpoint asks the worker to store the position at, and waits for the result. It is
// the body of Batch.Checkpoint, which the user may call on any goroutine.
func (w *worker) checkpoint(ctx context.Context, at pagePosition) error {
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

// afterwards returns the result of a checkpoint that is called after the worker has
// ended.
func (w *worker) afterwards(at pagePosition) error {
	if at.page <= w.finished {
		return nil
	}
	return lease.ErrLost
}

// asked handles a call of Batch.Checkpoint. It refuses the call if trust in the lease has
// ended. It also refuses the call if the position is fixed, because the children of a gone
// lease start there. The call must not wait for the end of the worker, which waits for the
// observer's Close, which may have made the call.
func (lw *leaseWriter) asked(ask *checkpointAsk, fixed bool) {
	if ask.at.page <= lw.progress.durable.page {
		ask.reply <- nil
		return
	}
	if !lw.w.trust.holds(lw.w.now) || fixed {
		ask.reply <- lease.ErrLost
		return
	}
	lw.progress.acknowledge(ask.at)
	lw.asks = append(lw.asks, ask)
}

// settle answers the waiting calls of Batch.Checkpoint when no position can be stored any
// more.
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
