package feed

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/internal/follow"
)

// defaultWait is the value of a zero ReaderConfig.Wait in a loop that follows the feed.
// It equals the processor's poll interval.
const defaultWait = 5 * time.Second

// Pages returns an iterator over the feed's pages:
//
//	for page, err := range reader.Pages(ctx) {
//		if err != nil {
//			return err
//		}
//		for _, change := range page.Changes {
//			...
//		}
//	}
//
// [Page.Range] is the part that the page belongs to. In the loop's body,
// [Reader.Position] is the position after this page and all earlier ones, regardless of
// pages read ahead. You may leave the loop at any time; another loop resumes there.
//
// Without [ReaderConfig.Follow] the loop ends where it first saw the feed's end, even if
// changes are written faster than it reads. It returns everything written before its
// first read of each part, and perhaps some later changes, but no empty pages. If the
// source does not report [Page.End], the loop ends when the last read of each part
// returned no changes.
//
// With Follow the loop does not end. Whenever it has read all parts again and none had
// changes, it returns an empty page, so that the body can store an idle feed's position.
//
// The loop reads [ReaderConfig.Parallel] parts at the same time, also while the body
// runs. Each part's pages arrive in order, and all changes with one key are in one part.
//
// A throttled read is repeated after the time that the source requests. Any other error,
// and the end of ctx, is passed to the body, with the part in [Page.Range], and ends the
// loop.
func (r *Reader) Pages(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		if r.paging {
			yield(Page{}, errPaging)
			return
		}
		r.paging = true
		defer func() { r.paging = false }()
		if err := r.begin(ctx); err != nil {
			yield(Page{}, err)
			return
		}
		p := newPager(ctx, r)
		defer p.stop()
		for {
			p.start()
			if p.out != nil {
				page := *p.out
				p.out = nil // only the loop's body holds the page now
				if !yield(page, nil) {
					return
				}
				continue
			}
			if p.finished() {
				return
			}
			if rng, err := p.next(); err != nil {
				yield(Page{Range: rng}, err)
				return
			}
		}
	}
}

// pager is the state of a running loop over Pages. Only the loop's goroutine uses it and
// the reader. Each read runs on a goroutine of its own, which uses only its request.
type pager struct {
	*Reader
	ctx     context.Context //nolint:containedctx // the loop's own context, which stop ends
	cancel  context.CancelFunc
	results chan readResult
	// began is the time from which all times of the loop are counted.
	began time.Time
	// reads is the number of reads that run or whose results were not received yet.
	reads int
	// out is the next page for the loop's body, or nil.
	out *Page
}

// readResult is the result of one read, with the cursor that it belongs to.
type readResult struct {
	cursor *cursor
	page   Page
	err    error
	// started is the time at which the read was sent, and asked the time for which the
	// source may wait for changes.
	started, asked time.Duration
}

func newPager(ctx context.Context, r *Reader) *pager {
	p := &pager{Reader: r, results: make(chan readResult), began: time.Now()}
	p.ctx, p.cancel = context.WithCancel(ctx)
	for _, c := range r.cursors {
		c.end, c.reading, c.visited, c.gone, c.due = false, false, false, 0, 0
		c.tail = follow.Tail{Once: !r.cfg.Follow}
		c.pace = follow.Pace{Interval: cmp.Or(r.cfg.Wait, defaultWait)}
	}
	return p
}

// stop cancels the running reads and waits for them. It drops their pages, which is safe
// because no cursor has moved past them.
func (p *pager) stop() {
	p.cancel()
	for ; p.reads > 0; p.reads-- {
		<-p.results
	}
	for _, c := range p.cursors {
		c.tail = follow.Tail{} // Next looks for the end anew
	}
}

// now returns the time since the loop began.
func (p *pager) now() time.Duration { return time.Since(p.began) }

// parallel returns the maximum number of reads that run at the same time.
func (p *pager) parallel() int { return max(p.cfg.Parallel, 1) }

// start starts a read of each part that is due, until the maximum number of reads run.
func (p *pager) start() {
	for p.reads < p.parallel() {
		c := p.due()
		if c == nil {
			return
		}
		c.reading = true
		p.reads++
		req, res := p.request(c), readResult{cursor: c, started: p.now()}
		if c.end && len(p.cursors) <= p.parallel() {
			// Let the source wait, so that it returns a new change at once. If there were
			// more parts than parallel reads, such a read would delay the other parts.
			res.asked = c.pace.Delay(res.started)
			req.Wait = res.asked
		}
		go func() {
			res.page, res.err = p.source.Read(p.ctx, req)
			p.results <- res // next or stop receives the result
		}()
	}
}

// due returns the next part to read. It returns nil if no part is due.
func (p *pager) due() *cursor {
	now := p.now()
	for i := range p.cursors {
		at := (p.turn + i) % len(p.cursors)
		c := p.cursors[at]
		if !c.reading && !(c.end && !p.cfg.Follow) && c.due <= now {
			p.turn = at + 1
			return c
		}
	}
	return nil
}

// finished reports whether the loop must end. Follow is not set, no read runs, and every
// part is at the end of its feed.
func (p *pager) finished() bool { return p.reads == 0 && !p.cfg.Follow && p.Drained() }

// next waits until a read ends or another part is due, and handles the result of the
// read. If it returns an error, the range is the part whose read failed.
func (p *pager) next() (Range, error) {
	var wake <-chan time.Time
	if p.reads < p.parallel() {
		if soon, ok := p.soonest(); ok {
			timer := time.NewTimer(soon - p.now())
			defer timer.Stop()
			wake = timer.C
		}
	}
	select {
	case res := <-p.results:
		p.reads--
		res.cursor.reading = false
		return res.cursor.rng, p.take(res)
	case <-wake:
		return Range{}, nil
	case <-p.ctx.Done():
		return Range{}, p.ctx.Err()
	}
}

// soonest returns the earliest time at which a part is due that is not being read. It
// returns false if there is none.
func (p *pager) soonest() (soon time.Duration, ok bool) {
	for _, c := range p.cursors {
		if c.reading || c.end && !p.cfg.Follow {
			continue
		}
		if !ok || c.due < soon {
			soon, ok = c.due, true
		}
	}
	return soon, ok
}

// take handles the result of a read: its page or its error.
func (p *pager) take(res readResult) error {
	c := res.cursor
	var throttled *ThrottledError
	switch {
	case res.err == nil:
		p.show(c, res)
		return nil
	case p.skip(c, res.err):
		return nil
	case errors.As(res.err, &throttled):
		c.due = p.now() + max(throttled.RetryAfter, minThrottle)
		return nil
	}
	return p.reroute(p.ctx, c, res.err)
}

// minThrottle is the minimum time between a throttled read and the next. A source may
// report no time to wait.
const minThrottle = 10 * time.Millisecond

// show moves c past the page of res and sets the time of its next read. It delivers the
// page to the loop's body if the page has changes. It also delivers an empty page if every
// part was read since the last delivery.
func (p *pager) show(c *cursor, res readResult) {
	page, now := res.page, p.now()
	c.visited = true
	last := c.advance(page)
	page.Range = c.rng
	if len(page.Changes) > 0 {
		c.due = c.pace.Changes(res.started, now, last)
	} else {
		if last {
			c.due = c.pace.Empty(res.started, now, res.asked)
		}
		if !p.cfg.Follow || slices.ContainsFunc(p.cursors, func(c *cursor) bool { return !c.visited || !c.end }) {
			return
		}
	}
	for _, other := range p.cursors {
		other.visited = false
	}
	p.out = &page
}
