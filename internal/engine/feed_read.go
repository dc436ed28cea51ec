package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Limits of a page of a feed.
const (
	defaultMaxItems = 100
	// maxPageBytes bounds a page: no further transaction is taken in once it holds
	// as much. The one that reaches it is there whole.
	maxPageBytes = 4 << 20
)

// feedRead is one read of a feed, from its request to its page.
type feedRead struct {
	c     *Container
	r     feed.Request
	scope scope
	// spans tells that a scope may lie in several partitions; else that is answered with
	// *feed.GoneError.
	spans bool
	// into is memory to make the page in; nil: each page gets its own.
	into *PageBuffer
	// after is the LSN behind which to read. It is known once resolved is set; a
	// read that waits goes on from there, whatever the request's start.
	after    int64
	resolved bool
}

// readFeed returns one page of the container's feed, and what it was read from. into may be nil.
func (c *Container) readFeed(ctx context.Context, r feed.Request, spans bool, into *PageBuffer) (feed.Page, span, error) {
	start := time.Now()
	if err := c.admit(ctx); err != nil {
		return feed.Page{}, span{}, err
	}
	f := feedRead{c: c, r: r, spans: spans, into: into}
	var err error
	if f.scope, err = c.newScope(r.Range, r.Key); err != nil {
		return feed.Page{}, span{}, err
	}
	for {
		page, sp, err := f.once(ctx)
		if err != nil {
			return feed.Page{}, span{}, err
		}
		if len(page.Changes) == 0 {
			left := r.Wait - time.Since(start)
			if left > 0 {
				changed, err := c.db.await(ctx, sp.changed, sp.known, left)
				if err != nil {
					return feed.Page{}, span{}, err
				}
				if changed {
					continue
				}
			}
		}
		page.Charge = pageCharge(page.Bytes)
		c.bucket.spend(page.Charge)
		page.Diagnostics.Elapsed = time.Since(start)
		return page, sp, nil
	}
}

// once reads one page from the current view.
func (f *feedRead) once(ctx context.Context) (feed.Page, span, error) {
	v, s, err := f.c.open()
	if err != nil {
		return feed.Page{}, span{}, err
	}
	defer v.release()
	sp, err := f.scope.spanIn(s, f.r.Partition.ID, f.spans)
	if err != nil {
		return feed.Page{}, span{}, err
	}
	if err := f.resolve(v, s, sp.part, sp.end); err != nil {
		return feed.Page{}, span{}, err
	}
	w := newWalk(f, v, s, sp.part)
	if w.trimmed() <= w.position {
		w.part = sp.behind(w.position)
		err = w.run(ctx, sp.end)
	} else {
		w.lost = true
	}
	if err == nil && w.lost {
		w.part = sp.part
		err = w.historyLost(sp.end)
	}
	if err != nil {
		return feed.Page{}, span{}, err
	}
	f.after = w.position
	page := sp.page(w.position)
	page.Changes, page.Bytes = w.changes, w.bytes
	return page, sp, nil
}

// resolve finds the LSN behind which the request starts.
func (f *feedRead) resolve(v *view, s *state, part *partition, end int64) (err error) {
	if f.resolved {
		return nil
	}
	if err := f.checkMode(s); err != nil {
		return err
	}
	switch f.r.From.Kind() {
	case feed.StartNow:
		f.after = end
	case feed.StartBeginning:
		f.after = 0
	case feed.StartTime:
		f.after, err = f.c.before(v, spaceLog, s.meta, part, f.r.From.Time().Unix(), end)
	case feed.StartContinuation:
		f.after, err = parseContinuation(f.r.From.Continuation())
	default:
		err = fmt.Errorf("start of kind %d: %w", f.r.From.Kind(), feed.ErrUnsupported)
	}
	f.resolved = err == nil
	return err
}

// checkMode refuses what a mode can't do.
func (f *feedRead) checkMode(s *state) error {
	if f.r.Mode == feed.LatestVersion {
		return nil
	}
	if f.r.Mode != feed.AllVersionsAndDeletes {
		return fmt.Errorf("feed mode %d: %w", f.r.Mode, feed.ErrUnsupported)
	}
	if s.meta.props.Retention == 0 {
		return fmt.Errorf("container %q keeps no versions (its retention is not set): all versions and deletes mode is %w",
			f.c.name, feed.ErrUnsupported)
	}
	if kind := f.r.From.Kind(); kind == feed.StartBeginning || kind == feed.StartTime {
		return fmt.Errorf("to start all versions and deletes mode from the beginning or from a time is %w; start now or from a continuation",
			feed.ErrUnsupported)
	}
	return nil
}

// continuation writes an LSN as a continuation: the form of an ETag.
func continuation(lsn int64) feed.Continuation {
	var space [22]byte
	b := strconv.AppendInt(append(space[:0], '"'), lsn, 10)
	return feed.Continuation(append(b, '"'))
}

// parseContinuation is the reverse of continuation. It refuses everything else.
func parseContinuation(c feed.Continuation) (int64, error) {
	s := string(c)
	if len(s) > 2 && strings.HasPrefix(s, `"`) && strings.HasSuffix(s, `"`) {
		digits := s[1 : len(s)-1]
		if lsn, err := strconv.ParseInt(digits, 10, 64); err == nil && lsn >= 0 && strconv.FormatInt(lsn, 10) == digits {
			return lsn, nil
		}
	}
	return 0, badRequest(BadContinuation, "%.60q is no continuation of this store: that is a decimal LSN in double quotes", s)
}
