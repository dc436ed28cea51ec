package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
)

// logMerge reads the pieces of a feed into one page, one after the other. It merges the
// entries of a partition's log segments, sorted by LSN.
//
// After splits, all LSNs of one segment are lower than those of the next, so one cursor at
// a time is open. After a merge, the segments of the merged partitions may overlap, because
// each partition had counted its own LSNs. logMerge then reads from the cursor with the
// lowest LSN until another cursor has a lower one. Two segments may have a transaction with
// the same LSN. Since a position is one LSN, both are on one page.
type logMerge struct {
	*feedRead
	v      *view
	meta   *meta
	pieces []piece
	one    [1]piece // memory for pieces if there is only one
	// current is the piece that is being read. lower and upper are the borders of its keys,
	// in binary form.
	current      *piece
	lower, upper []byte
	space        byte
	max          int

	// pending has the numbers of the segments whose cursors are not open yet, sorted by
	// their first LSN. cursors has the open ones.
	pending []uint32
	cursors []cursor

	// position is the LSN up to which all entries of the current piece were read. full
	// reports whether the page must end before the next transaction.
	position int64
	full     bool
	// lost reports whether the next version is past the retention. cutoff is the first
	// second that the retention covers.
	lost    bool
	cutoff  int64
	changes []feed.Change
	// buf is the piece of memory that new changes are copied to, or the whole buffer of a
	// PageBuffer. piece is the index of the first change in buf.
	buf   []byte
	piece int
	// bytes is the size in bytes of the page's documents, and size also counts the text
	// between them. room is the number of changes for which memory is reserved.
	bytes, size, room int
	// begun is the page before the LSN at position.
	begun pageMark

	ttl     int32 // the container's default time to live
	now     int64
	ts      int64 // the _ts that time represents
	time    time.Time
	visited int
}

// pageMark is the state of a page between two LSNs.
type pageMark struct {
	position            int64
	changes, bytes, buf int
}

// cursor is an iterator over the entries of one segment that are not read yet.
type cursor struct {
	it  *pebble.Iterator
	lsn int64 // the LSN of the current entry
	// whole reports whether the filter selects all keys of the segment, so that entries
	// need not be checked.
	whole bool
}

// checkEvery is the number of entries that a loop reads between two checks of its
// context.
const checkEvery = 1024

func newLogMerge(f *feedRead, v *view, s *state) *logMerge {
	w := &logMerge{
		feedRead: f, v: v, meta: s.meta,
		space: layout.SpaceLog, max: f.r.MaxItems,
		ttl: int32(s.meta.props.DefaultTTL), now: f.c.db.clock.seconds(),
	}
	if f.r.Mode == feed.AllVersionsAndDeletes {
		w.space = layout.SpaceVersions
		w.cutoff = retentionStart(&s.meta.props, w.now)
	}
	if w.max <= 0 {
		w.max = defaultMaxItems
	}
	w.begin()
	return w
}

// read fills the page with the changes of the pieces after their LSNs, and advances the
// LSNs. It returns a *feed.HistoryLostError if the page would begin with a version past the
// retention.
func (w *logMerge) read(ctx context.Context) error {
	w.room = w.expect()
	for i := range w.pieces {
		p := &w.pieces[i]
		if p.lsn >= p.end {
			continue
		}
		if p.keys.IsEmpty() {
			p.lsn = p.end
			continue
		}
		if w.full || len(w.changes) >= w.max || w.size >= maxPageBytes {
			break
		}
		if err := w.enter(p); err != nil {
			return err
		}
		if w.trimmed() > w.position {
			// If the page has changes, it ends here. The next one reports the loss.
			w.full, w.lost = true, len(w.changes) == 0
		} else if err := w.run(ctx, p.end); err != nil {
			return err
		}
		if w.lost {
			return w.historyLost()
		}
		p.lsn = w.position
	}
	w.fit()
	return nil
}

// enter makes p the current piece.
func (w *logMerge) enter(p *piece) (err error) {
	w.current, w.position, w.pending = p, p.lsn, w.pending[:0]
	switch p.keys {
	case p.part.keys:
		w.lower, w.upper = p.part.lower, p.part.upper
	case w.filter.keys:
		w.lower, w.upper = w.filter.lower, w.filter.upper
	default:
		w.lower, w.upper, err = binaryRange(p.keys)
	}
	return err
}

