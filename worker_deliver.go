package changefeed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// deliverer passes a lease's batches to its handler, one at a time and in order. If the
// handler fails, it gets the changes that failed again after a delay, until it returns nil.
// Later batches wait. All of the user's code for the lease (handler, observer, filter) runs on
// the deliverer's caller.
//
// A batch is delivered only under two conditions:
//   - The position to read it again from is durable. A start at the beginning or at a
//     time is, because the document or the configuration holds it. A start at "now" is
//     durable when the store has it as a continuation.
//   - With a checkpoint after every batch, at most one earlier batch has no durable
//     position yet. So a crash redelivers two batches at most, and the handler does not
//     wait for the checkpoint of the batch before.
type deliverer struct {
	w        *worker
	calls    *caller
	observer Observer
	// opened reports whether the observer may handle batches: Open has returned nil, and
	// Close has not returned. A plain handler needs neither.
	opened bool
	// op names the last call of the user's code, "open", "handle" or "close", for
	// messages.
	op string

	// hand is the batch that the handler works on, or that waits for a retry. It is nil if
	// there is none.
	hand       *queuedBatch
	notBefore  time.Duration
	retryDelay backoff
}

func newDeliverer(w *worker, l lease.Lease) deliverer {
	d := deliverer{w: w, calls: newCaller(), retryDelay: w.backoff(l, "handle")}
	d.retryDelay.first, d.retryDelay.most = w.cfg.Failure.Delay, w.cfg.Failure.MaxDelay
	if w.cfg.Handler != nil {
		d.observer, d.opened = plainObserver{w.cfg.Handler}, true
	}
	return d
}

// step creates the observer, opens it, or delivers the next batch, if that step may be made
// now. doc is the lease, and bound the time before which changes are not delivered.
func (d *deliverer) step(doc lease.Lease, bound time.Time) {
	w := d.w
	if d.calls.busy || w.phase != phaseWorking || !w.mayDeliver() {
		return
	}
	if d.opened && d.hand == nil {
		if d.hand = w.nextBatch(); d.hand == nil {
			return
		}
	}
	if w.now.Mono < d.notBefore {
		w.wake(d.notBefore)
		return
	}
	switch {
	case d.observer == nil:
		d.op = "open"
		d.create(doc)
	case !d.opened:
		d.op = "open"
		d.open(doc)
	default:
		d.handle(doc.Range, bound)
	}
}

// retryNow ends the delay before the next call.
func (d *deliverer) retryNow() {
	d.retryDelay.done()
	d.notBefore = 0
}

// create creates the observer. The next step opens it if the lease is still trusted.
func (d *deliverer) create(doc lease.Lease) {
	w := d.w
	d.calls.start(func() func() {
		var observer Observer
		err := callUser("open", nil, func() (err error) {
			if observer, err = w.cfg.Observer(doc); err == nil && observer == nil {
				err = errNoObserver
			}
			return err
		})
		return func() {
			if err != nil {
				d.returned(err, 0) // observer may be a nil pointer in an interface that is not nil
				return
			}
			d.observer = observer
		}
	})
}

// open calls the observer's Open.
func (d *deliverer) open(doc lease.Lease) {
	w, observer := d.w, d.observer
	d.calls.start(func() func() {
		err := callUser("open", nil, func() error { return observer.Open(w.trust.ctx, doc) })
		return func() {
			d.opened = err == nil
			d.returned(err, 0)
		}
	})
}

// handle calls the handler with the batch in hand.
func (d *deliverer) handle(keys feed.Range, bound time.Time) {
	w, b := d.w, d.hand
	batch := &Batch{
		LeaseToken: w.token, Range: keys, Mode: w.cfg.Mode, Attempt: b.attempts + 1,
		Charge: b.Charge, SessionToken: b.SessionToken, Diagnostics: b.Diagnostics,
		checkpoint: func(ctx context.Context) error { return w.checkpoint(ctx, b.pagePosition) },
	}
	observer := d.observer
	d.op = "handle"
	d.calls.start(func() func() {
		var err error
		handled := 0
		if w.cfg.Filter != nil || !bound.IsZero() {
			err = callUser("filter", b, func() error { w.applyFilter(b, bound); return nil })
		}
		if err == nil && len(b.Changes) > 0 {
			batch.Changes = b.Changes
			b.attempts++
			began := time.Now()
			err = callUser("handle", b, func() error { return observer.Handle(w.trust.ctx, batch) })
			took := time.Since(began)
			handled, err = b.settle(err)
			w.metrics.handled(len(batch.Changes), handled, took, b.attempts, err)
		}
		return func() { d.handled(b, handled, err) }
	})
}

