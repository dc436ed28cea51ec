package follow

import (
	"context"
	"time"
)

// Pace determines when a feed is read again. At its end, the delay is a quarter of the time
// since the last change, at least a twentieth of Interval and at most the whole. Anywhere
// else there is none.
//
// With an interval of 5 s, the first delay is 250 ms, and that of an idle feed reaches the
// interval 20 s and 18 reads after the last change. A quarter means that a change waits for
// at most a quarter of the gap before it. If writes come at random once a second, more than
// 99 in 100 are read within a second. Delays that double reach one second sooner and miss
// that goal. The lower bound exists because an empty read costs a request unit too, and
// because frequent changes need fewer reads in batches.
//
// A delay counts from the start of the read before it. So a source that can wait for
// changes, and has spent the delay in the read, is read again at once.
type Pace struct {
	Interval time.Duration
	// Active is the time of the last page with changes. Before the first one it is the time
	// at which reading began.
	Active time.Duration
	// prompt reports whether the source has answered a read that was to wait at once.
	prompt bool
}

const (
	share = 20 // the shortest delay is the interval divided by share
	quiet = 4  // a delay is the time since the last change divided by quiet
)

// Delay returns the delay after a read at the end that starts at started. It is positive.
func (p *Pace) Delay(started time.Duration) time.Duration {
	return min(max((started-p.Active)/quiet, p.Interval/share, 1), p.Interval)
}

// Changes records a page with changes, whose read was sent at started, and returns the time
// of the next read. last reports whether the page reaches the end of the feed. A read that
// followed it at once would find nothing, unless the source waits.
func (p *Pace) Changes(started, now time.Duration, last bool) time.Duration {
	p.Active = now
	if !p.prompt || !last {
		return now
	}
	return started + p.Interval/share
}

// Empty records an empty page at the end of the feed, whose read was sent at started, and
// returns the time of the next read. asked is the time for which the source was to wait for
// changes, or 0.
func (p *Pace) Empty(started, now, asked time.Duration) time.Duration {
	if asked > 0 {
		p.prompt = now-started < asked/2
	}
	return started + p.Delay(started)
}

// Sleep waits for a time. It returns the error of ctx if that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
