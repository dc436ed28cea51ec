package changefeed

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// leaseWriter writes a lease's document while the worker works. It renews the lease,
// moves its position, and puts the document back if it was deleted. A renewal and a
// checkpoint are one write. So a checkpoint delays the next renewal, and a renewal writes
// the due position at no extra request.
//
// One write is under way at a time. While its outcome is unknown, the same write is
// repeated with the same ETag and position. Either it succeeds, or a conflict shows that
// an earlier attempt did. A newer position waits.
type leaseWriter struct {
	w     *worker
	calls *caller

	// doc is the document as the store last returned it. Its continuation is the durable
	// position, and its ETag is the condition of the next write.
	doc      lease.Lease
	progress progress
	// sent is the page position that the last write contained.
	sent pagePosition
	// bound is the time before which changes are not delivered. If zero, there is no
	// bound. Every write stores it beside the position, because the position does not
	// contain it.
	bound time.Time
	// stop is set while the lease is stopped. Every write stores it.
	stop protocol.Stop
	// inDoubt reports whether the outcome of the last write is unknown. vanished reports
	// whether the store found no document. again reports whether the next write follows at
	// once, because a conflict has shown that an earlier write of this host was applied, or
	// because a stopped lease is about to be replaced.
	inDoubt, vanished, again bool

	// attempts is the number of writes since the last one that succeeded. unsettled has the
	// spans that the next checkpoint belongs to.
	attempts  int
	unsettled unsettled

	renewAt    time.Duration
	notBefore  time.Duration
	retryDelay backoff
	// denial is the delay between attempts while the store contradicts itself: an update
	// finds no document, but a create finds one.
	denial backoff
	jitter jitter

	// anchored reports whether a reader can repeat the reads of this worker: the store or
	// the configuration has their start. It is false until a start at "now" was stored as
	// a continuation.
	anchored bool
	// since is the time at which a position was last stored.
	since time.Duration
	// asks holds the user's calls of Batch.Checkpoint that wait for their position to be
	// stored.
	asks []*checkpointAsk
}

func newLeaseWriter(w *worker, l lease.Lease, attempt protocol.Reading) leaseWriter {
	lw := leaseWriter{
		w: w, calls: newCaller(), doc: l, progress: newProgress(l.Continuation), bound: protocol.Bound(l), stop: protocol.StopOf(l),
		retryDelay: w.writeBackoff(l, "write"),
		jitter:     newJitter(w.seed, l.ID, "renew"),
		since:      w.now.Mono,
		anchored:   l.Start(w.cfg.Start).Kind() != feed.StartNow,
	}
	lw.sent, lw.denial = lw.progress.durable, w.writeBackoff(l, "put back")
	lw.renewed(attempt.Mono)
	return lw
}

// bind sets the bound to the start time that the source refused, if that is the
// configured start. A lease that was recreated after a loss starts at a time of the lease
// store's clock. That clock may be fast, so that time does not become a bound, and no
// change is dropped.
func (lw *leaseWriter) bind(refused time.Time) {
	if refused.Equal(lw.w.cfg.Start.Time()) {
		lw.bound = refused
	}
	lw.w.cfg.Logger.Warn("start time refused by the source; reading on without it", "processor", lw.w.cfg.Processor,
		"instance", lw.w.owner, "lease", lw.doc.Token, "start", refused, "bounded", !lw.bound.IsZero())
}

// document returns doc with the bound and the stop. doc may lack them, because a conflict has
// returned a document that was written before.
func (lw *leaseWriter) document() lease.Lease {
	doc := lw.w.sign(protocol.Stopped(lw.doc, lw.stop))
	if lw.bound.IsZero() {
		return doc
	}
	return protocol.Bounded(doc, lw.bound)
}

// stopDue reports whether the stop of the lease is not stored yet. It is written at once,
// so that another owner, if there is one soon, does not call the handler.
func (lw *leaseWriter) stopDue() bool {
	return !lw.stop.IsZero() && !lw.stop.EndedBy(lw.doc) && protocol.StopOf(lw.doc).IsZero()
}

// renewed sets renewAt, the time of the next renewal, after a write that was sent at
// attempt.
func (lw *leaseWriter) renewed(attempt time.Duration) {
	const spread = 0.1
	lw.renewAt = attempt + lw.jitter.less(lw.w.cfg.RenewInterval, spread)
}

// step sends a write of the document if one is due. Otherwise it sets the worker's timer.
func (lw *leaseWriter) step() {
	w := lw.w
	if lw.calls.busy || !w.trust.holds(w.now) {
		return
	}
	if !lw.inDoubt && !lw.vanished && !lw.again && !w.confirmDue() && !lw.positionDue() && !lw.stopDue() && !w.answers(lw.doc) && w.now.Mono < lw.renewAt {
		w.wake(lw.renewAt)
		return
	}
	if w.now.Mono < lw.notBefore {
		w.wake(lw.notBefore)
		return
	}
	lw.write()
}

