package store

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
	// after is the LSN behind which to read. It is known once resolved is set; a
	// read that waits goes on from there, whatever the request's start.
	after    int64
	resolved bool
}

// readFeed returns one page of the container's feed.
func (c *Container) readFeed(ctx context.Context, r feed.Request) (feed.Page, error) {
	start := time.Now()
	if err := c.admit(ctx); err != nil {
		return feed.Page{}, err
	}
	f := feedRead{c: c, r: r}
	var err error
	if f.scope, err = c.newScope(r.Range, r.Key); err != nil {
		return feed.Page{}, err
	}
	for {
		page, part, err := f.once(ctx)
		if err != nil {
			return feed.Page{}, err
		}
		if len(page.Changes) == 0 {
			left := r.Wait - time.Since(start)
			if left > 0 {
				changed, err := c.db.await(ctx, part.changed, page.End, left)
				if err != nil {
					return feed.Page{}, err
				}
				if changed {
					continue
				}
			}
		}
		page.Charge = pageCharge(page.Bytes)
		c.bucket.spend(page.Charge)
		page.Diagnostics.Elapsed = time.Since(start)
		return page, nil
	}
}

// once reads one page from the current view.
func (f *feedRead) once(ctx context.Context) (feed.Page, *partition, error) {
	v, s, err := f.c.open()
	if err != nil {
		return feed.Page{}, nil, err
	}
	defer v.release()
	place, err := f.scope.partitionIn(s.meta, f.r.Partition.ID)
	if err != nil {
		return feed.Page{}, nil, err
	}
	part, end := s.meta.partitions[place], s.ends[place]
	if err := f.resolve(v, s, part, end); err != nil {
		return feed.Page{}, nil, err
	}
	w := newWalk(f, v, s, part)
	if w.trimmed() <= w.position {
		err = w.run(ctx, end)
	} else {
		w.lost = true
	}
	if err == nil && w.lost {
		err = w.historyLost(end)
	}
	if err != nil {
		return feed.Page{}, nil, err
	}
	f.after = w.position
	return feed.Page{
		Changes: w.changes, Continuation: continuation(w.position), LSN: w.position, End: end,
		Bytes: len(w.buf), SessionToken: part.id + ":-1#" + strconv.FormatInt(end, 10),
	}, part, nil
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
