package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// reader reads a lease's feed ahead of the handler. It reads pages while less than
// Config.ReadAhead bytes wait for delivery. A failed read is retried in place after a
// delay, without a limit. The lease is kept.
//
// A page that is read while the handler is busy may have a single change, because it is read
// as soon as there is one. If each page were a batch, a handler that takes long for every
// call would fall further and further behind, although it could take many changes at once.
// So pages that wait are gathered into batches, and each read asks for as many changes as
// the last batch still lacks. Then batches fill up to Config.MaxItems, whatever the sizes of
// the pages.
type reader struct {
	w     *worker
	calls *caller

	// from is the start of the next read. unresolved reports whether from is "now" and no
	// read has returned a position yet.
	from       feed.Start
	unresolved bool
	// startTime is the time at which the lease's feed started. It is set in the dialect
	// JavaLatestVersion, where every later read contains it. If zero, there is none.
	startTime time.Time

	// queue holds the batches that were read and not delivered yet. queued is their total
	// size in bytes. read is the number of pages read so far.
	queue  []*queuedBatch
	queued int
	read   int64

	notBefore  time.Duration
	retryDelay backoff
	tail       follow.Tail
	pace       follow.Pace

	ctx    context.Context
	cancel context.CancelFunc
}

// queuedBatch is a batch that waits in the queue for delivery: one page, or several pages
// that were read one after the other.
type queuedBatch struct {
	// pagePosition is the position after the last page.
	pagePosition
	// Page has the changes of all pages, and the sums of their sizes and charges. Its other
	// fields are those of the last page with changes.
	feed.Page
	// gathered is the size in bytes of the pages after the first one.
	gathered int
	// filtered reports whether Config.Filter was applied to the changes.
	filtered bool
	// attempts is the number of calls of the handler with the batch. handled is the number
	// of changes that they handled; these are no longer among Changes.
	attempts, handled int
}

// room returns how many more changes the batch may take. It is 0 for a full batch, and also
// for one without changes: such a page is passed over as soon as its turn comes, which may
// be what the batches after it wait for.
func (b *queuedBatch) room(maxItems int) int {
	if len(b.Changes) == 0 {
		return 0
	}
	return max(0, maxItems-len(b.Changes))
}

// fits reports whether page may be gathered into the batch. Like a page, a batch has more
// than maxItems changes only in order not to cut a transaction.
func (b *queuedBatch) fits(page feed.Page, maxItems int) bool {
	room, last := b.room(maxItems), len(page.Changes)-1
	return room > 0 && (last < room || page.Changes[room-1].LSN == page.Changes[last].LSN)
}

// add gathers page into the batch. It copies the changes, but not their documents.
func (b *queuedBatch) add(page feed.Page) {
	if b.gathered == 0 {
		b.Changes = slices.Clip(b.Changes) // the array belongs to the source
	}
	b.gathered += page.Bytes
	page.Changes = append(b.Changes, page.Changes...)
	page.Bytes += b.Bytes
	page.Charge += b.Charge
	b.Page = page
}

func newReader(w *worker, l lease.Lease) reader {
	r := reader{
		w: w, calls: newCaller(), retryDelay: w.backoff(l, "read"), from: l.Start(w.cfg.Start),
		pace: follow.Pace{Interval: w.cfg.PollInterval, Active: w.now.Mono},
	}
	r.unresolved = r.from.Kind() == feed.StartNow
	if w.dialect == lease.JavaLatestVersion {
		r.startTime = r.from.Since()
		if r.from.Kind() == feed.StartTime {
			r.startTime = r.from.Time()
		}
	}
	r.ctx, r.cancel = context.WithCancel(w.base)
	return r
}

// step starts the next read of the lease doc if it is due. hand is the batch in the handler,
// or nil.
func (r *reader) step(doc lease.Lease, hand *queuedBatch) {
	w := r.w
	if r.calls.busy || w.phase != phaseWorking || !r.hasRoom(hand) {
		return
	}
	if w.now.Mono < r.notBefore {
		w.wake(r.notBefore)
		return
	}
	request, started := r.request(doc), w.now.Mono
	w.reading.begin(started)
	r.calls.start(func() func() {
		ctx, cancel := context.WithTimeout(r.ctx, w.cfg.RequestTimeout+request.Wait)
		defer cancel()
		page, err := w.cfg.Source.Read(ctx, request)
		w.metrics.read(page)
		skip := w.askToSkip(doc, request.From, err)
		return func() { r.answered(started, page, err, skip) }
	})
}

// hasRoom reports whether the queue has room for another page. One page in hand does
// not count as read ahead, but those that were gathered with it do. Otherwise a lease could
// hold twice the memory.
func (r *reader) hasRoom(hand *queuedBatch) bool {
	ahead := r.queued
	if r.w.cfg.ReadAhead < 0 {
		return len(r.queue) == 0 && hand == nil
	}
	if hand != nil {
		ahead += hand.gathered
	}
	return ahead < r.w.cfg.ReadAhead
}

// lastQueued returns the last batch of the queue, or nil if the queue is empty.
func (r *reader) lastQueued() *queuedBatch {
	if len(r.queue) == 0 {
		return nil
	}
	return r.queue[len(r.queue)-1]
}

