// Package follow has the rules for following a change feed that every reader obeys: when
// an empty page is the end ([Tail]), how long to pause there ([Pace]), and how a range of
// keys is cut over partitions ([Over]).
//
// It knows no types of package feed, so that feed itself can use it. LSNs are numbers, and
// a time is counted from any fixed moment.
package follow

import (
	"cmp"
	"slices"
	"time"
)

// Tail finds the end of a feed to which others write. The zero value is ready to follow a
// feed without end.
//
// A source may return an empty page in the middle of the feed, for instance after it has
// read entries of other keys only. If every such page passed for the end, a reader would
// fall behind. But a reader must not chase an end that the writes of other keys keep
// moving either, so the end is the one that the first page showed.
type Tail struct {
	// Once keeps that end for good, for a reader that stops there. Otherwise each page with
	// changes, and each end, is followed by a new search.
	Once bool
	// end is the end that the first page showed, or 0.
	end int64
}

// Changes records a page with changes and reports whether it reaches the end. lsn is the
// page's position and end the last LSN of the feed, each -1 if unknown. Without them, a page
// with changes is never the last.
func (t *Tail) Changes(lsn, end int64) bool {
	if !t.Once {
		t.end = 0
	}
	last := cmp.Or(t.end, max(end, 0))
	if t.Once {
		t.end = last
	}
	return last > 0 && lsn >= last
}

// Empty records a page without changes and reports whether it reaches the end. moved
// reports whether the page's position differs from the position of its read. A page that
// has not moved, or whose LSNs are unknown, is the end.
func (t *Tail) Empty(lsn, end int64, moved bool) bool {
	t.end = cmp.Or(t.end, max(end, 0))
	if moved && lsn >= 0 && lsn < min(t.end, end) {
		return false
	}
	if !t.Once {
		t.end = 0
	}
	return true
}

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

// Over returns the parts that hold keys of r, in the order of their ranges. at is the key
// up to which they cover r without a gap or an overlap. It is r's Max if they cover all.
func Over[R ~struct{ Min, Max string }, P any](r R, parts []P, rangeOf func(P) R) (over []P, at string) {
	type keys = struct{ Min, Max string }
	all := keys(r)
	for _, part := range parts {
		if k := keys(rangeOf(part)); max(k.Min, all.Min) < min(k.Max, all.Max) {
			over = append(over, part)
		}
	}
	slices.SortStableFunc(over, func(a, b P) int { return cmp.Compare(keys(rangeOf(a)).Min, keys(rangeOf(b)).Min) })
	at = all.Min
	for _, part := range over {
		k := keys(rangeOf(part))
		if low := max(k.Min, all.Min); low != at {
			return over, min(low, at)
		}
		at = min(k.Max, all.Max)
	}
	return over, at
}
