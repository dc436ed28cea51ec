package changefeed

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// polling determines when the feed of a lease is read again. After a page that may not be
// the last one, that is at once. At the end of the feed, the delay is a quarter of the
// time since the last change. It is at least a twentieth of the poll interval and at most
// the whole interval.
//
// With the default of 5 s the first delay is 250 ms. The delay of an idle lease reaches
// the interval 20 s and 18 reads after the last change.
//
// With a quarter, a change waits for at most a quarter of the gap before it. If writes
// come at random once a second, more than 99 in 100 are read within a second. Delays that
// double reach one second sooner and miss that goal. The lower bound exists because an
// empty read also costs a request unit, and because frequent changes need fewer reads in
// batches.
//
// A source that waits (Request.Wait) has spent the delay in the read. So it is read again
// at once, also after changes. Its first empty page shows whether it waits.
type polling struct {
	interval time.Duration
	// active is the time of the last page with changes. Before the first one it is the
	// time at which work on the lease began.
	active time.Duration
	// prompt reports whether the source returned an empty page without waiting.
	prompt bool
	// behind is the end of the feed when an empty page first showed that the reads are
	// before it. It is 0 if they are not.
	behind int64
}

const (
	pollShare = 20 // the shortest delay is the interval divided by pollShare
	quietPart = 4  // a delay is the time since the last change divided by quietPart
)

// afterChanges returns the time of the next read after a page with changes. started is
// the time at which that page's read was sent.
func (p *polling) afterChanges(started, now time.Duration, page feed.Page) time.Duration {
	p.active, p.behind = now, 0
	if atEnd := page.End >= 0 && page.LSN >= page.End; !p.prompt || !atEnd {
		return 0
	}
	return started + p.interval/pollShare
}

// afterEmpty returns the time of the next read after an empty page. started is the time
// at which that page's read was sent. advanced reports whether the page's position differs
// from the position of the read.
//
// A source may return an empty page in the middle of the feed, for instance after it has
// read entries of other keys only. If each such page delayed the next read, a lease would
// fall behind. So the next read follows at once if the page has advanced, until the reads
// reach the end that the first such page showed. Then a read is delayed, even if that
// end has moved: writes of other keys may move it all the time.
func (p *polling) afterEmpty(started, now time.Duration, page feed.Page, advanced bool) time.Duration {
	if advanced && page.LSN >= 0 && page.LSN < page.End {
		if p.behind == 0 {
			p.behind = page.End
		}
		if page.LSN < p.behind {
			return 0
		}
	}
	p.behind = 0
	p.prompt = now-started < p.interval/2
	return started + min(p.interval, max(p.interval/pollShare, (started-p.active)/quietPart))
}