// run adds the changes of the current piece after position to the page. end is the
// partition's last LSN.
func (w *logMerge) run(ctx context.Context, end int64) (err error) {
	for _, n := range w.current.part.segments {
		if w.meta.segments[n].last() > w.position {
			w.pending = append(w.pending, n)
		}
	}
	defer func() {
		for i := range w.cursors {
			err = errors.Join(err, w.cursors[i].it.Close())
		}
		w.cursors = w.cursors[:0]
	}()
	for !w.full {
		i, limit, err := w.next()
		if err != nil {
			return w.c.db.fault(err)
		}
		if i < 0 {
			break
		}
		if err := w.consume(ctx, &w.cursors[i], limit); err != nil {
			return w.c.db.fault(err)
		}
		if !w.cursors[i].it.Valid() {
			if err := w.drop(i); err != nil {
				return w.c.db.fault(err)
			}
		}
	}
	if !w.full {
		w.position = end
	}
	return nil
}

// next returns the index of the cursor with the lowest LSN. That cursor may be read below
// limit, where another cursor has the next LSN. If another one has the same LSN, the cursor
// may be read through that LSN. i is -1 if there are no more entries.
func (w *logMerge) next() (i int, limit int64, err error) {
	for {
		i, limit = -1, layout.MaxLSN
		lsn := layout.MaxLSN
		for j := range w.cursors {
			if l := w.cursors[j].lsn; l < lsn {
				i, lsn, limit = j, l, lsn
			} else {
				limit = min(limit, l)
			}
		}
		if i >= 0 {
			limit = max(limit, lsn+1)
		}
		if len(w.pending) == 0 {
			return i, limit, nil
		}
		first := w.meta.segments[w.pending[0]].From + 1
		if i >= 0 && lsn < first {
			return i, min(limit, first), nil
		}
		if err := w.openNext(); err != nil {
			return -1, 0, err
		}
	}
}

// openNext opens a cursor for the first pending segment, unless that has no more entries.
func (w *logMerge) openNext() error {
	n := w.pending[0]
	w.pending = w.pending[1:]
	lower, upper := layout.LogBounds(w.space, w.c.number, n, w.position, layout.MaxLSN)
	it, err := w.v.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	if !it.First() {
		return errors.Join(it.Error(), it.Close())
	}
	// All keys of the partition's own segment are in its range. The same is true of the
	// segments of partitions that were merged into it. Segments of other ancestors also
	// have keys outside of the range.
	whole := w.filter.point == nil && w.current.keys.Contains(w.meta.segments[n].keys())
	w.cursors = append(w.cursors, cursor{it: it, lsn: layout.LogLSN(it.Key()), whole: whole})
	return nil
}

// holds reports whether the current piece has the partition key with the given point, and
// the request selects it.
func (w *logMerge) holds(point []byte) bool {
	return (w.filter.point == nil || bytes.Equal(w.filter.point, point)) && between(point, w.lower, w.upper)
}

// drop closes and removes cursor i, which has no more entries.
func (w *logMerge) drop(i int) error {
	it := w.cursors[i].it
	w.cursors = slices.Delete(w.cursors, i, i+1)
	return errors.Join(it.Error(), it.Close())
}

