package changefeed

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/trace"

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

// openPage is a page that the position may not pass yet, because a change in it was not
// handled or, with manual checkpoints, not acknowledged. With one call of the handler at a
// time, the pages that were gathered into one batch are one openPage.
type openPage struct {
	// number is the number of the page, or of the last one of its batch. It stays, while
	// pagePosition moves over later pages that have no open changes.
	number int64
	// read is the number of changes that were read up to the end of the page, if several lanes
	// have them.
	read int64
	pagePosition
	// left is the number of parts that are not done: the whole batch, or each change if
	// several calls are made at a time. handled is the number of changes that were handled.
	left, handled int

	before, after *openPage
}

// progress records how far the position of a lease may move. It moves over pages whose
// changes are all done: the handler has returned nil, or with manual checkpoints the user
// has checkpointed them, or the filter hides them.
//
// A page that is done while an earlier one is open needs no record of its own: the earlier
// one takes over its position. So changes that are done cost no memory, however many there
// are behind one that is not.
//
// Invariant: due is never after a change that is not done.
type progress struct {
	// due is the latest position that may be stored in the lease. durable is the position
	// that is stored. due is never before durable.
	due, durable pagePosition
	// first and last are the ends of the list of open pages, which are all after due.
	first, last *openPage
	// covered has the pages with handled changes that due covers and durable does not, and
	// changes is the number of these changes. uncovered is the number of handled changes that
	// due does not cover.
	covered   []handledPage
	changes   int
	uncovered int
}

// handledPage is a page or batch that was handled and whose position is not stored yet. page
// is its number and changes its size.
type handledPage struct {
	page    int64
	changes int
}

// newProgress returns the progress of a lease whose document has the position durable.
func newProgress(durable feed.Continuation) progress {
	at := pagePosition{at: durable}
	return progress{due: at, durable: at}
}

// open records a page that was read and that has changes. It is later than all others.
func (p *progress) open(page *openPage) {
	if page.before = p.last; page.before == nil {
		p.first = page
	} else {
		page.before.after = page
	}
	p.last = page
}

// pass records a page without changes that was read. at is the position after it.
func (p *progress) pass(at pagePosition) {
	if p.last == nil {
		p.due = at
		return
	}
	p.last.pagePosition = at
}

// handled records that changes of an open page were handled.
func (p *progress) handled(page *openPage, changes int) {
	page.handled += changes
	p.uncovered += changes
}

// finish records that n parts of an open page are done. If nothing is left of it, the position
// moves over the page, or the open page before takes over its position.
func (p *progress) finish(page *openPage, n int) {
	if page.left -= n; page.left > 0 {
		return
	}
	if page.after == nil {
		p.last = page.before
	} else {
		page.after.before = page.before
	}
	before, after := page.before, page.after
	page.before, page.after = nil, nil // the user may keep a batch, which must not keep later ones
	if before != nil {
		before.after = after
		before.pagePosition = page.pagePosition
		before.handled += page.handled
		return
	}
	p.first = after
	p.due = page.pagePosition
	if page.handled > 0 {
		p.covered = append(p.covered, handledPage{page.page, page.handled})
		p.changes += page.handled
		p.uncovered -= page.handled
	}
}

// stored records that the lease store holds the position at.
func (p *progress) stored(at pagePosition) {
	if at.page > p.durable.page {
		p.durable = at
	}
	for len(p.covered) > 0 && p.covered[0].page <= at.page {
		p.changes -= p.covered[0].changes
		p.covered = p.covered[1:]
	}
}

// behind reports whether the position in the store is older than the due one.
func (p *progress) behind() bool { return p.durable.page < p.due.page }

// mayHandOut reports whether the stored position is recent enough to deliver a batch; see
// the conditions at deliverer.
func (lw *leaseWriter) mayHandOut() bool {
	const most = 1
	return lw.anchored && (lw.w.keyed() || !lw.w.cfg.Checkpoint.everyBatch() || len(lw.progress.covered) <= most)
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
	case every.Manual || len(lw.progress.covered) == 0:
		return false // if checkpoints are not manual, the due position is after pages without changes only
	case every.everyBatch() || every.Changes > 0 && lw.progress.changes >= every.Changes || w.keyed() && w.windowFull():
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
	lw.attempts = 0
	lw.anchored = lw.anchored || at.at != ""
	lw.inDoubt, lw.vanished, lw.notBefore = false, false, 0
	lw.retryDelay.done()
	lw.answer(func(ask *checkpointAsk) bool {
		if ask.page > lw.progress.durable.page {
			return false
		}
		lw.w.checkpointed(ask, nil)
		return true
	})
}

// answer removes the waiting calls of Batch.Checkpoint for which answered returns true.
func (lw *leaseWriter) answer(answered func(*checkpointAsk) bool) {
	lw.asks = slices.DeleteFunc(lw.asks, answered)
}

// stored records the stored position in progress. If the position has moved, it counts a
// checkpoint in the metrics.
func (lw *leaseWriter) stored(at pagePosition) {
	if at.page > lw.progress.durable.page && at.at != lw.progress.durable.at {
		lw.w.metrics.checkpointed()
	}
	lw.progress.stored(at)
	lw.unsettled.settled(at.page)
}

// checkpointAsk is a call of Batch.Checkpoint that waits until the position after its batch
// is stored. page is the number of the batch's last page.
type checkpointAsk struct {
	batch *queuedBatch
	page  int64
	reply chan error // receives the call's result; it has a capacity of 1
	// span is the span of the call's context, or one that records nothing.
	span trace.Span
	// left reports whether it is no call, but the end of one whose context has ended.
	left bool
}

