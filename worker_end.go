package changefeed

import (
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
)

// ending stops a worker in this order:
//
//  1. No read and no new batch starts. The current batch may finish, and the lease is
//     renewed meanwhile. If the batch fails, it is not delivered again.
//  2. The observer is closed.
//  3. The outcome of the last write is determined.
//  4. Trust is given up.
//  5. The lease is released with its due position in one write. A gone lease is deleted
//     instead. A lost lease is not written, nor is a stolen lease that was not used yet.
//
// A handover waits for the handler without a limit. A stop waits for the drain timeout
// and then ends the handler's context. One request timeout later it leaves the lease to
// expire: while a handler runs, no other host may begin.
//
//	answer to the release   action
//	success                 none; the worker is over
//	mine                    sends the release again with the new ETag, until giveUp
//	unknown, throttled      repeats the same write, until giveUp
//	taken, absent, moved    none; the worker is over
type ending struct {
	w      *worker
	begun  bool
	reason Reason
	// stopping reports whether Run's context has ended. If so, drained is the time at
	// which the handler's context ends, and abandonAt the time at which the worker stops
	// waiting.
	stopping           bool
	drained, abandonAt time.Duration
	drainOver          bool

	// sending reports whether trust was given up. If so, the release or delete is
	// repeated until the time giveUp. That is one expiration later, or at abandonAt if
	// that is earlier.
	sending    bool
	giveUp     time.Duration
	over       bool
	notBefore  time.Duration
	retryDelay backoff

	// failure is the error of the last attempt to release or delete the lease. It is nil
	// if there was no attempt, or if another host has the lease.
	failure error
}

// begin starts the end of the work, for reason r. It has no effect if the end has begun;
// see lose.
func (e *ending) begin(r Reason) {
	if e.begun {
		return
	}
	e.begun, e.reason = true, r
	e.w.reading.end()
	e.w.splitting.end()
	e.w.reader.cancel()
}

// lose ends the work because the lease was lost. It replaces any earlier reason. Nothing
// is written to the lease after that.
//
// A handler may wait for its checkpoint, without regard to its context. The end waits for
// the handler, so lose answers the calls of Batch.Checkpoint at once.
func (e *ending) lose() {
	if e.sending {
		return
	}
	e.begin(Lost)
	e.reason = Lost
	e.w.trust.giveUp()
	e.w.writer.settle()
}

// observe starts the end of the work if Run's context has ended, trust has ended, or
// another host asks for the lease. No message reports these events, so each step checks
// them.
//
// A worker whose partition is gone ignores the request of another host and continues the
// split. If the partition turns out to exist, it hands the lease over then.
func (e *ending) observe() {
	w := e.w
	if !e.stopping && w.stop.Err() != nil {
		e.stopping = true
		e.drained = w.now.Mono + max(0, w.cfg.DrainTimeout)
		e.abandonAt = e.drained + w.cfg.RequestTimeout
		e.begin(Shutdown)
		if e.sending {
			e.giveUp = min(e.giveUp, e.abandonAt)
		}
	}
	if !e.sending && e.reason != Lost && !w.trust.holds(w.now) {
		e.lose()
	}
	if w.working() && w.writer.requested() {
		e.begin(HandedOver)
	}
	if w.trust.held {
		w.wake(w.trust.end())
	}
}

// step makes the next of the steps 1 to 5 that is possible now. It reports whether the
// worker is over.
func (e *ending) step() bool {
	w := e.w
	switch {
	case e.over:
		return true
	case !e.begun:
		return false
	case w.deliver.calls.busy:
		return e.drain()
	case w.deliver.opened && !w.deliver.closed:
		w.deliver.close(e.reason)
		return e.drain()
	case w.reader.calls.busy || w.writer.calls.busy:
		return false
	case e.reason == Lost, w.claim.waiting: // a claimed lease is not released; it expires
		return true
	case !w.writer.settled():
		return e.doubt()
	}
	if !e.sending {
		e.sending = true
		w.trust.giveUp()
		e.giveUp = w.now.Mono + w.terms.Expiration
		if e.stopping {
			e.giveUp = min(e.giveUp, e.abandonAt)
		}
	}
	if w.now.Mono < e.notBefore {
		w.wake(e.notBefore)
		return e.notBefore >= e.giveUp // a stop may begin during the delay and bring giveUp forward
	}
	e.send()
	return false
}