// consume adds the entries of cursor c with an LSN below limit to the page, until the
// page is full.
func (w *logMerge) consume(ctx context.Context, c *cursor, limit int64) error {
	for it := c.it; it.Valid(); it.Next() {
		key := it.Key()
		if len(key) < layout.LogKeySize {
			return layout.Corrupt("log key %x is too short", key)
		}
		c.lsn = layout.LogLSN(key)
		if c.lsn >= limit {
			return nil
		}
		if c.lsn != w.position {
			// A page ends only between LSNs, and so between transactions.
			if len(w.changes) >= w.max || w.size >= maxPageBytes {
				w.full = true
				return nil
			}
			w.begun = pageMark{w.position, len(w.changes), w.bytes, len(w.buf)}
			w.position = c.lsn
		}
		if w.visited++; w.visited%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !c.whole && !w.holds(layout.LogPoint(key)) {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if w.space == layout.SpaceLog {
			err = w.takeLatest(c.lsn, value)
		} else {
			err = w.takeVersion(c.lsn, value)
		}
		if err != nil {
			return err
		}
		if w.lost || w.size > maxPageBytes {
			if w.begun.changes > 0 {
				w.undo()
				w.lost = false // the next page begins with the lost version and reports it
			}
			if w.full = w.full || w.lost; w.full {
				return nil
			}
		}
	}
	return nil
}

// undo removes the last LSN, which does not fit on the page, and ends the page before it.
func (w *logMerge) undo() {
	m := w.begun
	w.position, w.changes, w.bytes, w.full = m.position, w.changes[:m.changes], m.bytes, true
	if w.into == nil && w.piece >= m.changes {
		m.buf = 0 // the piece began with this transaction
	}
	w.buf = w.buf[:m.buf]
}

// takeLatest adds the document of a log entry to the page, unless it has expired or is older
// than the start time beside the position.
func (w *logMerge) takeLatest(lsn int64, value []byte) error {
	if len(value) < layout.LogHeaderSize {
		return layout.Corrupt("the log entry of LSN %d has %d bytes", lsn, len(value))
	}
	ts := int64(binary.BigEndian.Uint64(value))
	if ts < w.since {
		return nil
	}
	if w.ttl != layout.TTLOff {
		if _, ttl := layout.LogHeader(value); layout.Expired(ts, w.ttl, ttl, w.now) {
			return nil
		}
	}
	current := w.keep(value[layout.LogHeaderSize:])
	change := w.extend()
	change.LSN, change.Time, change.Current = lsn, w.timeOf(ts), current
	w.count(change, len(current))
	return nil
}

// count adds a change, whose documents have n bytes, to the size of the page.
func (w *logMerge) count(c *feed.Change, n int) {
	w.size += n + len(comma)
	if w.into != nil && w.into.Around != nil {
		w.size += w.into.Around(c)
	}
}

// extend appends an empty change to the page and returns a pointer to it, which the
// caller fills. Copying a complete change would cost a tenth of the read.
func (w *logMerge) extend() *feed.Change {
	n := len(w.changes)
	if n < cap(w.changes) {
		w.changes = w.changes[:n+1]
		if w.into != nil {
			w.changes[n] = feed.Change{} // reused memory holds an old change; new memory is zero
		}
	} else {
		w.changes = append(w.changes, feed.Change{})
	}
	return &w.changes[n]
}

// takeVersion adds an entry of the versions log to the page. If the entry is past the
// retention, takeVersion sets lost instead.
func (w *logMerge) takeVersion(lsn int64, value []byte) error {
	v, err := decodeVersion(value)
	if err != nil {
		return err
	}
	if v.ts < w.cutoff {
		w.lost = true
		return nil
	}
	images := w.keep(v.images)
	change := w.extend()
	change.Op, change.LSN, change.Time, change.Expired = v.op, lsn, w.timeOf(v.ts), v.expired
	if v.current > 0 {
		change.Current = images[:v.current:v.current]
	}
	if len(images) > v.current {
		change.Previous = images[v.current:]
	}
	if v.op == feed.Delete {
		doc, err := w.c.parseImage(v.images[v.current:])
		if err != nil {
			return err
		}
		change.DeletedID, change.DeletedKey = doc.ID, layout.PartitionKey(doc.Components())
	}
	w.count(change, len(images))
	return nil
}

// parseImage parses the id and the key of a stored document.
func (c *Container) parseImage(stored []byte) (layout.Document, error) {
	body, _, err := c.tail.ParseStored(stored)
	if err != nil {
		return layout.Document{}, err
	}
	return layout.ParseDocument(append(body[:len(body):len(body)], '}'), c.paths, false)
}

func (w *logMerge) timeOf(ts int64) time.Time {
	if ts != w.ts {
		w.ts, w.time = ts, unixTime(ts)
	}
	return w.time
}
