package changefeed

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// polling decides when the feed of a lease is read again. After a page that may not be the last
// one, that is at once. At the end of the feed, the pause is a quarter of the time since the last
// change. It is at least a twentieth of the poll interval and at most the whole interval.
//
// With the default of 5 s the first pause is 250 ms. A lease at rest reaches the interval
// 20 s and 18 reads after its last change.
//
// With a quarter, a change waits for at most a quarter of the gap before it. Of writes that come
// once a second at random, more than 99 in 100 are read within a second. Pauses that double
// reach a second sooner and miss that. The lower bound exists because an empty read costs a
// request unit, too, and because frequent changes cost fewer reads in batches.
//
// A source that waits (Request.Wait) has spent the pause in the read, so it is asked again
// at once, also after changes. Its first answer without changes shows which kind it is.
type polling struct {
	interval time.Duration
	// active is when the feed last had changes, or the work on the lease began.
	active time.Duration
	// prompt is true when the source answered at once although it had no changes.
	prompt bool
}

const (
	pollShare = 20 // the first pause is this part of the interval
	quietPart = 4  // a pause is this part of the time without changes
)

// afterChanges is when to read again after a page with changes.
func (p *polling) afterChanges(started, now time.Duration, page feed.Page) time.Duration {
	p.active = now
	if atEnd := page.End >= 0 && page.LSN >= page.End; !p.prompt || !atEnd {
		return 0
	}
	return started + p.interval/pollShare
}

// afterEmpty is when to read again after a page without.
func (p *polling) afterEmpty(started, now time.Duration) time.Duration {
	p.prompt = now-started < p.interval/2
	return started + min(p.interval, max(p.interval/pollShare, (started-p.active)/quietPart))
}
