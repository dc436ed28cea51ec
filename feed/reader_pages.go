package feed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// defaultWait is the default of ReaderConfig.Wait for a loop that follows the feed. It is
// the processor's poll interval.
const defaultWait = 5 * time.Second

// Pages returns an iterator over the pages of the feed:
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
// [Page.Range] is the part of the range that the page belongs to. In the loop's body,
// [Reader.Position] returns the position after this page and all earlier ones. Pages that
// the reader has prefetched do not count. A caller may leave the loop at any time;
// another loop resumes from the same position.
//
// Without [ReaderConfig.Follow] the loop ends at the end of the feed: when the last read
// of each part returned no changes. Its pages are never empty.
//
// With Follow the loop does not end. It returns an empty page each time it has read all
// parts again and none had changes. So the body can store the position of an idle feed.
//
// The loop reads [ReaderConfig.Parallel] parts at the same time, also while the body
// runs. The pages of one part arrive in order, and all changes of a key are in one part.
//
// A throttled read is repeated after the time that the source requests. Any other error
// is passed to the body, with the part in Page.Range, and ends the loop. So does the end
// of ctx.
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
				p.out = nil // from here only the body holds the page
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

// pager is a running loop over Pages. It alone uses the reader. Each read runs in its own
// goroutine and uses nothing but its request.
type pager struct {
	*Reader
	ctx     context.Context //nolint:containedctx // the loop's own, ended by stop
	cancel  context.CancelFunc
	results chan readResult
	// reads counts the reads that run or whose results were not received yet.
	reads int
	// out is the next page to deliver.
	out *Page
}

// readResult is the result of a read.
type readResult struct {
	cursor *cursor
	page   Page
	err    error
	// until is the time until which the source was asked to wait. It is zero for a read
	// that does not wait.
	until time.Time
}

func newPager(ctx context.Context, r *Reader) *pager {
	p := &pager{Reader: r, results: make(chan readResult)}
	p.ctx, p.cancel = context.WithCancel(ctx)
	now := time.Now()
	for _, c := range r.cursors {
		c.end, c.reading, c.visited, c.gone = false, false, false, 0
		c.due, c.active = now, now
	}
	return p
}

// stop cancels the running reads and waits for them. It discards their pages: no cursor
// has moved past them.
func (p *pager) stop() {
	p.cancel()
	for ; p.reads > 0; p.reads-- {
		<-p.results
	}
}

// parallel returns the maximum number of reads that run at the same time.
func (p *pager) parallel() int { return max(p.cfg.Parallel, 1) }

// start starts reads of the parts that are due, each in its turn, up to the maximum.
func (p *pager) start() {
	for p.reads < p.parallel() {
		c := p.due()
		if c == nil {
			return
		}
		c.reading = true
		p.reads++
		req, res := p.request(c), readResult{cursor: c}
		if c.end && len(p.cursors) <= p.parallel() {
			// A source that can wait finds a change at once. If there are more parts than
			// parallel reads, a waiting read would delay the other parts.
			req.Wait = p.pause(c)
			res.until = time.Now().Add(req.Wait)
		}
		go func() {
			res.page, res.err = p.source.Read(p.ctx, req)
			p.results <- res // next or stop receives it
		}()
	}
}

// due returns the next part to read. It returns nil if no part is due.
func (p *pager) due() *cursor {
	now := time.Now()
	for i := range p.cursors {
		at := (p.turn + i) % len(p.cursors)
		c := p.cursors[at]
		if !c.reading && !(c.end && !p.cfg.Follow) && !c.due.After(now) {
			p.turn = at + 1
			return c
		}
	}
	return nil
}

// finished reports whether nothing remains to be read.
func (p *pager) finished() bool { return p.reads == 0 && !p.cfg.Follow && p.Drained() }

// next waits until a read ends or another part is due, and processes the result. The
// range belongs to the error.
func (p *pager) next() (Range, error) {
	var wake <-chan time.Time
	if p.reads < p.parallel() {
		if soon, ok := p.soonest(); ok {
			timer := time.NewTimer(time.Until(soon))
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

// soonest returns the time at which the next part that is not being read is due.
func (p *pager) soonest() (soon time.Time, ok bool) {
	for _, c := range p.cursors {
		if c.reading || c.end && !p.cfg.Follow {
			continue
		}
		if !ok || c.due.Before(soon) {
			soon, ok = c.due, true
		}
	}
	return soon, ok
}

// take moves the cursor past the page of a read, or handles the read's error.
func (p *pager) take(res readResult) error {
	c := res.cursor
	var (
		gone      *GoneError
		throttled *ThrottledError
	)
	switch {
	case res.err == nil:
		p.show(c, res.page, res.until)
		return nil
	case p.skip(c, res.err):
		return nil
	case errors.As(res.err, &throttled):
		c.due = time.Now().Add(max(throttled.RetryAfter, minThrottle))
		return nil
	case errors.As(res.err, &gone) && c.gone < maxReroutes:
		return p.reroute(p.ctx, c, gone)
	case gone != nil:
		return fmt.Errorf("gave up after %d attempts: %w", maxReroutes, res.err)
	}
	return fmt.Errorf("read range %s: %w", c.rng, res.err)
}

// minThrottle is the minimum pause after a throttled read, for a source that reports no
// pause.
const minThrottle = 10 * time.Millisecond

// show moves c past page and sets the time of c's next read. It delivers the page if the
// page has changes, or if it ends a round of all parts without changes. until is the time
// until which the source was asked to wait.
func (p *pager) show(c *cursor, page Page, until time.Time) {
	now := time.Now()
	c.due, c.visited = now, true
	switch end := c.advance(page); {
	case end && until.IsZero():
		c.due = now.Add(p.pause(c))
	case end:
		c.due = until // until has passed, unless the source cannot wait
	}
	page.Range = c.rng
	if len(page.Changes) > 0 {
		c.active = now
	} else if !p.cfg.Follow || slices.ContainsFunc(p.cursors, func(c *cursor) bool { return !c.visited || !c.end }) {
		return
	}
	for _, other := range p.cursors {
		other.visited = false
	}
	p.out = &page
}

// pause returns the time between two reads of c without changes. It is a quarter of the
// time since the last change, at least a twentieth of the wait and at most the wait.
func (p *pager) pause(c *cursor) time.Duration {
	wait := p.cfg.Wait
	if wait == 0 {
		wait = defaultWait
	}
	return min(max(time.Since(c.active)/4, wait/20, 1), wait)
}
