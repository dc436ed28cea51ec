package changefeed

import (
	"context"
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// reader reads a lease's feed ahead of the handler. It reads pages while less than
// Config.ReadAhead bytes wait for delivery. A failed read is retried in place after a
// delay, without a limit. The lease is kept.
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

	// queue holds the pages that were read and not delivered yet. queued is their total
	// size in bytes. read is the number of pages read so far.
	queue  []*queuedPage
	queued int
	read   int64

	notBefore  time.Duration
	retryDelay backoff
	polling    polling

	ctx    context.Context
	cancel context.CancelFunc
}

// queuedPage is a page that waits in the queue for delivery.
type queuedPage struct {
	mark
	feed.Page
	// filtered reports whether Config.Filter was applied to the changes. handed reports
	// whether the handler was called with them.
	filtered, handed bool
}

func newReader(w *worker, l lease.Lease) reader {
	r := reader{
		w: w, calls: newCaller(), retryDelay: w.backoff(l, "read"), from: l.Start(w.cfg.Start),
		polling: polling{interval: w.cfg.PollInterval, active: w.now.Mono},
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

// step starts the next read if it is due.
func (r *reader) step() {
	w := r.w
	if r.calls.busy || !w.working() || !r.wanted() {
		return
	}
	if w.now.Mono < r.notBefore {
		w.wake(r.notBefore)
		return
	}
	request, doc, started := r.request(), w.writer.doc, w.now.Mono
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

// wanted reports whether the queue has room for another page.
func (r *reader) wanted() bool {
	if r.w.cfg.ReadAhead < 0 {
		return len(r.queue) == 0 && r.w.deliver.hand == nil
	}
	return r.queued < r.w.cfg.ReadAhead
}

// request returns the request for the next page of a lease. A PK-range lease reads its
// partition. An EPK lease reads its range in whichever partitions hold it.
func (r *reader) request() feed.Request {
	request := r.w.requestFor(r.w.writer.doc)
	request.From = r.from
	request.MaxItems = r.w.cfg.MaxItems
	if !r.unresolved {
		request.Wait = r.w.cfg.PollInterval
	}
	return request
}

// requestFor returns a request for the range of lease l. The caller sets its start.
func (h *host) requestFor(l lease.Lease) feed.Request {
	request := feed.Request{Mode: h.cfg.Mode}
	if l.PartitionID != "" {
		request.Partition = feed.Partition{ID: l.PartitionID, Range: l.Range}
		return request
	}
	request.Range = l.Range
	return request
}

var errNoContinuation = errors.New("the source returned a page without a continuation")

// answered handles the answer page and err to a read that was sent at started. oldest is
// the position from which to resume if the user chose to skip lost changes; otherwise it
// is "".
func (r *reader) answered(started time.Duration, page feed.Page, err error, oldest feed.Continuation) {
	if !r.w.working() {
		return
	}
	if err == nil && page.Continuation == "" {
		err = errNoContinuation
	}
	if oldest != "" {
		r.w.fail(r.w.writer.doc.Token, &SourceError{Op: "read " + r.w.writer.doc.Token, Err: err})
		page, err = feed.Page{Continuation: oldest}, nil
	}
	if err != nil {
		r.failed(err)
		return
	}
	r.w.reading.end()
	r.retryDelay.done()
	r.push(page)
	wasNow, advanced := r.unresolved, page.Continuation != r.from.Continuation()
	r.from, r.unresolved = feed.After(page.Continuation), false
	if !r.startTime.IsZero() {
		r.from = feed.AfterSince(page.Continuation, r.startTime)
	}
	switch {
	case len(page.Changes) > 0:
		r.notBefore = r.polling.afterChanges(started, r.w.now.Mono, page)
	case wasNow:
		r.notBefore = 0
	default:
		r.notBefore = r.polling.afterEmpty(started, r.w.now.Mono, page, advanced)
	}
}

// push adds a page to the queue. If the page and the last one of the queue have no
// changes, it replaces that one, because only the later position matters.
func (r *reader) push(page feed.Page) {
	r.read++
	p := &queuedPage{mark: mark{page: r.read, at: page.Continuation}, Page: page}
	if p.Bytes == 0 {
		for i := range p.Changes {
			p.Bytes += len(p.Changes[i].Current) + len(p.Changes[i].Previous)
		}
	}
	if n := len(r.queue); n > 0 && len(p.Changes) == 0 && len(r.queue[n-1].Changes) == 0 {
		r.queue[n-1] = p
		return
	}
	r.queue = append(r.queue, p)
	r.queued += p.Bytes
}

// take removes the first page of the queue. It returns nil if the queue is empty.
func (r *reader) take() *queuedPage {
	if len(r.queue) == 0 {
		return nil
	}
	p := r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	r.queued -= p.Bytes
	return p
}

// failed handles the error err of a read.
func (r *reader) failed(err error) {
	w := r.w
	if gone, ok := errors.AsType[*feed.GoneError](err); ok {
		w.reading.end()
		w.split.begin(gone)
		return
	}
	if errors.Is(err, feed.ErrUnsupported) && r.from.Kind() == feed.StartTime {
		// Merged partitions may refuse a start time. Read from the beginning, which
		// misses nothing, and drop the older changes by the lease's bound.
		w.writer.bind(r.from.Time())
		r.from, r.startTime = feed.Beginning(), time.Time{}
		return
	}
	if errors.Is(err, feed.ErrUnsupported) && !r.from.Since().IsZero() {
		// The source refuses the time that accompanies the position. Read from the
		// position alone, which misses nothing, and drop the older changes by the lease's
		// bound.
		w.writer.bind(r.from.Since())
		r.from = feed.After(r.from.Continuation())
		r.startTime = time.Time{}
		return
	}
	w.fail(w.writer.doc.Token, &SourceError{Op: "read " + w.writer.doc.Token, Err: err})
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
	if stack := callAside(func() { skip = h.cfg.OnHistoryLost(l, lost) }); stack != nil {
		h.fail(l.Token, &HandlerError{Op: "history lost", Err: errGoexit, Stack: stack})
	}
	if !skip {
		return ""
	}
	return lost.Oldest
}
