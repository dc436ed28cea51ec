package simulation

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// dueRead is a read that a worker must send at once. after is its position, and since is
// the time from which it is due.
type dueRead struct {
	tenure *tenure
	// end is the end of the feed that the reads must reach without a delay. It is the end
	// that the first of several empty pages showed.
	end   int64
	after feed.Continuation
	since time.Time
}

// readAnswered records the answer to a worker's read. If more changes may follow the
// page, the next read is due at once.
func (c *checker) readAnswered(h *host, token string, from feed.Start, page feed.Page, err error) {
	// With a smaller read-ahead, the next read waits for the handler.
	if err != nil || h.settings.readAhead != 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := tenureKey{h, token}
	next := dueRead{tenure: c.tenures[key], after: page.Continuation, since: time.Now()}
	if len(page.Changes) == 0 {
		next.end = page.End
		if last := c.reads[key]; last.tenure == next.tenure && last.after == from.Continuation() && last.end > 0 {
			next.end = last.end
		}
	}
	if mayContinue(page, from, next.end) {
		c.due[key] = next
	} else {
		next.end = 0
	}
	c.reads[key] = next
}

// mayContinue reports whether more changes may follow a page at once. That is so for a
// page with changes, unless it is known to be the last one. It is also so for an empty
// page that has advanced and is known to be before end.
func mayContinue(page feed.Page, from feed.Start, end int64) bool {
	if len(page.Changes) > 0 {
		return page.End < 0 || page.LSN < page.End
	}
	return page.Continuation != from.Continuation() && page.LSN >= 0 && page.LSN < min(page.End, end)
}

// checkDueRead checks that a read which was due at once is not sent later. The caller
// holds c.mu.
func (c *checker) checkDueRead(h *host, token string, from feed.Start) {
	key := tenureKey{h, token}
	due, ok := c.due[key]
	delete(c.due, key)
	if !ok || due.tenure != c.tenures[key] || due.after != from.Continuation() {
		return
	}
	if late := time.Since(due.since); late > 0 {
		c.violate(16, "%s: lease %s: the read after %s is %s late, though more changes may follow", h.id, token, due.after, late)
	}
}