// drain ends the handler's context when the drain timeout of a stop is over. It reports
// whether the worker stops waiting for the handler, which happens one request timeout
// later.
func (e *ending) drain() bool {
	w := e.w
	if !e.stopping {
		return false
	}
	if !e.drainOver && w.now.Mono >= e.drained {
		e.drainOver = true
		w.trust.cancel(errDrained)
	}
	if w.now.Mono >= e.abandonAt && !w.reader.calls.busy && !w.writer.calls.busy {
		return true
	}
	switch {
	case !e.drainOver:
		w.wake(e.drained)
	case w.now.Mono < e.abandonAt:
		w.wake(e.abandonAt)
	}
	return false
}

// doubt reports whether a stop has waited long enough for the outcome of the last write.
// Until then, leaseWriter repeats that write.
func (e *ending) doubt() bool {
	if !e.stopping {
		return false
	}
	e.w.wake(e.abandonAt)
	return e.w.now.Mono >= e.abandonAt
}

// ended returns the reason for the end of the work. If the lease stays in the store under
// this host's owner text, the reason is Abandoned, and err is the error that prevented
// the release.
func (e *ending) ended() (r Reason, err error) {
	d := &e.w.deliver
	switch {
	case e.reason == Lost, e.w.claim.waiting:
		return e.reason, nil
	case d.calls.busy:
		return Abandoned, &HandlerError{Op: d.op, Err: errNotReturned}
	case !e.sending:
		return Abandoned, &LeaseStoreError{Op: e.op(), Err: errInDoubt}
	case e.failure != nil:
		return Abandoned, &LeaseStoreError{Op: e.op(), Err: e.failure}
	}
	return e.reason, nil
}

// op returns the name of the worker's last write, with the lease's token, for messages.
func (e *ending) op() string {
	if e.reason == Gone {
		return "delete gone lease " + e.w.token
	}
	return "release " + e.w.token
}

// send releases the lease, or deletes it if it is gone.
func (e *ending) send() {
	w, doc, at := e.w, e.w.writer.doc, e.w.writer.progress.due
	release := protocol.Released(w.writer.document(), at.at)
	release.Timestamp = w.now.Wall.UTC()
	w.writer.calls.start(func() func() {
		ctx, cancel := w.requestContext(w.base)
		defer cancel()
		var err error
		if e.reason == Gone {
			err = w.store.Delete(ctx, doc)
		} else {
			_, err = w.store.Update(ctx, release)
		}
		return func() { e.answered(at, err) }
	})
}

func (e *ending) answered(at mark, err error) {
	w := e.w
	lw := &w.writer
	o, current := protocol.Judge(err, w.owner, lw.progress.durable.at, at.at)
	e.failure = nil
	switch o {
	case protocol.Applied:
		if e.reason != Gone {
			lw.stored(at)
		}
		e.over = true
	case protocol.Mine:
		e.failure = err
		lw.doc = current
		e.notBefore = 0
		e.over = w.now.Mono >= e.giveUp
	case protocol.Moved:
		e.failure = err
		e.over = true
	case protocol.Lost, protocol.Absent:
		e.over = true
	case protocol.Refused, protocol.Unknown:
		e.failure = err
		w.fail(lw.doc.Token, &LeaseStoreError{Op: e.op(), Err: err})
		e.notBefore = w.now.Mono + e.retryDelay.after(err)
	}
}
