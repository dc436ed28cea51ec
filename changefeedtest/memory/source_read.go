package memory

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Read implements [feed.Source]. A continuation is a decimal LSN in double quotes, as the
// embedded store's.
func (s *Source) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	begin, since := time.Now(), r.From.Since()
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
		// A read from now waits for changes after the moment of the request.
		r.From = feed.After(continuation(from))
		if !since.IsZero() {
			r.From = feed.AfterSince(continuation(from), since)
		}
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

// page reads one page. from is the LSN after which the page begins.
func (s *Source) page(r feed.Request) (page feed.Page, from int64, err error) {
	keys, p, err := s.selection(r)
	if err != nil {
		return page, 0, err
	}
	from, err = s.start(r, p)
	if err != nil {
		return page, 0, err
	}
	maxItems := r.MaxItems
	if maxItems <= 0 {
		maxItems = 100
	}
	page.LSN, page.End = p.lsn, p.lsn
	prefix, since := EPK(r.Key), r.From.Since()
	for _, e := range p.log[p.after(from):] {
		if !keys.Holds(e.epk) || !strings.HasPrefix(e.epk, prefix) || !s.visible(r.Mode, e) || e.change.Time.Before(since) {
			continue
		}
		if n := len(page.Changes); n >= maxItems && page.Changes[n-1].LSN != e.change.LSN {
			page.LSN = page.Changes[n-1].LSN
			break
		}
		c := e.change
		if r.Mode == feed.LatestVersion {
			c.Op, c.Previous = feed.Upsert, nil
		}
		page.Changes = append(page.Changes, c)
		page.Bytes += len(e.change.Current) + len(e.change.Previous)
	}
	page.Continuation = continuation(page.LSN)
	page.Charge = 1 + float64(page.Bytes)/1024
	page.SessionToken = fmt.Sprintf("%s:-1#%d", r.Partition.ID, p.lsn)
	return page, from, nil
}

// after returns the index in p.log of the first entry whose LSN is greater than lsn.
func (p *partition) after(lsn int64) int {
	return sort.Search(len(p.log), func(i int) bool { return p.log[i].change.LSN > lsn })
}

// visible reports whether the feed of a mode contains a log entry.
func (s *Source) visible(mode feed.Mode, e *entry) bool {
	return mode == feed.AllVersionsAndDeletes || e.change.Op != feed.Delete && s.last[e.item] == e
}

// start returns the LSN after which a request begins to read a partition.
func (s *Source) start(r feed.Request, p *partition) (int64, error) {
	start := r.From
	if r.Mode == feed.AllVersionsAndDeletes &&
		(start.Kind() == feed.StartBeginning || start.Kind() == feed.StartTime) {
		return 0, fmt.Errorf("all versions and deletes from %s: %w", start, feed.ErrUnsupported)
	}
	switch start.Kind() {
	case feed.StartBeginning:
		return 0, nil
	case feed.StartTime:
		if s.options.RefuseTimesAfterMerge && p.merged {
			return 0, fmt.Errorf("a start time on a merged partition: %w", feed.ErrUnsupported)
		}
		// After a merge, the log is not sorted by time.
		for _, e := range p.log {
			if !e.change.Time.Before(start.Time()) {
				return e.change.LSN - 1, nil
			}
		}
		return p.lsn, nil
	case feed.StartContinuation:
		lsn, err := position(start.Continuation())
		if err == nil && lsn > p.lsn {
			err = &feed.HistoryLostError{
				Reason: fmt.Sprintf("the log of partition %s ends at LSN %d, before the position %d, as after the restore of an older copy", p.ID, p.lsn, lsn),
				Ended:  true,
				Oldest: continuation(p.lsn),
			}
		}
		return lsn, err
	case feed.StartNow:
	}
	return p.lsn, nil
}

// selection returns the range of keys that a request reads and its partition, or a
// GoneError.
func (s *Source) selection(r feed.Request) (feed.Range, *partition, error) {
	keys := r.Range.OrFull()
	if id := r.Partition.ID; id != "" {
		i := s.index(id)
		if i < 0 {
			return keys, nil, &feed.GoneError{Partition: id, Range: r.Range}
		}
		return keys.Intersect(s.parts[i].Range), s.parts[i], nil
	}
	selected := keys
	if prefix := EPK(r.Key); prefix != "" {
		selected = selected.Intersect(feed.Range{Min: prefix, Max: prefix + "FF"})
	}
	var only *partition
	for _, p := range s.parts {
		switch {
		case !p.Range.Overlaps(selected):
		case only != nil:
			return keys, nil, &feed.GoneError{Range: keys}
		default:
			only = p
		}
	}
	if only == nil {
		return keys, nil, fmt.Errorf("read range %s: the range is empty", keys)
	}
	return keys, only, nil
}

// continuation returns the continuation that resumes after an LSN.
func continuation(lsn int64) feed.Continuation {
	return feed.Continuation(`"` + strconv.FormatInt(lsn, 10) + `"`)
}

// position returns the LSN after which a continuation resumes.
func position(c feed.Continuation) (int64, error) {
	n, err := strconv.ParseInt(strings.Trim(string(c), `"`), 10, 64)
	if err != nil || n < 0 || continuation(n) != c {
		return 0, fmt.Errorf("continuation %q is not of this source", string(c))
	}
	return n, nil
}
