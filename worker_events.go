package changefeed

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// The parts of a worker do not know each other. What one part finds out and another must
// know passes through the methods of this file, and so does what a part may ask.

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

// nextBatch takes the next batch with changes from those that were read, if it may be
// delivered now. It passes over the pages without changes before it. It returns nil if there
// is no such batch.
func (w *worker) nextBatch() *queuedBatch {
	r, lw := &w.reader, &w.writer
	for len(r.queue) > 0 && (len(r.queue[0].Changes) == 0 || lw.mayHandOut()) {
		b := r.take()
		if len(b.Changes) > 0 {
			return b
		}
		lw.handled(b.pagePosition, 0)
	}
	return nil
}

// handled records that the handler is done with a batch of which it handled some changes.
// The filter may have hidden all of them.
func (w *worker) handled(b *queuedBatch) { w.writer.handled(b.pagePosition, b.handled) }

// stopped stops the lease, for the reason err. attempt is the number of calls of the handler
// with the batch that stopped it, or 0 without one.
func (w *worker) stopped(err error, attempt int) {
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
func (w *worker) isIdle() bool   { return !w.requests() && !w.deliver.calls.busy }
