package demo

import (
	"fmt"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
)

// tally counts what a run does. Its methods may be called concurrently.
type tally struct {
	began time.Time
	// before is the last LSN of earlier runs on the same data.
	before int64

	mu sync.Mutex // guards everything below; held for short updates only

	// earlier counts deliveries of changes that earlier runs wrote; delivered has none of them.
	written, delivered, earlier, redelivered, moves int
	// waiting holds the writes that were acknowledged and not delivered yet,
	// seen the LSN of the last delivery, each by document id.
	waiting map[string]write
	seen    map[string]int64
	// ranges is when each range was last worked on. A range without an entry is
	// a part of one that has one, or the other way round: split or merged.
	ranges map[feed.Range]time.Time
	// longest is the longest time that a range had changes and nobody delivered
	// them, in longestIn.
	longest   time.Duration
	longestIn feed.Range
	// owners is who has, or had last, each lease; held is false when it was given up.
	owners map[string]owner
	// first and last bound the time in which changes were delivered.
	first, last time.Time
}

type write struct {
	lsn int64
	at  time.Time
}

type owner struct {
	host string
	held bool
}

func newTally(now time.Time, before int64) *tally {
	return &tally{
		began:   now,
		before:  before,
		waiting: make(map[string]write),
		seen:    make(map[string]int64),
		ranges:  make(map[feed.Range]time.Time),
		owners:  make(map[string]owner),
	}
}

// wrote notes a write that was just acknowledged.
func (t *tally) wrote(id string, lsn int64) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written++
	if t.seen[id] < lsn { // else it was delivered before the writer got its answer
		t.waiting[id] = write{lsn: lsn, at: now}
	}
}

// deliver notes a batch that begins to be handled.
func (t *tally) deliver(host string, b *changefeed.Batch) error {
	ids := make([]string, len(b.Changes))
	for i, c := range b.Changes {
		id, err := c.ID()
		if err != nil {
			return fmt.Errorf("%s got a change without an id: %w", host, err)
		}
		ids[i] = id
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause(b, ids[0], now)
	for i, id := range ids {
		lsn := b.Changes[i].LSN
		if t.seen[id] >= lsn {
			t.redelivered++
		}
		if lsn <= t.before {
			t.earlier++
		} else {
			t.delivered++
		}
		t.seen[id] = max(lsn, t.seen[id])
		if t.waiting[id].lsn <= lsn {
			delete(t.waiting, id)
		}
	}
	if t.first.IsZero() {
		t.first = now
	}
	t.last = now
	t.ranges[b.Range] = now
	return nil
}

// pause measures how long b's range stood still: since it was last worked on, or
// since its first change was acknowledged, if that is later. A change that comes before its
// writer has the answer didn't wait, and one of an earlier run isn't measured.
func (t *tally) pause(b *changefeed.Batch, first string, now time.Time) {
	w, waits := t.waiting[first]
	if again := t.seen[first] >= b.Changes[0].LSN; !waits && !again {
		return
	}
	since, has := t.ranges[b.Range]
	if !has {
		since = t.began
		for other, at := range t.ranges {
			if other.Overlaps(b.Range) && at.After(since) {
				since = at
			}
		}
	}
	if waits && w.at.After(since) {
		since = w.at
	}
	if p := now.Sub(since); p > t.longest {
		t.longest, t.longestIn = p, b.Range
	}
}

// handled notes that a batch was copied.
func (t *tally) handled(b *changefeed.Batch) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ranges[b.Range] = now
}

// acquired notes that host has the lease now.
func (t *tally) acquired(host, token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, has := t.owners[token]; has && before.host != host {
		t.moves++
	}
	t.owners[token] = owner{host: host, held: true}
}

// released notes that host no longer has the lease.
func (t *tally) released(host, token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.owners[token]; now.host == host {
		t.owners[token] = owner{host: host}
	}
}

// holds reports whether host has a lease.
func (t *tally) holds(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.owners {
		if o.held && o.host == host {
			return true
		}
	}
	return false
}

// count sets the counts so far in a snapshot.
func (t *tally) count(s *Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Written, s.Delivered, s.Earlier, s.Redelivered = t.written, t.delivered, t.earlier, t.redelivered
}

// report is the run's account, without the comparison.
func (t *tally) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Report{
		Written: t.written, Delivered: t.delivered, Earlier: t.earlier, Redelivered: t.redelivered,
		LeaseMoves: t.moves, LongestPause: t.longest, LongestPauseIn: t.longestIn,
		Elapsed: time.Since(t.began),
	}
	if took := t.last.Sub(t.first); took > 0 {
		r.PerSecond = float64(t.delivered+t.earlier) / took.Seconds()
	}
	return r
}
