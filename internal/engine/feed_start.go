package engine

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// retentionStart returns the first second that the retention of a container with properties p
// covers at now.
func retentionStart(p *storetype.ContainerProperties, now int64) int64 {
	return now - int64(p.Retention/time.Second)
}

// trimmed returns the LSN up to which versions of the current piece's keys may be missing.
// It is 0 in latest version mode, where none are missing. Missing versions of other keys in
// the partition do not count. After a merge, a reader of one former range may be at an LSN
// that is past the retention in the other range.
func (w *logMerge) trimmed() int64 {
	lsn := int64(0)
	if w.space != layout.SpaceVersions {
		return lsn
	}
	for _, n := range w.current.part.segments {
		if s := w.meta.segments[n]; s.keys().Overlaps(w.current.keys) {
			lsn = max(lsn, s.Trimmed)
		}
	}
	for _, l := range w.current.part.losses {
		if l.keys().Overlaps(w.current.keys) {
			lsn = max(lsn, l.LSN)
		}
	}
	return lsn
}

// loss records that the versions up to an LSN were deleted in a range of keys.
type loss struct {
	Min string `json:"min"`
	Max string `json:"max"`
	LSN int64  `json:"lsn"`
}

func (l loss) keys() feed.Range { return feed.Range{Min: l.Min, Max: l.Max} }

// addLoss adds a loss of the versions up to an LSN in a range of keys to losses. The
// resulting ranges are sorted and do not overlap. Neighbouring ranges with the same LSN
// are joined, so that the list does not grow with every split.
func addLoss(losses []loss, keys feed.Range, lsn int64) []loss {
	if keys.IsEmpty() || lsn == 0 {
		return losses
	}
	losses = append(slices.Clone(losses), loss{keys.Min, keys.Max, lsn})
	var borders []string
	for _, l := range losses {
		borders = append(borders, l.Min, l.Max)
	}
	slices.Sort(borders)
	borders = slices.Compact(borders)
	var out []loss
	for i, from := range borders[:len(borders)-1] {
		piece := loss{Min: from, Max: borders[i+1]}
		for _, l := range losses {
			if l.keys().Holds(from) {
				piece.LSN = max(piece.LSN, l.LSN)
			}
		}
		switch n := len(out); {
		case piece.LSN == 0:
		case n > 0 && out[n-1].Max == piece.Min && out[n-1].LSN == piece.LSN:
			out[n-1].Max = piece.Max
		default:
			out = append(out, piece)
		}
	}
	return out
}

// historyLost returns the *feed.HistoryLostError of a read from a position before the
// retention. Its Oldest is the first readable position. Some keys of a merged partition may
// have lost more LSNs than others, so the position may have an LSN for each range of keys.
func (w *logMerge) historyLost() error {
	var oldest []piece
	for _, p := range w.pieces {
		lost, err := w.losses(&p)
		if err != nil {
			return w.c.db.fault(err)
		}
		var ranges []feed.Range
		for _, l := range lost {
			ranges = append(ranges, l.keys())
		}
		all := borders(p.keys, ranges)
		for i := range all[:len(all)-1] {
			part := piece{keys: feed.Range{Min: all[i], Max: all[i+1]}, lsn: p.lsn}
			for _, l := range lost {
				if l.keys().Overlaps(part.keys) {
					part.lsn = max(part.lsn, l.LSN)
				}
			}
			oldest = append(oldest, part)
		}
	}
	return &feed.HistoryLostError{
		Reason: "versions are kept for " + w.meta.props.Retention.String() + ", and some after the position are older",
		Oldest: w.meta.positionOf(oldest).continuation(),
	}
}

// losses returns the versions of a piece that were deleted or are past the retention.
func (w *logMerge) losses(p *piece) ([]loss, error) {
	all := slices.Clone(p.part.losses)
	for _, n := range p.part.segments {
		s := w.meta.segments[n]
		if !s.keys().Overlaps(p.keys) {
			continue
		}
		last, err := w.c.lastBefore(w.v.snap, n, s, w.cutoff)
		if err != nil {
			return nil, err
		}
		all = append(all, loss{Min: s.Min, Max: s.Max, LSN: max(last, s.Trimmed)})
	}
	return all, nil
}

// before returns the pieces of a read that begin with the entries of second ts. If a piece
// has none, it begins at the end of its partition.
//
// After a merge, the segments of the parents have counted their LSNs on their own, so one
// LSN would be before older entries of one parent, too. Each of the parents' ranges gets
// a piece for itself then, in which _ts never decreases with the LSNs.
func (c *Container) before(v *view, m *meta, pieces []piece, ts int64) (all []piece, err error) {
	for _, p := range pieces {
		if p.keys.IsEmpty() {
			p.lsn = p.end
			all = append(all, p)
			continue
		}
		var ranges []feed.Range
		first := map[uint32]int64{}
		for _, n := range p.part.segments {
			s := m.segments[n]
			if !s.keys().Overlaps(p.keys) {
				continue
			}
			lsn, found, err := c.firstAt(v.snap, layout.SpaceLog, n, s, ts)
			if err != nil {
				return nil, c.db.fault(err)
			}
			if found {
				first[n] = lsn
			}
			ranges = append(ranges, s.keys())
		}
		all = append(all, m.divide(p, borders(p.keys, ranges), first)...)
	}
	return all, nil
}

