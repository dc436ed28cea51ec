package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
)

// logMerge reads the log segments of a partition and merges their entries into one page,
// sorted by LSN.
//
// Each LSN is in one segment only. After splits, all LSNs of one segment are lower than
// those of the next, so one cursor at a time is open. After a merge, the LSNs of the
// merged partitions alternate. logMerge then reads from the cursor with the lowest LSN
// until another cursor has a lower one.
type logMerge struct {
	*feedRead
	v    *view
	meta *meta
	part *partition
	// filter selects the keys of the request in the partition.
	filter keyFilter
	space  byte
	max    int

	// pending has the numbers of the segments whose cursors are not open yet, sorted by
	// their first LSN. cursors has the open ones.
	pending []uint32
	cursors []cursor

	// position is the LSN up to which all entries were read. full reports whether the
	// page must end before the next transaction.
	position int64
	full     bool
	// lost reports whether the page would begin with a version past the retention. cutoff
	// is the first second that the retention covers.
	lost      bool
	cutoff    int64
	retention time.Duration
	changes   []feed.Change
	// buf is the piece of memory that new changes are copied to, or the whole buffer of a
	// PageBuffer. piece is the index of the first change in buf.
	buf   []byte
	piece int
	// bytes is the size in bytes of the page's documents. room is the number of changes
	// for which memory is reserved.
	bytes, room int

	ttl     int32 // the container's default time to live
	now     int64
	ts      int64 // the _ts that time represents
	time    time.Time
	visited int
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

func newLogMerge(f *feedRead, v *view, s *state, part *partition) *logMerge {
	w := &logMerge{
		feedRead: f, v: v, meta: s.meta, part: part, filter: f.filter,
		space: spaceLog, position: f.after, max: f.r.MaxItems,
		ttl: int32(s.meta.props.DefaultTTL), now: f.c.db.clock.seconds(),
	}
	w.filter.narrow(part)
	if f.r.Mode == feed.AllVersionsAndDeletes {
		w.space = spaceVersions
		w.retention = s.meta.props.Retention
		w.cutoff = s.meta.props.cutoff(w.now)
	}
	if w.max <= 0 {
		w.max = defaultMaxItems
	}
	w.begin()
	return w
}

// run fills the page with the changes after position. end is the partition's last LSN.
func (w *logMerge) run(ctx context.Context, end int64) (err error) {
	if w.position >= end {
		return nil // a position after the end stays; it occurs after a restore
	}
	w.room = w.expect(end)
	for _, n := range w.part.segments {
		if w.meta.segments[n].last() > w.position {
			w.pending = append(w.pending, n)
		}
	}
	defer func() {
		for i := range w.cursors {
			err = errors.Join(err, w.cursors[i].it.Close())
		}
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
	w.fit()
	return nil
}

// next returns the index of the cursor with the lowest LSN. That cursor may be read up to
// limit, where another cursor has the next LSN. i is -1 if there are no more entries.
func (w *logMerge) next() (i int, limit int64, err error) {
	for {
		i, limit = -1, maxLSN
		lsn := maxLSN
		for j := range w.cursors {
			if l := w.cursors[j].lsn; l < lsn {
				i, lsn, limit = j, l, lsn
			} else {
				limit = min(limit, l)
			}
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
	lower, upper := logBounds(w.space, w.c.number, n, w.position, maxLSN)
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
	whole := w.filter.contains(w.meta.segments[n].keys())
	w.cursors = append(w.cursors, cursor{it: it, lsn: logLSN(it.Key()), whole: whole})
	return nil
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
		if len(key) < logKeySize {
			return corrupt("log key %x is too short", key)
		}
		c.lsn = logLSN(key)
		if c.lsn >= limit {
			return nil
		}
		if c.lsn != w.position {
			// A page ends only between transactions.
			if len(w.changes) >= w.max || w.bytes >= maxPageBytes {
				w.full = true
				return nil
			}
			w.position = c.lsn
		}
		if w.visited++; w.visited%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !c.whole && !w.filter.holds(logPoint(key)) {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if w.space == spaceLog {
			err = w.takeLatest(c.lsn, value)
		} else {
			err = w.takeVersion(c.lsn, value)
		}
		if err != nil || w.lost {
			return err
		}
	}
	return nil
}

// takeLatest adds the document of a log entry to the page, unless it has expired.
func (w *logMerge) takeLatest(lsn int64, value []byte) error {
	if len(value) < logHeaderSize {
		return corrupt("the log entry of LSN %d has %d bytes", lsn, len(value))
	}
	ts := int64(binary.BigEndian.Uint64(value))
	if w.ttl != ttlOff {
		if _, ttl := logHeader(value); expired(ts, w.ttl, ttl, w.now) {
			return nil
		}
	}
	current := w.keep(value[logHeaderSize:])
	change := w.extend()
	change.LSN, change.Time, change.Current = lsn, w.timeOf(ts), current
	return nil
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

// takeVersion adds an entry of the versions log to the page. If the page would begin with
// an entry past the retention, takeVersion sets lost and ends the page.
func (w *logMerge) takeVersion(lsn int64, value []byte) error {
	v, err := decodeVersion(value)
	if err != nil {
		return err
	}
	if len(w.changes) == 0 && v.ts < w.cutoff {
		w.lost, w.full = true, true
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
		change.DeletedID, change.DeletedKey = doc.id, partitionKey(doc.components())
	}
	return nil
}

// parseImage parses the id and the key of a stored document.
func (c *Container) parseImage(stored []byte) (document, error) {
	body, _, err := c.tail.parseStored(stored)
	if err != nil {
		return document{}, err
	}
	return parseDocument(append(body[:len(body):len(body)], '}'), c.paths, false)
}

func (w *logMerge) timeOf(ts int64) time.Time {
	if ts != w.ts {
		w.ts, w.time = ts, unixTime(ts)
	}
	return w.time
}
