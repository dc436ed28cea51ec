package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/uncleared"
	"github.com/changefeed-go/changefeed/storetype"
)

// Limits of a page of a feed.
const (
	defaultMaxItems = 100
	// maxPageBytes bounds the documents of a page and the text between them, in bytes. As
	// in the service, an answer has at most 4 MiB, and a kilobyte is left for the text
	// around the documents. Only the first transaction of a page may exceed the limit,
	// because a page has at least one, and transactions are complete.
	maxPageBytes = 4<<20 - 1<<10
)

// feedRead is the state of one read of a feed, including its wait for a change.
type feedRead struct {
	c      *Container
	r      feed.Request
	filter keyFilter
	// since is the second of _ts before which latest version mode leaves out changes. It
	// is 0 unless a start time stands beside the request's position.
	since int64
	// several reports whether the read may cover several partitions. Otherwise such a
	// request returns a *feed.GoneError.
	several bool
	// into is the caller's memory for the page. If nil, the page gets new memory.
	into *PageBuffer
}

// readFeed returns one page of the container's feed, and the partitions that it was read
// from. If the page is empty, it waits up to r.Wait for a change. into may be nil.
func (c *Container) readFeed(ctx context.Context, r feed.Request, several bool, into *PageBuffer) (feed.Page, partitionSet, error) {
	start := time.Now()
	if err := c.admit(ctx); err != nil {
		return feed.Page{}, partitionSet{}, err
	}
	f := feedRead{c: c, r: r, several: several, into: into}
	if t := r.From.Since(); r.Mode == feed.LatestVersion && !t.IsZero() {
		f.since = t.Unix()
	}
	var err error
	if f.filter, err = c.newKeyFilter(r.Range, r.Key); err != nil {
		return feed.Page{}, partitionSet{}, err
	}
	for {
		page, sp, err := f.once(ctx)
		if err != nil {
			return feed.Page{}, sp, err
		}
		if len(page.Changes) == 0 {
			left := r.Wait - time.Since(start)
			if left > 0 {
				changed, err := c.db.await(ctx, sp.changed, sp.known, left)
				if err != nil {
					return feed.Page{}, partitionSet{}, err
				}
				if changed {
					f.r.From = feed.After(page.Continuation)
					continue
				}
			}
		}
		page.Charge = readCharge(page.Bytes)
		c.spend(page.Charge)
		page.Diagnostics.Elapsed = time.Since(start)
		return page, sp, nil
	}
}

// once reads one page from the current view, without waiting.
func (f *feedRead) once(ctx context.Context) (feed.Page, partitionSet, error) {
	v, s, err := f.c.open(ctx)
	if err != nil {
		return feed.Page{}, partitionSet{}, err
	}
	defer v.release()
	sp, err := f.filter.partitionsOf(s, f.r.Partition.ID, f.several)
	if err != nil {
		return feed.Page{}, partitionSet{}, err
	}
	w := newLogMerge(f, v, s)
	if w.pieces, err = f.resolve(v, s, &sp, w.one[:0]); err != nil {
		return feed.Page{}, sp, err
	}
	w.pieces = s.meta.joined(w.pieces)
	if err := w.read(ctx); err != nil {
		return feed.Page{}, partitionSet{}, err
	}
	page := sp.page(s.meta.positionOf(w.pieces))
	page.Changes, page.Bytes = w.changes, w.bytes
	if page.End >= 0 && len(page.Changes) > 0 {
		page.Unused = s.meta.unused(f.filter.keys.Intersect(sp.partitions[0].keys), page.Changes[0].LSN)
	}
	return page, sp, nil
}

// resolve appends the pieces of the read of a partition set to dst, which begin at the
// request's start.
func (f *feedRead) resolve(v *view, s *state, sp *partitionSet, dst []piece) (all []piece, err error) {
	if err := f.checkMode(s); err != nil {
		return nil, err
	}
	var from position
	if f.r.From.Kind() == feed.StartContinuation {
		if from, err = parseContinuation(f.r.From.Continuation()); err != nil {
			return nil, err
		}
	}
	all = sp.pieces(dst, &f.filter, from)
	switch f.r.From.Kind() {
	case feed.StartNow:
		for i := range all {
			all[i].lsn = all[i].end
		}
	case feed.StartTime:
		all, err = f.c.before(v, s.meta, all, f.r.From.Time().Unix())
	case feed.StartContinuation:
		err = s.meta.checkHistory(all)
	case feed.StartBeginning:
	default:
		err = fmt.Errorf("start of kind %d: %w", f.r.From.Kind(), feed.ErrUnsupported)
	}
	return all, err
}

