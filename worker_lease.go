package changefeed

import (
	"context"
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
	w    *worker
	calls *caller

	// doc is the document as last answered. Its continuation is the durable
	// position, its ETag the condition of the next write.
	doc    lease.Lease
	progress progress
	// sent is the place in the last write sent.
	sent mark
	// bound is the time before which changes are not delivered; zero: there is none. It is
	// written with each position, because the position alone would forget it.
	bound time.Time
	// inDoubt: the outcome of the last write is unknown. vanished: the store
	// answered that there is no document. again: a conflict was recognised as
	// ours; the write is made again at once.
	inDoubt, vanished, again bool

	renewAt   time.Duration
	notBefore time.Duration
	retryDelay     backoff
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

type handledBatch struct {
	page    int64
	changes int
}

func newLeaseWriter(w *worker, l lease.Lease, attempt lease.Reading) leaseWriter {
	k := leaseWriter{
		w: w, calls: newCaller(), doc: l, progress: newProgress(l.Continuation), bound: l.Bound(),
		retryDelay:    w.writeBackoff(l, "write"),
		jitter:   newJitter(w.seed, l.ID, "renew"),
		since:    w.now.Mono,
		anchored: l.Start(w.cfg.Start).Kind() != feed.StartNow,
	}
	k.sent, k.denial = k.progress.durable, w.writeBackoff(l, "put back")
	k.renewed(attempt.Mono)
	return k
}

// bind makes the start time that the source refused the bound, where it is the user's.
// The time of a healed lease comes from the clock of the lease store, and a change must
// not be dropped because that clock is ahead.
func (k *leaseWriter) bind(refused time.Time) {
	if refused.Equal(k.w.cfg.Start.Time()) {
		k.bound = refused
	}
	k.w.cfg.Logger.Warn("start time refused by the source; reading on without it", "processor", k.w.cfg.Processor,
		"instance", k.w.owner, "lease", k.doc.Token, "start", refused, "bounded", !k.bound.IsZero())
}

// document returns the document as last answered, with the bound. A conflict may have
// shown one that was written before there was a bound.
func (k *leaseWriter) document() lease.Lease {
	if k.bound.IsZero() {
		return k.doc
	}
	return k.doc.Bounded(k.bound)
}

// renewed sets the next renewal.
func (k *leaseWriter) renewed(attempt time.Duration) {
	const spread = 0.1
	k.renewAt = attempt + k.jitter.less(k.w.cfg.RenewInterval, spread)
}

// handled says that the handler returned nil for a batch, which acknowledges it.
func (k *leaseWriter) handled(at mark, changes int) {
	k.progress.acknowledge(at)
	k.unsaved = append(k.unsaved, handledBatch{at.page, changes})
	k.changes += changes
}

// step writes the document when a write is due.
func (k *leaseWriter) step() {
	w := k.w
	if k.calls.busy || !w.trust.holds(w.now) {
		return
	}
	if !k.inDoubt && !k.vanished && !k.again && !w.claim.due() && !k.positionDue() && w.now.Mono < k.renewAt {
		w.wake(k.renewAt)
		return
	}
	if w.now.Mono < k.notBefore {
		w.wake(k.notBefore)
		return
	}
	k.write()
}

// positionDue reports whether the due position is to be written now, and not just
// to be carried by the next renewal.
func (k *leaseWriter) positionDue() bool {
	w, every := k.w, k.w.cfg.Checkpoint
	switch {
	case !k.progress.behind() || w.split.cutting():
		return false
	case !k.anchored || w.split.gone || len(k.asks) > 0:
		return true
	case len(k.unsaved) == 0:
		return false // nothing but idle pages, or manual
	case every.everyBatch() || every.Changes > 0 && k.changes >= every.Changes:
		return true
	case every.Interval > 0:
		if w.now.Mono >= k.since+every.Interval {
			return true
		}
		w.wake(k.since + every.Interval)
	}
	return false
}

// write sends the document with the position that is due.
func (k *leaseWriter) write() {
	w, attempt := k.w, k.w.now
	at, doc := k.progress.due, k.document()
	switch {
	case k.vanished || w.split.cutting():
		// What is put back is the document as it was; and children that are being
		// made take over the position that the gone lease keeps.
		at = k.progress.durable
	case k.inDoubt:
		at = k.sent
	}
	send, op := w.store.Update, "renew "+doc.Token
	if k.vanished {
		doc, send, op = doc.PutBack(), w.store.Create, "put back "+doc.Token
	}
	doc = doc.At(at.at)
	doc.Timestamp = attempt.Wall.UTC()
	k.sent, k.again = at, false
	k.calls.start(func() func() {
		ctx, cancel := w.request(w.base)
		defer cancel()
		answer, err := send(ctx, doc)
		return func() { k.answered(op, attempt, at, answer, err) }
	})
}

// answered takes the answer to a write.
func (k *leaseWriter) answered(op string, attempt lease.Reading, at mark, doc lease.Lease, err error) {
	w := k.w
	if !w.trust.holds(w.now) {
		return // lapsed is lost: a late success is ignored
	}
	o, current := judge(err, w.owner, k.progress.durable.at, at.at)
	switch o {
	case applied:
		k.doc = doc
		w.trust.renewed(attempt, w.now)
		k.renewed(attempt.Mono)
		w.claim.renewed(attempt)
		k.markDurable(at)
		k.denial.done()
	case mine:
		denied := k.vanished && !k.inDoubt
		k.doc, k.again = current, true
		if current.Continuation != at.at {
			at = k.progress.durable
		}
		k.markDurable(at)
		if denied { // to write at once would go on without end
			w.fail(k.doc.Token, &LeaseStoreError{Op: op, Err: errDenied})
			k.notBefore = w.now.Mono + k.denial.after(nil)
		}
	case moved, taken:
		w.ending.lose()
	case absent:
		if w.claim.waiting {
			w.ending.lose() // its victim may be making it anew
			return
		}
		k.vanished, k.inDoubt, k.notBefore = true, false, 0
	case refused:
		k.failed(op, err)
	case unknown:
		k.inDoubt = true
		k.failed(op, err)
	}
}

// failed puts the next attempt off.
func (k *leaseWriter) failed(op string, err error) {
	k.w.fail(k.doc.Token, &LeaseStoreError{Op: op, Err: err})
	k.notBefore = k.w.now.Mono + k.retryDelay.after(err)
}

// markDurable says that the store is markDurable to have a position.
func (k *leaseWriter) markDurable(at mark) {
	if at.page > k.progress.durable.page {
		k.since = k.w.now.Mono
	}
	k.stored(at)
	k.anchored = k.anchored || at.at != ""
	for len(k.unsaved) > 0 && k.unsaved[0].page <= at.page {
		k.changes -= k.unsaved[0].changes
		k.unsaved = k.unsaved[1:]
	}
	k.inDoubt, k.vanished, k.notBefore = false, false, 0
	k.retryDelay.done()
	rest := k.asks[:0]
	for _, ask := range k.asks {
		if ask.at.page > k.progress.durable.page {
			rest = append(rest, ask)
			continue
		}
		ask.reply <- nil
	}
	clear(k.asks[len(rest):])
	k.asks = rest
}

// stored says that the store has a position.
func (k *leaseWriter) stored(at mark) {
	if at.page > k.progress.durable.page && at.at != k.progress.durable.at {
		k.w.metrics.checkpointed()
	}
	k.progress.stored(at)
}

// requested reports whether another host asks for the lease. A mark shows in a
// conflict, and stays in the document until somebody acquires it.
func (k *leaseWriter) requested() bool {
	mark := k.doc.Wanted()
	return mark != "" && mark != k.w.owner
}

// settled reports whether the document is known: no write is under way, and none
// in doubt.
func (k *leaseWriter) settled() bool { return !k.calls.busy && !k.inDoubt && !k.vanished }

// checkpointAsk is a user's wish to have a position made durable.
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
func (k *leaseWriter) asked(ask *checkpointAsk) {
	if ask.at.page <= k.progress.durable.page {
		ask.reply <- nil
		return
	}
	if !k.w.trust.holds(k.w.now) {
		ask.reply <- lease.ErrLost
		return
	}
	if !k.w.split.cutting() {
		k.progress.acknowledge(ask.at)
	}
	k.asks = append(k.asks, ask)
}

// settle answers what still waits when the worker is over.
func (k *leaseWriter) settle() {
	for _, ask := range k.asks {
		if ask.at.page <= k.progress.durable.page {
			ask.reply <- nil
		} else {
			ask.reply <- lease.ErrLost
		}
	}
	k.asks = nil
}
