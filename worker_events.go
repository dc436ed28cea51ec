package changefeed

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// No part of a worker sets another's fields. What one part finds out and another must know passes
// through the methods of this file, and so does what a part may ask. The deliverer alone uses others
// itself: it takes batches from the window and gives them back, and asks parking which of them become
// letters.

// gone starts the end of a partition that a read has found gone. If the lease is stopped, it
// is written first, because an operator may have resumed it since its last write. The
// conflict shows that, and then the children are not stopped.
func (w *worker) gone(err *feed.GoneError) {
	w.split.begin(err)
	w.writer.again = w.writer.again || !w.writer.stop.IsZero()
}

// startRefused passes a start time that the source has refused to the writer.
func (w *worker) startRefused(start time.Time) { w.writer.bind(start) }

// stillThere resumes the reads of a partition that was found gone and is listed
// nevertheless, with the delays of a failure.
func (w *worker) stillThere() {
	w.enter(phaseWorking)
	w.splitting.end()
	w.reader.notBefore = w.now.Mono + w.reader.retryDelay.after(nil)
}

// keyed reports whether each key has a lane of its own: because several calls of the handler may
// be under way at a time, or because a key that fails must not delay the others.
func (w *worker) keyed() bool { return w.keyReader != nil }

// pushed passes a page that was read, and the position after it, to the window and to the
// writer. A page without changes only moves the position of those before it.
func (w *worker) pushed(page feed.Page, at pagePosition, keys []changeKey) {
	if len(page.Changes) == 0 {
		w.writer.progress.pass(at)
		return
	}
	w.window.push(page, at, keys, w.writer.progress.open)
}

// windowFull reports whether no more may be read ahead of the handler.
func (w *worker) windowFull() bool {
	return w.window.full(w.writer.progress.uncovered + w.writer.progress.changes)
}

// roomInBatch returns how many more changes the last batch that waits may take, or 0 if there is
// none or several lanes have one.
func (w *worker) roomInBatch() int {
	if last := w.window.last(); last != nil {
		return last.room(w.cfg.MaxItems)
	}
	return 0
}

// mayHandOut reports whether a batch may be delivered for the first time.
func (w *worker) mayHandOut() bool { return w.writer.mayHandOut() }

// mayFinish reports whether a worker whose work ends may deliver what is left of the pages that
// have started.
func (w *worker) mayFinish() bool {
	return (w.phase == phaseGone || w.phase == phaseEnding) && w.trust.holds(w.now) &&
		w.now.Mono < w.ending.drained && w.leaseStop().IsZero()
}

// delivered records the outcome of a call of the handler with batch b.
func (w *worker) delivered(b *queuedBatch, o outcome) {
	w.writer.delivered(b, o)
	if o.handled > 0 {
		w.writer.settles(b.last, o.span)
	}
}

// waits records that a call of Batch.Checkpoint for batch b waits, checkpointed answers it, and
// goesOn records that the handler goes on without an answer.
func (w *worker) waits(b *queuedBatch)                       { w.window.lend(b) }
func (w *worker) goesOn(b *queuedBatch)                      { w.window.takeBack(b) }
func (w *worker) checkpointed(ask *checkpointAsk, err error) { w.deliver.answer(ask, err) }

// sign returns doc with what it is to say of its letters, and answers reports whether somebody
// waits for that.
func (w *worker) sign(doc lease.Lease) lease.Lease { return w.parking.sign(doc) }
func (w *worker) answers(doc lease.Lease) bool     { return w.parking.answers(doc) }

// findGaps refuses the calls of Batch.Checkpoint for which the position cannot be stored: an
// earlier batch has failed, or will not be delivered, because all calls under way wait for
// checkpoints themselves.
func (w *worker) findGaps() {
	if len(w.writer.asks) == 0 || !w.keyed() {
		return
	}
	first, second := w.window.failing()
	stuck := int64(never)
	if w.window.isIdle() && !w.writer.answersSoon() {
		stuck = w.window.waiting()
		if w.phase != phaseWorking || !w.leaseStop().IsZero() {
			stuck = 0
		}
	}
	if first != nil || stuck != int64(never) {
		w.writer.gaps(first, second, stuck)
		w.deliver.resume()
	}
}

// stopped stops the lease, for the reason err. attempt is the number of calls of the handler
// with the batch that stopped it, or 0 without one.
func (w *worker) stopped(err error, attempt int) {
	if !w.leaseStop().IsZero() {
		return // several calls at a time may stop it
	}
	w.writer.stop = protocol.Stop{At: w.now.Wall, Reason: err.Error()}
	w.notifyStopped(err, attempt)
}

// leaseStop returns the stop of the lease, which is zero if the lease is not stopped.
func (w *worker) leaseStop() protocol.Stop { return w.writer.stop }

// notifyStopped notifies the user that the lease is stopped.
func (w *worker) notifyStopped(err error, attempt int) {
	w.metrics.stops(1)
	w.notify(Notification{Event: Stopped, LeaseToken: w.token, Err: err, Attempt: attempt})
}

// mayDeliver reports whether the lease is not stopped. It notices that an operator has
// resumed it.
func (w *worker) mayDeliver() bool {
	if w.writer.stop.IsZero() {
		return true
	}
	if !w.writer.stop.EndedBy(w.writer.doc) {
		return false
	}
	w.writer.stop = protocol.Stop{}
	w.deliver.retryNow()
	w.window.retryNow()
	w.metrics.stops(-1)
	w.notify(Notification{Event: Resumed, LeaseToken: w.token})
	return true
}

// closeObserver starts the call of the observer's Close, and reports whether there is an
// observer to close.
func (w *worker) closeObserver() bool {
	if !w.deliver.opened || w.cfg.Handler != nil {
		return false
	}
	w.deliver.close(w.reason)
	return true
}

// handlerOp names the last call of the user's code.
func (w *worker) handlerOp() string { return w.deliver.op }

// release releases the lease, or deletes it if it is gone, and calls answered with the
// verdict.
func (w *worker) release(gone bool, answered func(protocol.Verdict, error)) {
	w.writer.release(gone, answered)
}

// stored returns the document with its durable position. ok is false while a later position
// is due, or the document in the store is not known.
func (w *worker) stored() (doc lease.Lease, at pagePosition, ok bool) {
	return w.writer.document(), w.writer.progress.durable, w.writer.settled() && !w.writer.again && !w.writer.progress.behind()
}

// movesBeyond reports whether the position that is due is later than at.
func (w *worker) movesBeyond(at pagePosition) bool { return w.writer.progress.due.page > at.page }

// ask makes requests to the source, with a context that ends with the work. The caller makes
// sure that none is under way.
func (w *worker) ask(call func(ctx context.Context) (then func())) {
	ctx := w.reader.ctx
	w.reader.calls.start(func() func() { return call(ctx) })
}

// send makes a request to the lease store that is not the writer's own. The caller makes sure
// that none is under way.
func (w *worker) send(call func() (then func())) { w.writer.calls.start(call) }

// requests reports whether a request is under way, and isIdle whether neither a request nor a
// call of the user's code is.
func (w *worker) requests() bool { return w.reader.calls.busy || w.writer.calls.busy }
func (w *worker) isIdle() bool   { return !w.requests() && w.deliver.calls == 0 }
