package changefeed

import (
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// leaseWriter keeps a lease's document while the worker works: it renews it, moves its
// position, and puts it back when somebody deleted it. A renewal and a checkpoint
// are one write, so a checkpoint puts the next renewal off, and a renewal carries
// whatever position is due at no extra request.
//
// One write is under way at a time. While the outcome of a write is unknown the
// same write is sent again, with the same ETag and position: either it arrives, or
// a conflict shows that an earlier attempt did. A newer position waits.
type leaseWriter struct {
	w     *worker
	calls *caller

	// doc is the document as last answered. Its continuation is the durable
	// position, its ETag the condition of the next write.
	doc      lease.Lease
	progress progress
	// sent is the mark in the last write sent.
	sent mark
	// bound is the time before which changes are not delivered; zero: there is none. It is
	// written with each position, because the position alone would forget it.
	bound time.Time
	// inDoubt: the outcome of the last write is unknown. vanished: the store
	// answered that there is no document. again: a conflict was recognised as
	// ours; the write is made again at once.
	inDoubt, vanished, again bool

	renewAt    time.Duration
	notBefore  time.Duration
	retryDelay backoff
	// denial are the pauses while the store answers that there is no document, and that
	// there is one when it is to be put back.
	denial backoff
	jitter jitter

	// anchored: the store, or the configuration, has a position to read again
	// from. It hasn't while a "now" was not stored as a continuation.
	anchored bool
	// unsaved are the batches handled whose position the store doesn't have,
	// changes how many changes they hold, since when the position was written last.
	unsaved []handledBatch
	changes int
	since   time.Duration
	// asks are the user's checkpoints that wait for their position.
	asks []*checkpointAsk
}

func newLeaseWriter(w *worker, l lease.Lease, attempt lease.Reading) leaseWriter {
	lw := leaseWriter{
		w: w, calls: newCaller(), doc: l, progress: newProgress(l.Continuation), bound: l.Bound(),
		retryDelay: w.writeBackoff(l, "write"),
		jitter:     newJitter(w.seed, l.ID, "renew"),
		since:      w.now.Mono,
		anchored:   l.Start(w.cfg.Start).Kind() != feed.StartNow,
	}
	lw.sent, lw.denial = lw.progress.durable, w.writeBackoff(l, "put back")
	lw.renewed(attempt.Mono)
	return lw
}

// bind makes the start time that the source refused the bound, where it is the user's.
// The time of a healed lease comes from the clock of the lease store, and a change must
// not be dropped because that clock is ahead.
func (lw *leaseWriter) bind(refused time.Time) {
	if refused.Equal(lw.w.cfg.Start.Time()) {
		lw.bound = refused
	}
	lw.w.cfg.Logger.Warn("start time refused by the source; reading on without it", "processor", lw.w.cfg.Processor,
		"instance", lw.w.owner, "lease", lw.doc.Token, "start", refused, "bounded", !lw.bound.IsZero())
}

// document returns the document as last answered, with the bound. A conflict may have
// shown one that was written before there was a bound.
func (lw *leaseWriter) document() lease.Lease {
	if lw.bound.IsZero() {
		return lw.doc
	}
	return lw.doc.Bounded(lw.bound)
}

// renewed sets the next renewal.
func (lw *leaseWriter) renewed(attempt time.Duration) {
	const spread = 0.1
	lw.renewAt = attempt + lw.jitter.less(lw.w.cfg.RenewInterval, spread)
}

// step writes the document when a write is due.
func (lw *leaseWriter) step() {
	w := lw.w
	if lw.calls.busy || !w.trust.holds(w.now) {
		return
	}
	if !lw.inDoubt && !lw.vanished && !lw.again && !w.claim.due() && !lw.positionDue() && w.now.Mono < lw.renewAt {
		w.wake(lw.renewAt)
		return
	}
	if w.now.Mono < lw.notBefore {
		w.wake(lw.notBefore)
		return
	}
	lw.write()
}

// write sends the document with the position that is due.
func (lw *leaseWriter) write() {
	w, attempt := lw.w, lw.w.now
	at, doc := lw.progress.due, lw.document()
	switch {
	case lw.vanished || w.split.cutting():
		// What is put back is the document as it was; and children that are being
		// made take over the position that the gone lease keeps.
		at = lw.progress.durable
	case lw.inDoubt:
		at = lw.sent
	}
	send, op := w.store.Update, "renew "+doc.Token
	if lw.vanished {
		doc, send, op = doc.PutBack(), w.store.Create, "put back "+doc.Token
	}
	doc = doc.At(at.at)
	doc.Timestamp = attempt.Wall.UTC()
	lw.sent, lw.again = at, false
	lw.calls.start(func() func() {
		ctx, cancel := w.request(w.base)
		defer cancel()
		answer, err := send(ctx, doc)
		return func() { lw.answered(op, attempt, at, answer, err) }
	})
}

// answered takes the answer to a write.
func (lw *leaseWriter) answered(op string, attempt lease.Reading, at mark, doc lease.Lease, err error) {
	w := lw.w
	if !w.trust.holds(w.now) {
		return // lapsed is lost: a late success is ignored
	}
	o, current := judge(err, w.owner, lw.progress.durable.at, at.at)
	switch o {
	case applied:
		lw.doc = doc
		w.trust.renewed(attempt, w.now)
		lw.renewed(attempt.Mono)
		w.claim.renewed(attempt)
		lw.markDurable(at)
		lw.denial.done()
	case mine:
		denied := lw.vanished && !lw.inDoubt
		lw.doc, lw.again = current, true
		if current.Continuation != at.at {
			at = lw.progress.durable
		}
		lw.markDurable(at)
		if denied { // to write at once would go on without end
			w.fail(lw.doc.Token, &LeaseStoreError{Op: op, Err: errDenied})
			lw.notBefore = w.now.Mono + lw.denial.after(nil)
		}
	case moved, taken:
		w.ending.lose()
	case absent:
		if w.claim.waiting {
			w.ending.lose() // its victim may be making it anew
			return
		}
		lw.vanished, lw.inDoubt, lw.notBefore = true, false, 0
	case refused:
		lw.failed(op, err)
	case unknown:
		lw.inDoubt = true
		lw.failed(op, err)
	}
}

// failed puts the next attempt off.
func (lw *leaseWriter) failed(op string, err error) {
	lw.w.fail(lw.doc.Token, &LeaseStoreError{Op: op, Err: err})
	lw.notBefore = lw.w.now.Mono + lw.retryDelay.after(err)
}

// requested reports whether another host asks for the lease. A request shows in a
// conflict, and stays in the document until somebody acquires it.
func (lw *leaseWriter) requested() bool {
	mark := lw.doc.Wanted()
	return mark != "" && mark != lw.w.owner
}

// settled reports whether the document is known: no write is under way, and none
// in doubt.
func (lw *leaseWriter) settled() bool { return !lw.calls.busy && !lw.inDoubt && !lw.vanished }

// outcome is what the answer to a write of a lease document means to the host
// that sent it.
//
//	answer                     outcome      what the owner of the lease does
//	success                    applied      takes the ETag; trust from the attempt's start; position durable
//	conflict, I own it, at     mine         an earlier attempt of mine, or a request: takes the document, writes
//	  a position I sent                     again at once, and hands over when it is marked
//	conflict, I own it, at     moved        somebody edited the position: stops, writes nothing, lets it expire
//	  another position
//	conflict, otherwise        taken        lost: stops, writes nothing
//	not found                  absent       deleted: puts it back, while trusted
//	throttled                  refused      not applied: again after retry-after; the lease is kept
//	anything else              unknown      the same write again, same ETag and position, while trusted
//
// A create that finds the document existing, and a delete that finds none, are
// done. A release is sent again for mine and unknown, and done otherwise.
type outcome int

const (
	applied outcome = iota
	mine
	moved
	taken
	absent
	refused
	unknown
)

// judge tells the outcome of a write that was answered with err. For mine,
// current is the document as it is now. acked and sent are the last position
// acknowledged and the last one sent.
func judge(err error, owner string, acked, sent feed.Continuation) (o outcome, current lease.Lease) {
	if err == nil {
		return applied, current
	}
	if conflict, ok := errors.AsType[*lease.ConflictError](err); ok {
		switch lease.Judge(conflict.Current, owner, acked, sent) {
		case lease.Mine:
			return mine, conflict.Current
		case lease.Moved:
			return moved, conflict.Current
		case lease.Lost:
		}
		return taken, conflict.Current
	}
	if errors.Is(err, feed.ErrNotFound) {
		return absent, current
	}
	if _, ok := errors.AsType[*feed.ThrottledError](err); ok {
		return refused, current
	}
	return unknown, current
}
