package changefeedtest

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Read implements [feed.Source].
func (s *memSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	begin := time.Now()
	var timer *time.Timer
	for {
		if err := ctx.Err(); err != nil {
			return feed.Page{}, err
		}
		s.mu.Lock()
		page, from, err := s.page(r)
		changed := s.changed
		s.mu.Unlock()
		left := r.Wait - time.Since(begin)
		if err != nil || len(page.Changes) > 0 || left <= 0 {
			page.Diagnostics.Elapsed = time.Since(begin)
			return page, err
		}
		// What waits for a change after "now" waits from the moment it asked.
		r.From = feed.After(memContinuation(from))
		if timer == nil {
			timer = time.NewTimer(left)
			defer timer.Stop()
		}
		select {
		case <-changed:
		case <-timer.C:
			r.Wait = 0
		case <-ctx.Done():
		}
	}
}

// page reads one page. from is the position that the request stands for, which
// the page continues.
func (s *memSource) page(r feed.Request) (page feed.Page, from int64, err error) {
	scope, err := s.scope(r)
	if err != nil {
		return page, 0, err
	}
	from, err = s.position(r)
	if err != nil {
		return page, 0, err
	}
	most := r.MaxItems
	if most <= 0 {
		most = 100
	}
	page.LSN, page.End = max(from, s.lsn), s.lsn
	for i := s.after(from); i < len(s.log); i++ {
		e := &s.log[i]
		if !scope.holds(e) || !s.shows(r.Mode, i) {
			continue
		}
		if n := len(page.Changes); n >= most && page.Changes[n-1].LSN != e.change.LSN {
			page.LSN = page.Changes[n-1].LSN
			break
		}
		page.Changes = append(page.Changes, s.seen(r.Mode, e))
		page.Bytes += len(e.change.Current) + len(e.change.Previous)
	}
	page.Continuation = memContinuation(page.LSN)
	page.Charge = 1 + float64(page.Bytes)/1024
	page.SessionToken = fmt.Sprintf("%s:-1#%d", r.Partition.ID, s.lsn)
	return page, from, nil
}

// after is the index of the first entry behind a position.
func (s *memSource) after(lsn int64) int {
	return sort.Search(len(s.log), func(i int) bool { return s.log[i].change.LSN > lsn })
}

// shows reports whether a mode shows the entry at i.
func (s *memSource) shows(mode feed.Mode, i int) bool {
	if mode == feed.AllVersionsAndDeletes {
		return true
	}
	e := &s.log[i]
	return e.change.Op != feed.Delete && s.last[e.item] == i
}

// seen is the change as a mode shows it.
func (s *memSource) seen(mode feed.Mode, e *memEntry) feed.Change {
	c := e.change
	if mode == feed.LatestVersion {
		c.Op, c.Previous = feed.Upsert, nil
	}
	return c
}

// position is the LSN behind which a request begins.
func (s *memSource) position(r feed.Request) (int64, error) {
	start := r.From
	if r.Mode == feed.AllVersionsAndDeletes &&
		(start.Kind() == feed.StartBeginning || start.Kind() == feed.StartTime) {
		return 0, fmt.Errorf("all versions and deletes from %s: %w", start, feed.ErrUnsupported)
	}
	switch start.Kind() {
	case feed.StartBeginning:
		return 0, nil
	case feed.StartTime:
		if s.refuseTimes && s.merged[s.addressed(r)] {
			return 0, fmt.Errorf("a start time on a merged partition: %w", feed.ErrUnsupported)
		}
		i := sort.Search(len(s.log), func(i int) bool { return !s.log[i].change.Time.Before(start.Time()) })
		if i == len(s.log) {
			return s.lsn, nil
		}
		return s.log[i].change.LSN - 1, nil
	case feed.StartContinuation:
		return parsePosition(start.Continuation())
	case feed.StartNow:
	}
	return s.lsn, nil
}

// addressed is the ID of the partition that a request reads.
func (s *memSource) addressed(r feed.Request) string {
	if r.Partition.ID != "" {
		return r.Partition.ID
	}
	for _, p := range s.parts {
		if p.Range.Overlaps(r.Range.OrFull()) {
			return p.ID
		}
	}
	return ""
}

// memScope is what a request narrows its read to.
type memScope struct {
	r      feed.Range
	prefix string
}

func (m memScope) holds(e *memEntry) bool {
	return m.r.Holds(e.epk) && strings.HasPrefix(e.epk, m.prefix)
}

// scope finds what a request addresses, or answers that it is gone.
func (s *memSource) scope(r feed.Request) (memScope, error) {
	scope := memScope{r: r.Range.OrFull(), prefix: memEPK(r.Key)}
	if r.Partition.ID != "" {
		i := s.index(r.Partition.ID)
		if i < 0 {
			return scope, &feed.GoneError{Partition: r.Partition.ID, Range: r.Range}
		}
		scope.r = scope.r.Intersect(s.parts[i].Range)
		return scope, nil
	}
	asked := scope.r
	if scope.prefix != "" {
		asked = asked.Intersect(feed.Range{Min: scope.prefix, Max: scope.prefix + "FF"})
	}
	over := 0
	for _, p := range s.parts {
		if p.Range.Overlaps(asked) {
			over++
		}
	}
	if over > 1 {
		return scope, &feed.GoneError{Range: r.Range.OrFull()}
	}
	return scope, nil
}
