package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

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
	c      *Container
	r      feed.Request
	filter keyFilter
	// several allows a request for keys of several partitions, which otherwise returns a
	// *feed.GoneError.
	several bool
	// into is memory to make the page in; nil: each page gets its own.
	into *PageBuffer
	// after is the LSN behind which to read. It is known once resolved is set; a
	// read that waits goes on from there, whatever the request's start.
	after    int64
	resolved bool
}

// readFeed returns one page of the container's feed, and what it was read from. into may be nil.
func (c *Container) readFeed(ctx context.Context, r feed.Request, several bool, into *PageBuffer) (feed.Page, partitionSet, error) {
	start := time.Now()
	if err := c.admit(ctx); err != nil {
		return feed.Page{}, partitionSet{}, err
	}
	f := feedRead{c: c, r: r, several: several, into: into}
	var err error
	if f.filter, err = c.newKeyFilter(r.Range, r.Key); err != nil {
		return feed.Page{}, partitionSet{}, err
	}
	for {
		page, sp, err := f.once(ctx)
		if err != nil {
			return feed.Page{}, partitionSet{}, err
		}
		if len(page.Changes) == 0 {
			left := r.Wait - time.Since(start)
			if left > 0 {
				changed, err := c.db.await(ctx, sp.changed, sp.known, left)
				if err != nil {
					return feed.Page{}, partitionSet{}, err
				}
				if changed {
					continue
				}
			}
		}
		page.Charge = readCharge(page.Bytes)
		c.bucket.spend(page.Charge)
		page.Diagnostics.Elapsed = time.Since(start)
		return page, sp, nil
	}
}

// once reads one page from the current view.
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
	if err := f.resolve(v, s, sp.part, sp.end); err != nil {
		return feed.Page{}, partitionSet{}, err
	}
	w := newLogMerge(f, v, s, sp.part)
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
		return feed.Page{}, partitionSet{}, err
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

// signal wakes the readers that wait for a partition to change. It remembers
// the last LSN that was published, so that nobody sleeps through a change that
// came between its read and its wait.
type signal struct {
	mu   sync.Mutex    // guards all fields
	end  int64         // the partition's last published LSN
	gone bool          // retired, or deleted with its container
	ch   chan struct{} // made by the first waiter, closed by the next change
}

// advance tells of a published LSN.
func (s *signal) advance(end int64) { s.wake(end, false) }

// retire tells that the partition is gone.
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

// beyond returns a channel that is closed when the partition changed after end;
// nil: it has.
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

// await blocks until the partition changed after end (true), d has passed
// (false), ctx ended or the store is closed (an error).
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
		return s.beyond(end) == nil, nil // both at the same instant: the change counts
	case <-ctx.Done():
		return false, ctx.Err()
	case <-db.closing:
		return false, ErrClosed
	}
}

// The memory of a page is pieces, which its changes are slices of and which the reader may keep. A page in one piece of a
// megabyte was measured to cost a tenth more: in a small heap such pieces never find the room of an old one, so that
// it grows and shrinks all the time, and every page of memory is asked of the system again. Only a [PageBuffer] is one piece, with the text of
// the whole page. How large a page will be is not known before, so it is guessed from the mean change of the container.

// pieceSize is how much memory a page takes at a time, in bytes; a change that is larger has a piece of its own.
const pieceSize = 64 << 10

// slack is how much of a page's memory may stay unused: a reader that keeps a page should
// not keep much more than the page.
const slack = 4 // a fourth

// minBuffer is the smallest piece worth to be cut down.
const minBuffer = 4 << 10

// expect guesses how many changes a page will have: never more than were asked for, than there are
// LSNs, or than fit into its bytes. The number asked for may be anything, and LSNs
// without a change are what updates leave behind.
func (w *logMerge) expect(end int64) int {
	mean := max(w.c.change.Load(), int64(w.c.tail.fixedSize()))
	return int(min(int64(w.max), end-w.position, maxPageBytes/mean+1))
}

// keep copies what belongs to one change to the page's memory, and returns the copy.
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

// grow makes room for n bytes more at least: in a new piece, or in a larger buffer for all that is there.
func (w *logMerge) grow(n int) {
	mean := int(w.c.change.Load())
	rest := (mean + mean/16) * (w.room - len(w.changes)) // what is expected to come
	if w.buf == nil {
		w.changes = slices.Grow(w.changes, w.room)
	}
	if w.into == nil {
		w.buf, w.piece = uncleared(max(min(rest, pieceSize), n)), len(w.changes)
		return
	}
	size := rest
	if w.buf != nil {
		size = 2 * cap(w.buf)
	}
	// The page ends behind maxPageBytes, but for a transaction that reaches beyond it.
	w.move(uncleared(max(min(size, maxPageBytes+n), len(w.buf)+n)))
}

// uncleared returns an empty slice with room for n bytes at least, which were not set to zero, as make does: that is a tenth
// of what a large page costs, and all that is shown of the memory is written first. Of the standard library only
// strings.Builder gives such memory out, and its text is nobody else's here.
func uncleared(n int) []byte {
	var b strings.Builder
	b.Grow(max(n, 1))
	b.WriteByte(0) // an empty text has no address
	return unsafe.Slice(unsafe.StringData(b.String()), b.Cap())[:0]
}

// fit ends the page: memory that is mostly empty is replaced, unless it is used again.
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
		w.move(uncleared(len(w.buf)))
	}
}

// move copies the last piece of the page, or all of its buffer, to other memory.
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

// PageBuffer is memory for the pages of a feed. Whoever only passes a page on reads the next one into the same memory, which
// spares most of what a page costs. The zero value is ready. It serves one read at a time.
type PageBuffer struct {
	bytes   []byte
	changes []feed.Change
}

// Size is how much memory the buffer holds, in bytes: that of the largest page that was read into it.
func (b *PageBuffer) Size() int { return cap(b.bytes) }

// Text is the documents of the page in the buffer, in latest version mode: one behind the other, with a comma between each two. Like
// the page it is valid until the next read, and must not be changed.
func (b *PageBuffer) Text() []byte { return b.bytes }

// FeedInto is Feed, with the page's changes in the buffer: they, and the documents they are slices of, are valid until the
// next read into it.
func (c *Container) FeedInto(ctx context.Context, r feed.Request, into *PageBuffer) (FeedPage, error) {
	if into != nil {
		into.bytes, into.changes = into.bytes[:0], into.changes[:0]
	}
	page, sp, err := c.readFeed(ctx, r, true, into)
	if err != nil {
		return FeedPage{}, err
	}
	return FeedPage{Page: page, Served: served(sp.partitions, sp.ends)}, nil
}

// comma stands between the documents in a PageBuffer.
var comma = []byte(",")

// begin makes the page in the memory that is used again, if there is some.
func (w *logMerge) begin() {
	if w.into == nil {
		return
	}
	w.buf, w.changes = w.into.bytes[:0], w.into.changes[:0]
}
