package feed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// defaultWait is ReaderConfig.Wait for a loop that follows: the processor's poll
// interval.
const defaultWait = 5 * time.Second

// Pages returns a loop over what the reader finds:
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
// [Page.Range] says which part of the range a page is of, and within the loop's
// body [Reader.Position] is the place behind the page and all before it: pages
// that were read ahead don't count. Leaving the loop keeps the place; another
// loop goes on there.
//
// The loop ends at the end of the feed, after each part was read up to where it
// had nothing new; its pages are never empty. With [ReaderConfig.Follow] it
// doesn't end, and an empty page is shown each time all parts were read again
// and had nothing, so that the body can keep the position of a feed at rest.
//
// As many parts as [ReaderConfig.Parallel] says are read at the same time, also
// while the body works; the pages of one part come in their order, and all
// changes of a key are in one part. A throttled read is repeated after the time
// that the source asks for. Any other error is given to the body, with the part
// in Page.Range, and ends the loop, as the end of ctx does.
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
				p.out = nil // the page is the body's alone
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

// pager is a loop over Pages at work. It has the reader for itself: reads run in
// goroutines of their own, which know nothing but their request.
type pager struct {
	*Reader
	ctx     context.Context //nolint:containedctx // the loop's own, ended by stop
	cancel  context.CancelFunc
	results chan readResult
	// reads is how many goroutines read, or have read and not been heard yet.
	reads int
	// out is the page to be handed out next.
	out *Page
}

// readResult is the end of a read.
type readResult struct {
	cursor *cursor
	page   Page
	err    error
	// until is the end of the time for which the read was to be held; zero: not at all.
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

// stop ends the reads that are under way and waits for them. Their pages are
// forgotten: no cursor has moved behind them.
func (p *pager) stop() {
	p.cancel()
	for ; p.reads > 0; p.reads-- {
		<-p.results
	}
}

// parallel is how many reads may be under way.
func (p *pager) parallel() int { return max(p.cfg.Parallel, 1) }

// start begins as many reads as may be and are due, each part in its turn.
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
			// A source that can wait finds a change at once. Where there are more
			// parts than reads at a time, a held one would keep others waiting.
			req.Wait = p.pause(c)
			res.until = time.Now().Add(req.Wait)
		}
		go func() {
			res.page, res.err = p.source.Read(p.ctx, req)
			p.results <- res // next or stop takes it
		}()
	}
}

// due is the part to read now, nil if there is none.
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

// finished reports whether nothing is left to be read.
func (p *pager) finished() bool { return p.reads == 0 && !p.cfg.Follow && p.Drained() }

// next waits for the end of a read, or until another part is due, and takes in
// what was read. The range is the error's.
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

// soonest is when the next part that isn't being read is due.
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

// take moves a cursor behind what was read, or answers its error.
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

// minThrottle is the least pause after a throttled read, for a source that
// names none.
const minThrottle = 10 * time.Millisecond

// show moves c behind page, says when it is read again, and hands the page out
// if it has changes or stands for a round that had none. The read was to be held
// until then.
func (p *pager) show(c *cursor, page Page, until time.Time) {
	now := time.Now()
	c.due, c.visited = now, true
	switch end := c.advance(page); {
	case end && until.IsZero():
		c.due = now.Add(p.pause(c))
	case end:
		c.due = until // which is now, unless the source can't wait
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

// pause is the time from one read of c that finds nothing to the next: a quarter
// of the time for which nothing came, between a twentieth of the wait and all of it.
func (p *pager) pause(c *cursor) time.Duration {
	wait := p.cfg.Wait
	if wait == 0 {
		wait = defaultWait
	}
	return min(max(time.Since(c.active)/4, wait/20, 1), wait)
}
