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
	w *worker
	// drained is the time at which a stop ends the handler's context, and abandonAt the
	// time at which it leaves the lease to expire. Both are never until Run's context ends.
	drained, abandonAt time.Duration
	// expires is one expiration after trust was given up. The release or delete is repeated
	// until then, or until abandonAt if that is earlier.
	expires    time.Duration
	notBefore  time.Duration
	retryDelay backoff
	// failure is the error of the last attempt to release or delete the lease.
	failure error
}

// observe starts the end of the work if Run's context has ended, trust has ended, or
// another host wants the lease, as wanted reports. No message reports these events, so each step checks
// them.
//
// A worker whose partition is gone continues the split even if another host wants the lease.
// If the partition turns out to exist, it hands the lease over then.
func (e *ending) observe(wanted bool) {
	w := e.w
	if e.abandonAt == never && w.stop.Err() != nil {
		e.drained = w.now.Mono + max(0, w.cfg.DrainTimeout)
		e.abandonAt = e.drained + w.cfg.RequestTimeout
		w.end(Shutdown)
	}
	if !w.trust.holds(w.now) {
		w.lose()
	}
	if w.phase == phaseWorking && wanted {
		w.end(HandedOver)
	}
	if w.trust.held {
		w.wake(w.trust.end())
	}
}

// step makes the next of the steps 1 to 5 that is possible now. handles reports whether a call
// of the user's code is under way, and settled whether the outcome of every write is known.
func (e *ending) step(handles, settled bool) {
	w := e.w
	switch {
	case w.phase != phaseEnding && w.phase != phaseReleased:
	case handles:
		e.drain()
	case w.closeObserver():
		e.drain()
	case w.requests():
	case w.phase == phaseReleased:
		e.send()
	case w.reason == Lost:
		w.over(nil)
	case !settled:
		e.doubt()
	default:
		w.trust.giveUp()
		w.enter(phaseReleased)
		e.expires = w.now.Mono + w.terms.Expiration
		e.send()
	}
}

// drain ends the handler's context when the drain timeout of a stop is over. One request
// timeout later it stops waiting for the handler.
func (e *ending) drain() {
	w := e.w
	if w.now.Mono < e.drained {
		w.wake(e.drained)
		return
	}
	w.trust.cancel(errDrained)
	switch {
	case w.now.Mono < e.abandonAt:
		w.wake(e.abandonAt)
	case w.requests():
	case w.reason == Lost:
		w.over(nil)
	default:
		w.over(&HandlerError{Op: w.handlerOp(), Err: errNotReturned})
	}
}

// doubt ends the worker if a stop has waited long enough for the outcome of the last write.
// Until then, leaseWriter repeats that write.
func (e *ending) doubt() {
	e.w.wake(e.abandonAt)
	if e.w.now.Mono >= e.abandonAt {
		e.w.over(&LeaseStoreError{Op: e.op(), Err: errInDoubt})
	}
}

// giveUp returns the time after which the release or delete is not repeated.
func (e *ending) giveUp() time.Duration { return min(e.expires, e.abandonAt) }

// op returns the name of the worker's last write, with the lease's token, for messages.
func (e *ending) op() string {
	if e.w.reason == Gone {
		return "delete gone lease " + e.w.token
	}
	return "release " + e.w.token
}

// send releases the lease, or deletes it if it is gone.
func (e *ending) send() {
	w := e.w
	if w.now.Mono < e.notBefore {
		w.wake(e.notBefore)
		if e.notBefore >= e.giveUp() { // a stop may begin during the delay and bring giveUp forward
			w.over(e.failure)
		}
		return
	}
	w.release(w.reason == Gone, e.answered)
}

func (e *ending) answered(o protocol.Verdict, err error) {
	w := e.w
	e.failure = &LeaseStoreError{Op: e.op(), Err: err}
	switch o {
	case protocol.Mine:
		e.notBefore = 0
		if w.now.Mono >= e.giveUp() {
			w.over(e.failure)
		}
	case protocol.Moved:
		w.over(e.failure)
	case protocol.Applied, protocol.Lost, protocol.Absent:
		w.over(nil)
	case protocol.Refused, protocol.Unknown:
		w.fail(w.token, e.failure)
		e.notBefore = w.now.Mono + e.retryDelay.after(err)
	}
}