// checkMode returns an error that wraps feed.ErrUnsupported if the container cannot serve
// the request's mode and start.
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

// signal wakes the readers that wait for a change of a partition or of a container. It
// stores the partition's last published LSN, or the version of the container's last
// published state. So a change between a reader's read and its wait is not missed.
type signal struct {
	mu   sync.Mutex    // guards all fields
	end  int64         // the last published LSN or version
	gone bool          // reports whether the partition was retired, or deleted with its container
	ch   chan struct{} // created by the first waiter, closed by the next change
}

// advance records end as the last published LSN or version and wakes the waiting readers.
func (s *signal) advance(end int64) { s.wake(end, false) }

// retire wakes all readers, now and later, because the partition no longer exists.
func (s *signal) retire() { s.wake(0, true) }

func (s *signal) wake(end int64, gone bool) {
	s.mu.Lock()
	s.end = max(s.end, end)
	s.gone = s.gone || gone
	ch := s.ch
	s.ch = nil
	s.mu.Unlock()
	if ch != nil {
		close(ch)
	}
}

// beyond returns a channel that is closed when an LSN or a version above end is
// published, or the signal is retired. It returns nil if that has already happened.
func (s *signal) beyond(end int64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || s.end > end {
		return nil
	}
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// await waits until an LSN or a version above end is published or the signal is retired,
// and then returns true. It returns false after the duration d. It returns an
// error if ctx ends or the store is closed.
func (db *DB) await(ctx context.Context, s *signal, end int64, d time.Duration) (bool, error) {
	ch := s.beyond(end)
	if ch == nil {
		return true, nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ch:
		return true, nil
	case <-timer.C:
		return s.beyond(end) == nil, nil // a change may have come at the same instant as the timer
	case <-ctx.Done():
		return false, ctx.Err()
	case <-db.closing:
		return false, storetype.ErrClosed
	}
}

// A page of a feed copies its documents into several pieces of memory. Its changes refer
// to the pieces, and the caller may keep them. In a measurement, a page in one piece of 1
// MB cost a tenth more. A small heap has no free block of that size, so it grows and
// shrinks all the time. The operating system then provides the same memory again and
// again.
//
// Only a [PageBuffer] is a single piece, because it also has the text of the whole page.
// The size of a page is not known in advance. It is estimated from the mean size of a
// change in the container.

// pieceSize is the size in bytes of a piece of a page's memory. A larger change gets a
// piece of its own size.
const pieceSize = 64 << 10

// slack limits the unused memory of a page to 1/slack of it. A caller that keeps the page
// also keeps its unused memory.
const slack = 4

// minBuffer is the size in bytes up to which a piece is never replaced by a smaller one.
const minBuffer = 4 << 10

// expect returns the number of changes for which the page reserves memory. That is the
// lowest of three numbers: MaxItems, the LSNs up to the ends of the pieces, and the mean
// changes that fit on a page. MaxItems may be huge, and LSNs whose items were updated
// since have no change.
func (w *logMerge) expect() int {
	mean := max(w.c.change.Load(), int64(w.c.tail.FixedSize()))
	var unread int64
	for i := range w.pieces {
		p := &w.pieces[i]
		unread += max(0, p.end-p.lsn-w.meta.unused(p.keys, p.lsn))
	}
	return int(min(int64(w.max), unread, maxPageBytes/mean+1))
}

// keep copies the documents of one change into the page's memory and returns the copy.
func (w *logMerge) keep(b []byte) []byte {
	gap := comma
	if w.into == nil || len(w.changes) == 0 {
		gap = nil
	}
	if len(w.buf)+len(gap)+len(b) > cap(w.buf) {
		w.grow(len(gap) + len(b))
	}
	w.buf = append(w.buf, gap...)
	n := len(w.buf)
	w.buf = append(w.buf, b...)
	w.bytes += len(b)
	return w.buf[n:len(w.buf):len(w.buf)]
}

// grow makes room for at least n more bytes. It allocates a new piece, or a larger buffer
// to which it moves the page's documents.
func (w *logMerge) grow(n int) {
	mean := int(w.c.change.Load())
	rest := (mean + mean/16) * (w.room - len(w.changes)) // the expected size in bytes of the changes that follow
	if w.buf == nil {
		w.changes = slices.Grow(w.changes, w.room)
	}
	if w.into == nil {
		w.buf, w.piece = uncleared.Bytes(max(min(rest, pieceSize), n)), len(w.changes)
		return
	}
	size := rest
	if w.buf != nil {
		size = 2 * cap(w.buf)
	}
	// The page never has more than maxPageBytes and one transaction, which it drops
	// unless it is the first.
	w.move(uncleared.Bytes(max(min(size, maxPageBytes+n), len(w.buf)+n)))
}

// fit is called at the end of the page. It replaces memory that is mostly unused by
// smaller memory. It stores reused memory in the PageBuffer instead.
func (w *logMerge) fit() {
	if w.into != nil {
		w.into.bytes, w.into.changes = w.buf, w.changes
		return
	}
	if len(w.changes) == 0 {
		w.buf = nil
		return
	}
	w.c.change.Store(int64(w.bytes / len(w.changes)))
	if unused := cap(w.changes) - len(w.changes); unused > defaultMaxItems && unused > cap(w.changes)/slack {
		w.changes = append(make([]feed.Change, 0, len(w.changes)), w.changes...)
	}
	if unused := cap(w.buf) - len(w.buf); cap(w.buf) > minBuffer && unused > (w.bytes+unused)/slack {
		w.move(uncleared.Bytes(len(w.buf)))
	}
}

// move copies the bytes of buf, the page's memory, to the given slice. The changes then
// refer to the copy.
func (w *logMerge) move(buf []byte) {
	w.buf = append(buf, w.buf...)
	at := 0
	take := func(n int) []byte {
		b := w.buf[at : at+n : at+n]
		at += n
		return b
	}
	for i := w.piece; i < len(w.changes); i++ {
		if w.into != nil && i > 0 {
			at += len(comma)
		}
		c := &w.changes[i]
		if c.Current != nil {
			c.Current = take(len(c.Current))
		}
		if c.Previous != nil {
			c.Previous = take(len(c.Previous))
		}
	}
}

// PageBuffer is memory that several pages of a feed use, one after the other. For a
// caller that only forwards each page, that saves most of the cost of a page. The zero
// value is ready to use. A PageBuffer serves one read at a time.
type PageBuffer struct {
	// Around returns the number of bytes that the caller writes around the documents of a
	// change. They count towards the size of the page. If nil, there are none.
	Around func(*feed.Change) int

	bytes   []byte
	changes []feed.Change
}

// Size returns the size of the buffer in bytes. It is the size of the largest page that
// was read into the buffer.
func (b *PageBuffer) Size() int { return cap(b.bytes) }

// Text returns the documents of the buffer's page in latest version mode, separated by
// commas. It is valid until the next read and must not be changed.
func (b *PageBuffer) Text() []byte { return b.bytes }

// FeedInto returns a page as Feed does, but uses the memory of a PageBuffer. The changes
// and their documents are valid until the next read into the buffer. With an error about the
// start, the page has the partitions that refused it.
func (c *Container) FeedInto(ctx context.Context, r feed.Request, into *PageBuffer) (FeedPage, error) {
	if into != nil {
		into.bytes, into.changes = into.bytes[:0], into.changes[:0]
	}
	page, sp, err := c.readFeed(ctx, r, true, into)
	return FeedPage{Page: page, Served: served(sp.partitions, sp.ends)}, err
}

// comma separates the documents in the text of a PageBuffer.
var comma = []byte(",")

// begin makes the page use the memory of the PageBuffer, if the read has one.
func (w *logMerge) begin() {
	if w.into == nil {
		return
	}
	w.buf, w.changes = w.into.bytes[:0], w.into.changes[:0]
}