// request returns the request for the next page of the lease doc.
func (r *reader) request(doc lease.Lease) feed.Request {
	request := protocol.ReadOf(doc, r.w.cfg.Mode, r.from)
	request.MaxItems = r.w.cfg.MaxItems
	if last := r.lastQueued(); last != nil && last.room(request.MaxItems) > 0 {
		request.MaxItems = last.room(request.MaxItems)
	}
	if !r.unresolved {
		request.Wait = r.w.cfg.PollInterval
	}
	return request
}

var errNoContinuation = errors.New("the source returned a page without a continuation")

// answered handles the answer page and err to a read that was sent at started. oldest is
// the position from which to resume if the user chose to skip lost changes; otherwise it
// is "".
func (r *reader) answered(started time.Duration, page feed.Page, err error, oldest feed.Continuation) {
	if r.w.phase != phaseWorking {
		return
	}
	if err == nil && page.Continuation == "" {
		err = errNoContinuation
	}
	if oldest != "" {
		r.w.report(r.w.token, &SourceError{Op: "read " + r.w.token, Err: err})
		page, err = feed.Page{Continuation: oldest}, nil
	}
	if err != nil {
		r.failed(err)
		return
	}
	r.w.reading.end()
	r.w.worked(atSource, r.w.token)
	r.retryDelay.done()
	r.push(page)
	wasNow, moved := r.unresolved, page.Continuation != r.from.Continuation()
	r.from, r.unresolved = feed.After(page.Continuation), false
	if !r.startTime.IsZero() {
		r.from = feed.AfterSince(page.Continuation, r.startTime)
	}
	switch {
	case len(page.Changes) > 0:
		r.notBefore = r.pace.Changes(started, r.w.now.Mono, r.tail.Changes(page.LSN, page.End))
	case !wasNow && r.tail.Empty(page.LSN, page.End, moved):
		r.notBefore = r.pace.Empty(started, r.w.now.Mono, r.w.cfg.PollInterval)
	default:
		r.notBefore = 0
	}
}

// push adds a page to the queue: to the last batch if it fits, or else as a batch of its
// own. A page without changes only moves the position of the last batch, because the batch's
// checkpoint can cover it.
func (r *reader) push(page feed.Page) {
	r.read++
	at := pagePosition{page: r.read, at: page.Continuation}
	if len(page.Changes) == 0 {
		page.Bytes = 0 // nothing of it waits
	} else if page.Bytes == 0 {
		for i := range page.Changes {
			page.Bytes += len(page.Changes[i].Current) + len(page.Changes[i].Previous)
		}
	}
	r.queued += page.Bytes
	last := r.lastQueued()
	switch {
	case last != nil && len(page.Changes) == 0:
		last.pagePosition = at
	case last != nil && last.fits(page, r.w.cfg.MaxItems):
		last.pagePosition = at
		last.add(page)
	default:
		r.queue = append(r.queue, &queuedBatch{pagePosition: at, Page: page})
	}
}

// take removes the first batch of the queue. It returns nil if the queue is empty.
func (r *reader) take() *queuedBatch {
	if len(r.queue) == 0 {
		return nil
	}
	b := r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	r.queued -= b.Bytes
	return b
}

// failed handles the error err of a read.
func (r *reader) failed(err error) {
	w := r.w
	if gone, ok := errors.AsType[*feed.GoneError](err); ok {
		w.reading.end()
		w.gone(gone)
		return
	}
	if errors.Is(err, feed.ErrUnsupported) && r.from.Kind() == feed.StartTime {
		// Merged partitions may refuse a start time. Read from the beginning, which
		// misses nothing, and drop the older changes by the lease's bound.
		w.startRefused(r.from.Time())
		r.from, r.startTime = feed.Beginning(), time.Time{}
		return
	}
	if errors.Is(err, feed.ErrUnsupported) && !r.from.Since().IsZero() {
		// The source refuses the time that accompanies the position. Read from the
		// position alone, which misses nothing, and drop the older changes by the lease's
		// bound.
		w.startRefused(r.from.Since())
		r.from = feed.After(r.from.Continuation())
		r.startTime = time.Time{}
		return
	}
	w.fail(w.token, &SourceError{Op: fmt.Sprintf("read %s from %.60s", w.token, r.from), Err: err})
	r.notBefore = w.now.Mono + r.retryDelay.after(err)
}

// askToSkip calls OnHistoryLost if err reports that the feed no longer reaches back to
// the position from. It returns the position at which to resume, or "" if the user does
// not skip. It calls user code, so it runs on the reader's caller.
func (h *host) askToSkip(l lease.Lease, from feed.Start, err error) (oldest feed.Continuation) {
	lost, ok := errors.AsType[*feed.HistoryLostError](err)
	if !ok || h.cfg.OnHistoryLost == nil || lost.Oldest == "" || from.Continuation() == lost.Oldest {
		return ""
	}
	skip := false
	if err := callUser("history lost", nil, func() error { skip = h.cfg.OnHistoryLost(l, lost); return nil }); err != nil {
		h.report(l.Token, err)
	}
	if !skip {
		return ""
	}
	return lost.Oldest
}