// settle removes the changes that were handled by a call of the handler that returned err.
// It returns their number, and the error of the others, or nil if there are none.
func (b *queuedBatch) settle(err error) (handled int, _ error) {
	if err == nil {
		b.handled += len(b.Changes)
		return len(b.Changes), nil
	}
	failure, ok := errors.AsType[*HandlerError](err)
	if !ok || len(failure.failed) == len(b.Changes) {
		return 0, err
	}
	failed := failure.failed
	handled = len(b.Changes) - len(failed)
	b.handled += handled
	if len(failed) == 0 {
		return handled, nil
	}
	rest := make([]feed.Change, len(failed))
	for i, index := range failed {
		rest[i] = b.Changes[index]
	}
	b.Changes = rest
	return handled, err
}

// applyFilter removes the changes that are older than bound, in whole seconds, and those
// that Config.Filter rejects. It calls user code, so it runs on the deliverer's caller.
func (h *host) applyFilter(b *queuedBatch, bound time.Time) {
	if b.filtered {
		return
	}
	changes := b.Changes
	if !bound.IsZero() {
		changes = keep(changes, func(c feed.Change) bool { return !c.Time.Before(bound) })
	}
	if h.cfg.Filter != nil {
		changes = keep(changes, h.wants)
	}
	b.Changes, b.filtered = changes, true
}

// wants returns the result of Config.Filter for c. If the filter panics, wants adds the
// name of c's item to the panic.
func (h *host) wants(c feed.Change) bool {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case error:
			panic(fmt.Errorf("%s: %w", itemOf(&c), v))
		default:
			panic(fmt.Errorf("%s: %v", itemOf(&c), v))
		}
	}()
	return h.cfg.Filter(c)
}

// keep returns the changes for which wanted returns true. It never modifies changes, and
// returns the slice itself if all are wanted.
func keep(changes []feed.Change, wanted func(feed.Change) bool) []feed.Change {
	for i := range changes {
		if wanted(changes[i]) {
			continue
		}
		kept := append(make([]feed.Change, 0, len(changes)-1), changes[:i]...)
		for _, c := range changes[i+1:] {
			if wanted(c) {
				kept = append(kept, c)
			}
		}
		return kept
	}
	return changes
}

// handled handles the result err of the handler's call for batch b, which has handled some
// of its changes.
func (d *deliverer) handled(b *queuedBatch, handled int, err error) {
	if err != nil && handled > 0 {
		d.retryDelay.done()
	}
	d.returned(err, b.attempts)
	if err != nil {
		return
	}
	d.hand = nil
	d.w.handled(b)
}

// returned handles the result err of a call of user code that is repeated after a failure.
// attempt is the number of calls with the batch, or 0 without one. The end of the call's
// context is no failure, nor is a checkpoint that came too late because the lease ends.
func (d *deliverer) returned(err error, attempt int) {
	w := d.w
	if err == nil {
		d.retryNow()
		return
	}
	if failure, ok := errors.AsType[*HandlerError](err); w.trust.held && ok && failure.stops {
		w.stopped(err, attempt)
		return
	}
	delay := d.retryDelay.after(err)
	d.notBefore = w.now.Mono + delay
	if w.trust.ctx.Err() == nil && !(w.phase != phaseWorking && errors.Is(err, lease.ErrLost)) {
		w.notify(Notification{Event: Failed, LeaseToken: w.token, Err: err, Attempt: attempt, Delay: delay})
	}
}

// close calls the observer's Close with the reason r.
func (d *deliverer) close(r Reason) {
	w, observer := d.w, d.observer
	d.op = "close"
	d.calls.start(func() func() {
		err := callUser("close", nil, func() error { return observer.Close(w.trust.ctx, r) })
		return func() {
			d.opened = false
			if err != nil {
				w.fail(w.token, err)
			}
		}
	})
}
