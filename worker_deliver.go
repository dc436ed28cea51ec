package changefeed

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// deliverer passes a lease's batches to its handler: one at a time and in order, or up to
// Config.Concurrency at a time, in order within each lane of the window. If the handler fails,
// it gets the changes that failed again after a delay, until it returns nil. What follows them
// in their lane waits. All of the user's code for the lease (handler, observer, filter) runs on
// the deliverer's callers.
//
// A batch is delivered only under two conditions:
//   - The position to read it again from is durable. A start at the beginning or at a
//     time is, because the document or the configuration holds it. A start at "now" is
//     durable when the store has it as a continuation.
//   - With a checkpoint after every batch and one call at a time, at most one earlier batch
//     has no durable position yet. So a crash redelivers two batches at most, and the handler
//     does not wait for the checkpoint of the batch before. With several calls at a time, a
//     crash redelivers the window at most.
//
// When the work ends, nothing starts beyond the last page that has started, but what has not
// started of it and of the pages before is delivered. So the position moves over all of them,
// and the next owner delivers nothing twice, unless a call fails: that is not repeated.
type deliverer struct {
	w *worker
	// calls is the number of calls of the user's code that are under way. free has the callers
	// that are not in use.
	calls int
	free  []*caller
	// callers has all callers.
	callers []*caller
	// resuming has the answers to calls of Batch.Checkpoint within the handler that wait until
	// fewer than Config.Concurrency others are under way.
	resuming []resumed

	observer Observer
	// opened reports whether the observer may handle batches: Open has returned nil, and
	// Close has not returned. A plain handler needs neither.
	opened bool
	// op names the last call of the user's code, "open", "handle" or "close", for
	// messages.
	op string
	// notBefore is for an observer that could not be opened. The delays of each lane begin as
	// retryDelay does.
	notBefore  time.Duration
	retryDelay backoff
}

// resumed is the answer err to a call of Batch.Checkpoint.
type resumed struct {
	ask *checkpointAsk
	err error
}

func newDeliverer(w *worker, l lease.Lease) deliverer {
	d := deliverer{w: w, retryDelay: w.backoff(l, "handle")}
	d.retryDelay.first, d.retryDelay.most = w.cfg.Failure.Delay, w.cfg.Failure.MaxDelay
	if w.cfg.Handler != nil {
		d.observer, d.opened = plainObserver{w.cfg.Handler}, true
	}
	return d
}

// step creates the observer, opens it, or delivers the batches that may be delivered now. doc
// is the lease, and bound the time before which changes are not delivered.
func (d *deliverer) step(doc lease.Lease, bound time.Time) {
	w := d.w
	d.resume()
	ends := w.phase != phaseWorking
	switch {
	case w.parking.unread:
		return // a change might overtake its letter
	case ends && !w.mayFinish():
		return
	case !ends && !d.opened:
		d.begin(doc)
		return
	}
	if ends {
		for r := w.window.dropRedrive(); r != nil; r = w.window.dropRedrive() {
			w.parking.interrupted(r)
		}
	}
	for d.opened && w.window.hasPlace() && (ends || w.mayDeliver()) {
		b := w.window.next(ends)
		if b == nil {
			return
		}
		d.take(b, doc.Range, bound)
	}
}

// take does the next thing with batch b: it calls the handler, or does what becomes of letters.
func (d *deliverer) take(b *queuedBatch, keys feed.Range, bound time.Time) {
	w := d.w
	switch r := b.redrive; {
	case b.failure != nil:
		d.writeLetters(b)
	case r != nil && r.handled:
		d.deleteLetter(b)
	case r != nil && (len(b.Changes) == 0 || b.failed): // somebody may have dropped it since
		d.loadLetter(b)
	case r != nil:
		d.handle(b, keys, bound)
	case !b.filtered && w.filters(bound) && w.parking.touches(b):
		d.sift(b, bound)
	case w.parking.touches(b):
		if n := w.parking.gather(b); n < len(b.Changes) {
			w.window.divide(b, n)
		}
		d.writeLetters(b)
	default:
		d.handle(b, keys, bound)
	}
}

// begin creates the observer, or opens it.
func (d *deliverer) begin(doc lease.Lease) {
	w := d.w
	switch {
	case d.calls > 0 || !w.mayDeliver():
	case w.now.Mono < d.notBefore:
		w.wake(d.notBefore)
	case d.observer == nil:
		d.create(doc)
	default:
		d.open(doc)
	}
}

