package demo

import (
	"slices"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

// counters count the writes, deliveries and lease moves of a run. They are safe for
// concurrent use.
type counters struct {
	began time.Time
	// before are the ends of the container's partitions after the earlier runs on the same
	// data.
	before []protocol.End

	mu sync.Mutex // guards everything below; held for short updates only

	// written counts the writes of this run. delivered counts the deliveries of its
	// changes, and earlier those of changes that earlier runs wrote. redelivered counts
	// repeated deliveries of both. moves counts how often a lease got another host.
	written, delivered, earlier, redelivered, moves int
	// letters counts the letters that are redriven.
	letters int
	// waiting holds the acknowledged writes that have not been delivered yet. seen holds
	// the LSN of the last delivered change. Both are by document ID.
	waiting map[string]write
	seen    map[string]int64
	// ranges holds the time of the last work on each range. After a split or merge, a new
	// range overlaps the entry of the old one.
	ranges map[feed.Range]time.Time
	// longest is the longest time in which changes waited in one range without a
	// delivery. longestIn is that range.
	longest   time.Duration
	longestIn feed.Range
	// owners holds the last owner of each lease, by token.
	owners map[string]owner
	// first and last are the times of the first and the last delivery.
	first, last time.Time
}

// write is a write that the container has acknowledged: its LSN, and the time.
type write struct {
	lsn int64
	at  time.Time
}

type owner struct {
	host string
	held bool // whether the host has not released the lease
}

func newCounters(now time.Time, before []protocol.End) *counters {
	return &counters{
		began:   now,
		before:  before,
		waiting: make(map[string]write),
		seen:    make(map[string]int64),
		ranges:  make(map[feed.Range]time.Time),
		owners:  make(map[string]owner),
	}
}

// wrote records that the container has acknowledged a write of a document.
func (t *counters) wrote(id string, lsn int64) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written++
	if t.seen[id] < lsn { // otherwise it was delivered before the writer got its answer
		t.waiting[id] = write{lsn: lsn, at: now}
	}
}

// deliver records that a host begins to handle a batch.
func (t *counters) deliver(e event) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause(e, now)
	for i, id := range e.IDs {
		lsn := e.LSNs[i]
		if t.seen[id] >= lsn {
			t.redelivered++
		}
		if t.isEarlier(e.Range, lsn) {
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
	t.ranges[e.Range] = now
}

// isEarlier reports whether an earlier run wrote the change of a range with an LSN. The
// demo merges no partitions, so each range lies in one of that time.
func (t *counters) isEarlier(r feed.Range, lsn int64) bool {
	return slices.ContainsFunc(t.before, func(e protocol.End) bool { return e.Overlaps(r) && lsn <= e.LSN })
}

// pause measures how long no host worked on the range of a batch. This time begins with
// the last work on the range, or with the acknowledgment of the batch's first change if
// that is later. A change that is delivered before its acknowledgment has not waited.
// pause ignores changes of earlier runs.
func (t *counters) pause(e event, now time.Time) {
	first := e.IDs[0]
	w, waits := t.waiting[first]
	if again := t.seen[first] >= e.LSNs[0]; !waits && !again {
		return
	}
	since, has := t.ranges[e.Range]
	if !has {
		since = t.began
		for other, at := range t.ranges {
			if other.Overlaps(e.Range) && at.After(since) {
				since = at
			}
		}
	}
	if waits && w.at.After(since) {
		since = w.at
	}
	if p := now.Sub(since); p > t.longest {
		t.longest, t.longestIn = p, e.Range
	}
}

// redrives records that n letters are redriven.
func (t *counters) redrives(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.letters += n
}

// handled records that a host has copied a batch of a range.
func (t *counters) handled(r feed.Range) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ranges[r] = now
}

// acquired records that host owns the lease now.
func (t *counters) acquired(host, token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, has := t.owners[token]; has && before.host != host {
		t.moves++
	}
	t.owners[token] = owner{host: host, held: true}
}

// released records that host no longer owns the lease.
func (t *counters) released(host, token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.owners[token]; now.host == host {
		t.owners[token] = owner{host: host}
	}
}

// holds reports whether host has a lease.
func (t *counters) holds(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.owners {
		if o.held && o.host == host {
			return true
		}
	}
	return false
}

// counts returns the counts so far for the view. delivered is the number of all
// deliveries.
func (t *counters) counts() (counts []view.Count, delivered int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts = []view.Count{{Name: "written", N: t.written}, {Name: "delivered", N: t.delivered}}
	if t.earlier > 0 {
		counts = append(counts, view.Count{Name: "from before", N: t.earlier})
	}
	return append(counts, view.Count{Name: "redelivered", N: t.redelivered, Minor: true}), t.delivered + t.earlier
}

// report returns the report of the run so far. It has no result of the comparison yet.
func (t *counters) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Report{
		Written: t.written, Delivered: t.delivered, Earlier: t.earlier, Redelivered: t.redelivered, Letters: t.letters,
		LeaseMoves: t.moves, LongestPause: t.longest, LongestPauseIn: t.longestIn,
		Elapsed: time.Since(t.began),
	}
	if took := t.last.Sub(t.first); took > 0 {
		r.PerSecond = float64(t.delivered+t.earlier) / took.Seconds()
	}
	return r
}