// write sends the document with the due position.
func (lw *leaseWriter) write() {
	w, attempt := lw.w, lw.w.now
	at, doc := lw.progress.due, lw.document()
	switch {
	case lw.vanished: // a deleted document is put back with its last position
		at = lw.progress.durable
	case lw.inDoubt:
		at = lw.sent
	}
	send, op := w.store.Update, "renew "+doc.Token
	if lw.vanished {
		doc, send, op = protocol.PutBack(doc), w.store.Create, "put back "+doc.Token
	}
	doc = protocol.At(doc, at.at)
	doc.Timestamp = attempt.Wall.UTC()
	lw.sent, lw.again = at, false
	lw.attempts++
	send = lw.traced(at, send)
	lw.calls.start(func() func() {
		ctx, cancel := w.requestContext(w.base)
		defer cancel()
		answer, err := send(ctx, doc)
		return func() { lw.answered(op, attempt, at, answer, err) }
	})
}

// answered handles the answer doc and err to the write op, which was sent at attempt with
// the position at.
func (lw *leaseWriter) answered(op string, attempt protocol.Reading, at pagePosition, doc lease.Lease, err error) {
	w := lw.w
	if !w.trust.holds(w.now) {
		return // trust that has ended does not come back, so a late success is ignored
	}
	o, current := protocol.Judge(err, w.owner, lw.progress.durable.at, at.at)
	switch o {
	case protocol.Applied:
		if !w.trust.renewed(attempt, w.now) {
			return
		}
		lw.doc = doc
		lw.renewed(attempt.Mono)
		w.confirm(attempt)
		lw.setDurable(at)
		lw.denial.done()
	case protocol.Mine:
		denied := lw.vanished && !lw.inDoubt
		lw.doc, lw.again = current, true
		if current.Continuation != at.at {
			at = lw.progress.durable
		}
		lw.setDurable(at)
		if denied { // writing again at once would loop without end
			w.fail(w.token, &LeaseStoreError{Op: op, Err: errDenied})
			lw.notBefore = w.now.Mono + lw.denial.after(nil)
		}
	case protocol.Moved, protocol.Lost:
		w.lose()
	case protocol.Absent:
		if w.phase == phaseClaiming || w.phase == phaseWithdrawn {
			w.lose() // the foreign host that lost the lease may be recreating it
			return
		}
		lw.vanished, lw.inDoubt, lw.notBefore = true, false, 0
	case protocol.Refused:
		lw.failed(op, err)
	case protocol.Unknown:
		lw.inDoubt = true
		lw.failed(op, err)
	}
}

// release releases the lease with its due position, or deletes it if it is gone. Then it calls
// answered with the verdict on the answer, and the error.
func (lw *leaseWriter) release(gone bool, answered func(protocol.Verdict, error)) {
	w, doc, at := lw.w, lw.doc, lw.progress.due
	released := protocol.Released(lw.document(), at.at)
	released.Timestamp = w.now.Wall.UTC()
	lw.attempts++
	update := lw.traced(at, w.store.Update)
	lw.calls.start(func() func() {
		ctx, cancel := w.requestContext(w.base)
		defer cancel()
		var err error
		if gone {
			err = w.store.Delete(ctx, doc)
		} else {
			_, err = update(ctx, released)
		}
		return func() {
			o, current := protocol.Judge(err, w.owner, lw.progress.durable.at, at.at)
			switch {
			case o == protocol.Applied && !gone:
				lw.stored(at)
			case o == protocol.Mine:
				lw.doc = current
			}
			answered(o, err)
		}
	})
}

// failed notifies the user of the error of the write op, and delays the next attempt.
func (lw *leaseWriter) failed(op string, err error) {
	lw.w.fail(lw.w.token, &LeaseStoreError{Op: op, Err: err})
	lw.notBefore = lw.w.now.Mono + lw.retryDelay.after(err)
}

// wanted reports whether another host wants the lease. The worker learns of it from a
// conflict, which returns the document. The lease stays wanted until a host acquires it.
func (lw *leaseWriter) wanted() bool {
	by := lw.doc.Wanted()
	return by != "" && by != lw.w.owner
}

// settled reports whether the worker knows the document in the store. No write is under
// way, no outcome is unknown, and the document was not deleted.
func (lw *leaseWriter) settled() bool { return !lw.calls.busy && !lw.inDoubt && !lw.vanished }