// ErrGap is returned by [Batch.Checkpoint] if the position cannot cover the batch, because an
// earlier one has failed and waits for its retry. That happens only with Config.Concurrency
// above 1 or Config.Failure.Letters. The batch is acknowledged all the same: once the earlier one
// has been handled, the position moves over both. So a handler that returns ErrGap has not failed.
var ErrGap = errors.New("changefeed: the position cannot cover the batch yet, because an earlier batch waits for a retry")

// checkpoint asks the worker to store the position after batch b, whose last page has the
// number page, and waits for the result. It is the body of Batch.Checkpoint, which the user
// may call on any goroutine.
func (w *worker) checkpoint(ctx context.Context, b *queuedBatch, page int64) error {
	ask := &checkpointAsk{batch: b, page: page, reply: make(chan error, 1), span: trace.SpanFromContext(ctx)}
	select {
	case w.asks <- ask:
	case <-w.done:
		return w.afterwards(page)
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-ask.reply:
		return err
	case <-ctx.Done():
	}
	select { // the handler goes on
	case w.asks <- &checkpointAsk{batch: b, left: true}:
	case <-w.done:
	}
	return ctx.Err()
}

// afterwards returns the result of a checkpoint that is called after the worker has
// ended.
func (w *worker) afterwards(page int64) error {
	if page <= w.finished {
		return nil
	}
	return lease.ErrLost
}

// asked handles a call of Batch.Checkpoint. It refuses the call if trust in the lease has
// ended. It also refuses the call if the position is fixed, because the children of a gone
// lease start there. The call must not wait for the end of the worker, which waits for the
// observer's Close, which may have made the call.
func (lw *leaseWriter) asked(ask *checkpointAsk, fixed bool) {
	if ask.left {
		lw.w.goesOn(ask.batch)
		return
	}
	if ask.page <= lw.progress.durable.page {
		ask.reply <- nil
		return
	}
	if !lw.w.trust.holds(lw.w.now) || fixed {
		ask.reply <- lease.ErrLost
		return
	}
	lw.acknowledge(ask)
	lw.settles(ask.page, ask.span)
	lw.asks = append(lw.asks, ask)
	lw.w.waits(ask.batch)
}

// acknowledge records that a batch was handled, because the user checkpoints it. With one call
// of the handler at a time, everything before the batch counts as handled, too.
func (lw *leaseWriter) acknowledge(ask *checkpointAsk) {
	if !lw.w.keyed() {
		for page := lw.progress.first; page != nil && page.number <= ask.page; page = lw.progress.first {
			lw.progress.finish(page, page.left)
		}
		return
	}
	b := ask.batch
	for _, page := range b.unacknowledged {
		lw.progress.finish(page, 1)
	}
	b.unacknowledged = nil
	if b.acknowledged {
		return
	}
	b.acknowledged = true
	for _, o := range b.places {
		lw.progress.handled(o.page, 1)
		lw.progress.finish(o.page, 1)
	}
}

// givenUp records that the letters of batch b are written, so that its changes are done, even if
// checkpoints are manual.
func (lw *leaseWriter) givenUp(b *queuedBatch) {
	places := b.places
	b.places = nil // the user may keep the batch, and checkpoint it later
	if b.acknowledged {
		return
	}
	for _, o := range places {
		lw.progress.handled(o.page, 1)
		lw.progress.finish(o.page, 1)
	}
}

// delivered records the outcome of a call of the handler with batch b. Unless checkpoints are
// manual, what was handled is done.
func (lw *leaseWriter) delivered(b *queuedBatch, o outcome) {
	p, manual := &lw.progress, lw.w.cfg.Checkpoint.Manual
	if !lw.w.keyed() {
		if o.err != nil || b.own.left == 0 { // the user has checkpointed the batch before its handler returned
			return
		}
		if !manual {
			p.handled(&b.own, b.handled)
		}
		if !manual || b.handled == 0 {
			p.finish(&b.own, 1)
		}
		return
	}
	places := b.places
	b.places = nil
	for i, from := range places {
		page := from.page
		switch what := o.of(i); {
		case what == stillOpen:
			b.places = append(b.places, from)
		case b.acknowledged:
		case what == wasHidden:
			p.finish(page, 1)
		case manual:
			p.handled(page, 1)
			b.unacknowledged = append(b.unacknowledged, page)
		default:
			p.handled(page, 1)
			p.finish(page, 1)
		}
	}
}

// answersSoon reports whether a call of Batch.Checkpoint only waits until its position, which is
// due, is stored. Its handler then goes on.
func (lw *leaseWriter) answersSoon() bool {
	return slices.ContainsFunc(lw.asks, func(ask *checkpointAsk) bool { return ask.page <= lw.progress.due.page })
}

// gaps refuses the waiting calls of Batch.Checkpoint whose position cannot be stored before an
// earlier batch is delivered again: first is the earliest one that has failed, and second the
// earliest of the others. Nothing from the page with the number stuck on will be delivered.
func (lw *leaseWriter) gaps(first, second *queuedBatch, stuck int64) {
	lw.answer(func(ask *checkpointAsk) bool {
		earlier := first
		if first == ask.batch {
			earlier = second
		}
		if ask.page <= lw.progress.due.page || stuck > ask.page && (earlier == nil || earlier.begins() > ask.page) {
			return false
		}
		lw.w.checkpointed(ask, ErrGap)
		return true
	})
}

// settle answers the waiting calls of Batch.Checkpoint when no position can be stored any
// more.
func (lw *leaseWriter) settle() {
	for _, ask := range lw.asks {
		if ask.page <= lw.progress.durable.page {
			ask.reply <- nil
		} else {
			ask.reply <- lease.ErrLost
		}
	}
	lw.asks = nil
}