// start makes a call of the user's code on a caller. op names it. then handles its result.
func (d *deliverer) start(op string, call func() (then func())) {
	d.op = op
	d.calls++
	var c *caller
	if last := len(d.free) - 1; last >= 0 {
		c, d.free = d.free[last], d.free[:last]
	} else {
		c = newCaller()
		c.ended = d.ended
		c.open(d.w.inbox, d.w.done)
		d.callers = append(d.callers, c)
	}
	c.start(call)
}

// ended takes back the caller c, whose call has returned.
func (d *deliverer) ended(c *caller) {
	d.calls--
	if len(d.free) < d.w.cfg.Concurrency {
		d.free = append(d.free, c)
		return
	}
	c.close() // handlers that wait for checkpoints had needed more
	d.callers = slices.DeleteFunc(d.callers, func(other *caller) bool { return other == c })
}

// retryNow ends the delays before the next calls.
func (d *deliverer) retryNow() {
	d.retryDelay.done()
	d.notBefore = 0
}

// answer answers a call of Batch.Checkpoint. If the handler has made it, its call counts again.
func (d *deliverer) answer(ask *checkpointAsk, err error) {
	if ask.batch.lent {
		d.resuming = append(d.resuming, resumed{ask, err})
		return
	}
	ask.reply <- err
}

// resume answers the calls of Batch.Checkpoint that wait for a place, as far as there are some.
func (d *deliverer) resume() {
	for len(d.resuming) > 0 && (d.w.window.mayResume() || d.w.phase >= phaseEnding) {
		r := d.resuming[0]
		d.resuming = d.resuming[1:]
		d.w.window.takeBack(r.ask.batch)
		r.ask.reply <- r.err
	}
}

// create creates the observer. The next step opens it if the lease is still trusted.
func (d *deliverer) create(doc lease.Lease) {
	w := d.w
	d.start("open", func() func() {
		var observer Observer
		err := callUser("open", nil, func() (err error) {
			if observer, err = w.cfg.Observer(doc); err == nil && observer == nil {
				err = errNoObserver
			}
			return err
		})
		return func() {
			if err != nil {
				d.tried(err) // observer may be a nil pointer in an interface that is not nil
				return
			}
			d.observer = observer
		}
	})
}

// open calls the observer's Open.
func (d *deliverer) open(doc lease.Lease) {
	w, observer := d.w, d.observer
	d.start("open", func() func() {
		err := callUser("open", nil, func() error { return observer.Open(w.trust.ctx, doc) })
		return func() {
			d.opened = err == nil
			d.tried(err)
		}
	})
}

// tried handles the result err of an attempt to create or open the observer.
func (d *deliverer) tried(err error) {
	if err == nil {
		d.retryNow()
		return
	}
	d.notBefore = d.failed(err, 0, &d.retryDelay)
}

// outcome is what a call of the handler did with a batch.
type outcome struct {
	// err is the error of the changes that were not handled, or nil. handled is the number
	// of those that were.
	err     error
	handled int
	// hidden has the indexes of the changes that the filter hides, and open those of the
	// changes that are not done, among the changes that the batch had before the call. They
	// are recorded if several calls are made at a time.
	hidden, open []int
	// span is the span of the call, or nil.
	span trace.Span
}

// fate is what a call of the handler did with a change.
type fate int

const (
	wasHandled fate = iota
	wasHidden
	stillOpen
)

// of returns what the call did with the change that had the index i.
func (o outcome) of(i int) fate {
	if _, open := slices.BinarySearch(o.open, i); open {
		return stillOpen
	}
	if _, hidden := slices.BinarySearch(o.hidden, i); hidden {
		return wasHidden
	}
	return wasHandled
}

// handle calls the handler with batch b.
func (d *deliverer) handle(b *queuedBatch, keys feed.Range, bound time.Time) {
	w, last := d.w, b.last
	batch := &Batch{
		LeaseToken: w.token, Range: keys, Mode: w.cfg.Mode, Attempt: b.attempts + 1,
		Charge: b.Charge, SessionToken: b.SessionToken, Diagnostics: b.Diagnostics,
		checkpoint: func(ctx context.Context) error { return w.checkpoint(ctx, b, last) },
	}
	observer := d.observer
	d.start("handle", func() func() {
		o := w.call(observer, b, batch, bound)
		return func() { d.handled(b, o) }
	})
}