// divide divides a piece at borders, which include both of its ends. Each part begins
// before the first of the given LSNs, by segment, that concerns its keys. Neighbours that
// begin at the same LSN stay together.
func (m *meta) divide(p piece, borders []string, first map[uint32]int64) (all []piece) {
	for i := range borders[:len(borders)-1] {
		part := p
		part.lsn, part.keys = p.end, feed.Range{Min: borders[i], Max: borders[i+1]}
		for n, lsn := range first {
			if m.segments[n].keys().Overlaps(part.keys) {
				part.lsn = min(part.lsn, lsn-1)
			}
		}
		if last := len(all) - 1; last >= 0 && all[last].lsn == part.lsn {
			all[last].keys.Max = part.keys.Max
			continue
		}
		all = append(all, part)
	}
	return all
}

// firstAt returns the LSN of a segment's first entry with a _ts of ts or later.
func (c *Container) firstAt(r pebble.Reader, space byte, number uint32, s segment, ts int64) (lsn int64, found bool, err error) {
	lower, upper := layout.LogBounds(space, c.number, number, s.From, layout.MaxLSN)
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.Last() {
		return 0, false, it.Error()
	}
	// This is a binary search. Entries with an LSN below low are older than ts. Entries
	// with an LSN of high or more are not.
	low, high := s.From+1, layout.LogLSN(it.Key())+1
	key := make([]byte, 0, layout.LogKeySize)
	for low < high {
		mid := low + (high-low)/2
		key = layout.AppendLogKey(key[:0], space, c.number, number, mid, 0)
		if !it.SeekGE(key) {
			if err := it.Error(); err != nil {
				return 0, false, err
			}
			high = mid
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return 0, false, err
		}
		t, err := entryTime(space, value)
		if err != nil {
			return 0, false, err
		}
		if at := layout.LogLSN(it.Key()); t >= ts {
			lsn, found = at, true
			high = mid
		} else {
			low = at + 1
		}
	}
	return lsn, found, nil
}

// entryTime returns the _ts of an entry of the log or of the versions log.
func entryTime(space byte, value []byte) (int64, error) {
	at := 0
	if space == layout.SpaceVersions {
		at = 2
	}
	if len(value) < at+8 {
		return 0, layout.Corrupt("a log entry has %d bytes", len(value))
	}
	return int64(binary.BigEndian.Uint64(value[at:])), nil
}

// setRetention sets the Retention of m to d. If versions were not kept before, earlier
// ones count as deleted. If they are no longer kept, all versions are deleted.
func (g *group) setRetention(l *writeState, m *meta, d time.Duration) error {
	was := m.props.Retention
	m.props.Retention = d
	switch {
	case was == 0 && d > 0:
		// Versions before this moment were not kept, so they count as deleted.
		for i, p := range m.partitions {
			for _, n := range p.segments {
				s := m.segments[n]
				s.Trimmed = s.To
				if n == p.number {
					s.Trimmed = l.ends[i]
				}
				m.segments[n] = s
			}
		}
	case was > 0 && d == 0:
		prefix := layout.AppendContainerKey(nil, layout.SpaceVersions, l.c.number)
		return g.batch.DeleteRange(prefix, layout.Successor(prefix), nil)
	}
	return nil
}

// The versions log of a container with a retention has every version and delete with its
// previous image. It exists in addition to the log, which has only the current documents.
// Each entry of the versions log is complete. A read that had to look up the previous
// image would lose nine tenths of its speed.

// versionHeaderSize is the size in bytes of the header before the images: op u8, expired
// u8, ts u64, previous LSN u64, length of the current image u32.
const versionHeaderSize = 22

// versionEntry is an entry of the versions log. Its images share the memory of the value.
type versionEntry struct {
	op          feed.Op
	expired     bool
	ts          int64
	previousLSN int64
	// images has the current document, followed by the previous one. current is the
	// length in bytes of the current document.
	images  []byte
	current int
}

func decodeVersion(b []byte) (v versionEntry, err error) {
	if len(b) < versionHeaderSize {
		return v, layout.Corrupt("an entry of a versions log has %d bytes", len(b))
	}
	v.op, v.expired = feed.Op(b[0]), b[1] != 0
	v.ts = int64(binary.BigEndian.Uint64(b[2:]))
	v.previousLSN = int64(binary.BigEndian.Uint64(b[10:]))
	v.current = int(binary.BigEndian.Uint32(b[18:]))
	v.images = b[versionHeaderSize:]
	if v.current > len(v.images) {
		return v, layout.Corrupt("an entry of a versions log has %d bytes and an image of %d", len(b), v.current)
	}
	return v, nil
}

// putVersion adds the entry of one write to the versions log of a segment.
func (t *transaction) putVersion(e *effect, segment uint32) error {
	op, current := feed.Create, 0
	if e.old.exists {
		op = feed.Replace
	}
	if e.remove {
		op = feed.Delete
	} else {
		current = t.l.c.tail.StoredSize(e.body, e.stamp)
	}
	d := t.batch.SetDeferred(layout.LogKeySize+len(e.op.point), versionHeaderSize+current+len(e.previous))
	layout.AppendLogKey(d.Key[:0], layout.SpaceVersions, t.l.c.number, segment, e.stamp.LSN, e.stamp.Ordinal)
	copy(d.Key[layout.LogKeySize:], e.op.point)
	d.Value[0], d.Value[1] = byte(op), 0
	if e.expired {
		d.Value[1] = 1
	}
	binary.BigEndian.PutUint64(d.Value[2:], uint64(e.stamp.TS))
	binary.BigEndian.PutUint64(d.Value[10:], uint64(e.old.LSN))
	binary.BigEndian.PutUint32(d.Value[18:], uint32(current))
	if current > 0 {
		t.l.c.tail.AppendStored(d.Value[:versionHeaderSize], e.body, e.stamp)
	}
	copy(d.Value[versionHeaderSize+current:], e.previous)
	t.db.sstPartitions.note(d.Key, len(d.Value))
	return d.Finish()
}
