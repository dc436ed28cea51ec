package changefeed

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// polling decides when a lease's feed is read again. Behind a page that may not be the
// last one, at once. At the end of the feed, after a quarter of the time for which
// nothing came, but no sooner than a twentieth of the poll interval and no later than
// the interval. With the default of 5 s that is 250 ms at first, 18 reads until the
// interval is reached 20 s after the last change, and one per interval from then on.
//
// Why a quarter: how long a change waits is then at most a quarter of the gap before
// it. Writes that come once a second, at random, are read within a second more than
// 99 times in 100; doubling pauses, which reach a second sooner, miss that. Why a
// twentieth: each read costs a request unit also when it finds nothing, and changes
// that come thick and fast cost fewer reads and checkpoints in batches.
//
// A source that waits (Request.Wait) paces itself: what it waited is part of the pause,
// so that there is none left, and behind changes it is asked again at once. Which kind
// a source is shows in its first answer that holds nothing.
type polling struct {
	interval time.Duration
	// active is when the feed last had changes, or the work on the lease began.
	active time.Duration
	// prompt: the source was seen to answer at once though it had nothing.
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