// call applies the filter to batch b, and calls the observer's Handle with what is left, as
// batch. It runs on one of the deliverer's callers.
func (w *worker) call(observer Observer, b *queuedBatch, batch *Batch, bound time.Time) (o outcome) {
	if !b.filtered && w.filters(bound) {
		if o = w.filter(b, bound); o.err != nil {
			return o
		}
	}
	if len(b.Changes) == 0 {
		return o
	}
	batch.Changes = b.Changes
	b.attempts++
	ctx, span := w.traces.handling(w.trust.ctx, w.token, b)
	began := time.Now()
	err := callUser("handle", b, func() error { return observer.Handle(ctx, batch) })
	took := time.Since(began)
	o.settle(b, err)
	o.span = span
	w.traces.handled(span, o.err)
	w.metrics.handled(len(batch.Changes), o.handled, took, b.attempts, o.err)
	return o
}

// settle removes the changes from batch b that were handled by a call of the handler that
// returned err. It records their number, and the error of the others, or nil if there are none.
func (o *outcome) settle(b *queuedBatch, err error) {
	failed := []int(nil)
	if failure, ok := errors.AsType[*HandlerError](err); ok {
		failed = failure.failed
	}
	o.handled = len(b.Changes) - len(failed)
	b.handled += o.handled
	if len(failed) == 0 {
		return
	}
	o.err = err
	if o.handled > 0 {
		rest := make([]feed.Change, len(failed))
		for i, index := range failed {
			rest[i] = b.Changes[index]
		}
		b.Changes = rest
	}
	o.open = slices.Clone(failed)
	for _, hidden := range o.hidden { // the filter has moved the changes behind each one that it hides
		for i := range o.open {
			if o.open[i] >= hidden {
				o.open[i]++
			}
		}
	}
}

// handled handles the outcome of a call of the handler with batch b.
func (d *deliverer) handled(b *queuedBatch, o outcome) {
	w, l := d.w, b.lane
	w.window.takeBack(b)
	if failure, ok := errors.AsType[*HandlerError](o.err); ok && failure.gap && b.acknowledged { // its changes count as handled
		o = outcome{handled: len(b.Changes)}
	}
	w.delivered(b, o)
	if o.handled > 0 && w.letters != nil && w.breaker.succeeded(w.now.Mono) {
		w.notify(Notification{Event: Unpaused, LeaseToken: w.token})
	}
	if l.retryDelay.first == 0 {
		l.retryDelay = d.retryDelay
	}
	switch {
	case o.err == nil && b.redrive != nil:
		l.retryDelay.done()
		d.deleteLetter(b)
		return
	case o.err == nil:
		l.retryDelay.done()
		w.window.returned(b, true, 0)
		return
	}
	if o.handled > 0 {
		l.retryDelay.done()
	}
	attempt := b.attempts
	if b.failedAt.IsZero() {
		b.failedAt = w.now.Wall
	}
	switch d.triage(b, o) {
	case giveUp:
		d.writeLetters(b)
	case divided:
		d.notifyFailed(o.err, attempt, 0)
		w.window.returned(b, false, w.now.Mono)
	case repeat:
		w.window.returned(b, false, d.failed(o.err, attempt, &l.retryDelay))
	}
}

// failed handles the error err of a call of user code that is repeated after a failure, and
// returns the time of the next call. attempt is the number of calls with the batch, or 0
// without one.
func (d *deliverer) failed(err error, attempt int, delays *backoff) time.Duration {
	w := d.w
	if failure, ok := errors.AsType[*HandlerError](err); w.trust.held && ok && failure.stops {
		w.stopped(err, attempt)
		return w.now.Mono
	}
	delay := delays.after(err)
	d.notifyFailed(err, attempt, delay)
	return w.now.Mono + delay
}

// notifyFailed notifies the user of the error err of a call that is repeated after delay. The end of
// the call's context is no failure, nor is a checkpoint that came too late because the lease ends.
func (d *deliverer) notifyFailed(err error, attempt int, delay time.Duration) {
	if w := d.w; d.counts(err) {
		w.notify(Notification{Event: Failed, LeaseToken: w.token, Err: err, Attempt: attempt, Delay: delay})
	}
}

// counts reports whether err is a failure of the user's code.
func (d *deliverer) counts(err error) bool {
	w := d.w
	return w.trust.ctx.Err() == nil && !(w.phase != phaseWorking && errors.Is(err, lease.ErrLost))
}

// close calls the observer's Close with the reason r.
func (d *deliverer) close(r Reason) {
	w, observer := d.w, d.observer
	d.start("close", func() func() {
		err := callUser("close", nil, func() error { return observer.Close(w.trust.ctx, r) })
		return func() {
			d.opened = false
			if err != nil {
				w.report(w.token, err) // it is not repeated
			}
		}
	})
}
