package changefeed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/protocol"
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

	// reached is the highest LSN that pages have shown, and caughtUp reports whether the end of the
	// feed was reached once.
	reached  int64
	caughtUp bool
	// read is the number of pages read so far, and attempts the number of reads since the last
	// page.
	read     int64
	attempts int

	notBefore  time.Duration
	retryDelay backoff
	tail       follow.Tail
	pace       follow.Pace

	ctx    context.Context
	cancel context.CancelFunc
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

// step starts the next read of the lease doc if it is due.
func (r *reader) step(doc lease.Lease) {
	w := r.w
	if r.calls.busy || w.phase != phaseWorking || w.windowFull() {
		return
	}
	if w.now.Mono < r.notBefore {
		w.wake(r.notBefore)
		return
	}
	r.attempts++
	request, started, attempt := r.request(doc), w.now.Mono, r.attempts
	w.reading.begin(started)
	r.calls.start(func() func() {
		ctx, cancel := context.WithTimeout(r.ctx, w.cfg.RequestTimeout+request.Wait)
		defer cancel()
		began := time.Now()
		page, err := w.cfg.Source.Read(ctx, request)
		w.metrics.read(page)
		w.traces.didRead(r.ctx, w.token, began, attempt, page, err)
		skip := w.askToSkip(doc, request.From, err)
		var keys []changeKey
		if err == nil && w.keyed() {
			page.Changes, keys = w.keyReader.of(page.Changes)
		}
		return func() { r.answered(started, page, keys, err, skip) }
	})
}

// request returns the request for the next page of the lease doc.
func (r *reader) request(doc lease.Lease) feed.Request {
	request := protocol.ReadOf(doc, r.w.cfg.Mode, r.from)
	request.MaxItems = r.w.cfg.MaxItems
	if room := r.w.roomInBatch(); room > 0 {
		request.MaxItems = room
	}
	if !r.unresolved {
		request.Wait = r.w.cfg.PollInterval
	}
	return request
}

var errNoContinuation = errors.New("the source returned a page without a continuation")

// answered handles the answer page and err to a read that was sent at started. keys has the
// keys of the page's changes if there are several lanes. oldest is the position from which to
// resume if the user chose to skip lost changes; otherwise it is "".
func (r *reader) answered(started time.Duration, page feed.Page, keys []changeKey, err error, oldest feed.Continuation) {
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
	r.read++
	r.reached = max(r.reached, page.LSN)
	if last := len(page.Changes) - 1; last >= 0 {
		r.reached = max(r.reached, page.Changes[last].LSN)
	}
	r.attempts = 0
	r.w.pushed(page, pagePosition{page: r.read, at: page.Continuation}, keys)
	wasNow, moved := r.unresolved, page.Continuation != r.from.Continuation()
	r.from, r.unresolved = feed.After(page.Continuation), false
	if !r.startTime.IsZero() {
		r.from = feed.AfterSince(page.Continuation, r.startTime)
	}
	switch {
	case len(page.Changes) > 0:
		r.notBefore = r.pace.Changes(started, r.w.now.Mono, r.tail.Changes(page.LSN, page.End))
	case !wasNow && r.tail.Empty(page.LSN, page.End, moved):
		r.caughtUp = true
		r.notBefore = r.pace.Empty(started, r.w.now.Mono, r.w.cfg.PollInterval)
	default:
		r.notBefore = 0
	}
}

// passed reports whether every change before the LSN was read.
func (r *reader) passed(lsn int64) bool { return r.caughtUp || r.reached >= lsn }

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
