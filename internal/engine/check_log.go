package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// containerCheck verifies the documents, versions and indexes of one container.
type containerCheck struct {
	*checker
	s *state
	c *Container

	docs     uint32   // the last assigned document number
	numbers  []uint64 // has a bit for each document number that was found
	entries  int      // the number of checked log entries
	unique   int      // the number of entries that these documents have in the index of unique keys
	position logPosition
}

// logPosition is the position and the time of an entry in a log. The entries of a segment
// are checked in the order of LSN and ordinal.
type logPosition struct {
	lsn     int64
	ordinal int
	segment uint32
	point   []byte
	ts      int64
}

func (k *containerCheck) run() error {
	for _, p := range k.s.meta.partitions {
		n, err := loadCounters(k.v.snap, k.c, p)
		if err != nil {
			return err
		}
		k.docs = max(k.docs, n.Docs)
	}
	k.numbers = make([]uint64, k.docs/64+1)
	if err := k.eachEntry(layout.SpaceLog, k.checkEntry); err != nil {
		return err
	}
	if err := k.checkIndex(); err != nil {
		return err
	}
	if err := k.checkOrders(); err != nil {
		return err
	}
	if err := k.checkUnique(); err != nil {
		return err
	}
	if err := k.checkSizes(); err != nil {
		return err
	}
	if k.s.meta.props.Retention == 0 {
		return k.eachEntry(layout.SpaceVersions, func(logPosition, []byte) error {
			return k.complain("it has versions and no retention")
		})
	}
	return k.eachEntry(layout.SpaceVersions, k.checkVersion)
}

// checkSizes counts the items of each partition whose statistics are known. It compares
// the count with the statistics.
func (k *containerCheck) checkSizes() error {
	for i, p := range k.s.meta.partitions {
		size, known := p.size.get()
		if !known {
			continue
		}
		size.add(k.s.grown[i])
		counted, err := k.c.countItems(k.ctx, k.v, p)
		if err != nil {
			return err
		}
		if counted != size {
			if err := k.complain("partition %s has %+v, but its statistics are %+v", p.id, counted, size); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *containerCheck) complain(format string, args ...any) error {
	return k.report("container "+k.c.name+": "+format, args...)
}

// eachEntry calls f for each entry of the log or of the versions log, segment by segment,
// in the order of LSNs. It verifies the position of each entry first.
func (k *containerCheck) eachEntry(space byte, f func(at logPosition, value []byte) error) error {
	n := 0
	spans := map[uint32]span{}
	for _, number := range slices.Sorted(maps.Keys(k.s.meta.segments)) {
		k.position = logPosition{ordinal: -1}
		lower, upper := layout.LogBounds(space, k.c.number, number, -1, layout.MaxLSN)
		err := eachBetween(k.v.snap, lower, upper, func(key, value []byte) error {
			n++
			at, err := k.entryAt(space, number, key, value)
			if err != nil {
				return err
			}
			if len(at.point) == 0 {
				return nil // entryAt has reported the key
			}
			if _, known := spans[number]; !known {
				spans[number] = span{first: at.ts}
			}
			spans[number] = span{first: spans[number].first, last: at.ts}
			k.position = at
			if err := f(at, value); err != nil {
				return err
			}
			return k.step()
		})
		if err != nil {
			return err
		}
	}
	if err := k.checkLineages(space, spans); err != nil {
		return err
	}
	return k.checkStrays(space, n)
}

// entryAt returns the position of an entry after it has verified it. The point is empty if
// the key is not valid.
func (k *containerCheck) entryAt(space byte, segment uint32, key, value []byte) (at logPosition, err error) {
	if len(key) <= layout.LogKeySize {
		return at, k.complain("log key %x is too short", key)
	}
	ts, err := entryTime(space, value)
	if err != nil {
		return at, err
	}
	at = logPosition{
		lsn: layout.LogLSN(key), ordinal: int(layout.LogOrdinal(key)), segment: segment, point: bytes.Clone(layout.LogPoint(key)), ts: ts,
	}
	return at, k.checkPosition(at, space)
}

// span has the times of the first and the last entry of a segment.
type span struct{ first, last int64 }

// checkLineages verifies the segments that have keys in common. One partition was the
// other's ancestor, so all LSNs and times of one segment must come before those of the
// other. Segments of other partitions may have the same LSNs.
func (k *containerCheck) checkLineages(space byte, spans map[uint32]span) error {
	m := k.s.meta
	for _, p := range m.partitions {
		for i, a := range p.segments {
			for _, b := range p.segments[i+1:] {
				first, second := m.segments[a], m.segments[b]
				if !first.keys().Overlaps(second.keys()) {
					continue
				}
				x, knownX := spans[a]
				y, knownY := spans[b]
				if first.last() > second.From || knownX && knownY && x.last > y.first {
					if err := k.complain("partition %s reads segment %d, which is %+v, and then segment %d, which is %+v (log %c, times %+v and %+v)",
						p.id, a, first, b, second, space, x, y); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// checkPosition verifies the position of an entry. It must follow the segment's entry
// before and lie between the bounds of its segment. The partition that holds the entry's
// key must read that segment.
func (k *containerCheck) checkPosition(at logPosition, space byte) error {
	last := k.position
	if at.lsn < 1 || at.lsn == last.lsn && (at.ordinal <= last.ordinal || !bytes.Equal(at.point, last.point)) {
		if err := k.complain("LSN %d is in two transactions, or twice in one (log %c, segment %d)", at.lsn, space, at.segment); err != nil {
			return err
		}
	}
	if at.ts < last.ts {
		if err := k.complain("LSN %d has the time %d, before that of LSN %d, %d", at.lsn, at.ts, last.lsn, last.ts); err != nil {
			return err
		}
	}
	seg := k.s.meta.segments[at.segment]
	if at.lsn <= seg.From || at.lsn > seg.last() || space == layout.SpaceVersions && at.lsn <= seg.Trimmed {
		if err := k.complain("LSN %d is in segment %d, which is %+v (log %c)", at.lsn, at.segment, seg, space); err != nil {
			return err
		}
	}
	for _, h := range k.s.meta.holes {
		if h.From < at.lsn && at.lsn <= h.To && h.keys().Holds(epk.Hex(at.point)) {
			if err := k.complain("LSN %d is in a hole, which is %+v (log %c, segment %d)", at.lsn, h, space, at.segment); err != nil {
				return err
			}
		}
	}
	index := k.s.meta.find(at.point)
	if index == len(k.s.meta.partitions) {
		return k.complain("LSN %d has a key in no partition", at.lsn)
	}
	p := k.s.meta.partitions[index]
	reads := false
	for _, n := range p.segments {
		reads = reads || n == at.segment
	}
	if !reads || at.lsn > k.s.ends[index] {
		return k.complain("LSN %d, segment %d, is not read by the partition of its key, %s, which ends at %d (log %c)",
			at.lsn, at.segment, p.id, k.s.ends[index], space)
	}
	return nil
}

// checkStrays reports log entries whose segment does not exist. n is the number of
// entries in existing segments.
func (k *containerCheck) checkStrays(space byte, n int) error {
	all := 0
	err := eachKey(k.v.snap, layout.AppendContainerKey(nil, space, k.c.number), func(key, _ []byte) error {
		all++
		if len(key) >= layout.SegmentKeySize {
			number := binary.BigEndian.Uint32(key[layout.ContainerKeySize:])
			if _, ok := k.s.meta.segments[number]; !ok {
				return k.complain("log key %x is in segment %d, which does not exist", key, number)
			}
		}
		return k.step()
	})
	if err == nil && all != n {
		err = k.complain("log %c has %d entries, of which %d are in segments", space, all, n)
	}
	return err
}

// checkEntry verifies one document in the log, and that the index entry of its item
// refers to it.
func (k *containerCheck) checkEntry(at logPosition, value []byte) error {
	k.entries++
	if len(value) < layout.LogHeaderSize {
		return k.complain("LSN %d has %d bytes", at.lsn, len(value))
	}
	ts, ttl := layout.LogHeader(value)
	stored := value[layout.LogHeaderSize:]
	body, s, err := k.c.tail.ParseStored(stored)
	if err != nil {
		return k.complain("LSN %d: %v", at.lsn, err)
	}
	if s.LSN != at.lsn || int(s.Ordinal) != at.ordinal || s.TS != ts {
		return k.complain("the document at LSN %d, ordinal %d, time %d has %+v", at.lsn, at.ordinal, ts, s)
	}
	doc, err := layout.ParseDocument(append(body[:len(body):len(body)], '}'), k.c.paths, false)
	if err != nil {
		return k.complain("the document at LSN %d: %v", at.lsn, err)
	}
	if !bytes.Equal(doc.Body, body) {
		return k.complain("the document at LSN %d (id %q) is not in canonical form", at.lsn, doc.ID)
	}
	key, _ := layout.AppendIndexKey(nil, k.c.number, k.c.hash, doc.Components(), doc.ID)
	if doc.TTL != ttl || !bytes.Equal(key[layout.ContainerKeySize:len(key)-len(doc.ID)], at.point) {
		return k.complain("the document at LSN %d (id %q) has another key or ttl than its log entry", at.lsn, doc.ID)
	}
	e, ok, err := lookup(k.v.snap, key)
	if err != nil {
		return err
	}
	want := layout.Entry{Stamp: s, Segment: at.segment, Point: uint16(len(at.point)), Size: uint32(len(stored)), TTL: ttl}
	if !ok || e != want {
		return k.complain("item %q is %+v in the index (found: %t) and %+v in the log", doc.ID, e, ok, want)
	}
	if err := k.checkUniqueEntries(doc.ID, at.point, stored); err != nil {
		return err
	}
	return k.checkNumber(s.Number)
}

// checkNumber verifies that a document number was assigned and that no other document has
// it.
func (k *containerCheck) checkNumber(n uint32) error {
	if n < 1 || n > k.docs {
		return k.complain("a document has the number %d; the last assigned one is %d", n, k.docs)
	}
	if k.numbers[n/64]&(1<<(n%64)) != 0 {
		return k.complain("two documents have the number %d, and so one rid", n)
	}
	k.numbers[n/64] |= 1 << (n % 64)
	return nil
}

// checkIndex compares the number of index entries with the number of documents. If they
// differ, it finds the index entries without a document.
func (k *containerCheck) checkIndex() error {
	n := 0
	count := func(_, _ []byte) error { n++; return k.step() }
	prefix := layout.AppendContainerKey(nil, layout.SpaceIndex, k.c.number)
	if err := eachKey(k.v.snap, prefix, count); err != nil || n == k.entries {
		return err
	}
	if err := k.complain("the index has %d items and the log %d documents", n, k.entries); err != nil {
		return err
	}
	return eachKey(k.v.snap, prefix, func(key, value []byte) error {
		e, err := layout.DecodeEntry(value)
		if err != nil || len(key) < layout.ContainerKeySize+int(e.Point) {
			return k.complain("index entry %x: %v", key, err)
		}
		_, err = k.c.fetch(k.v.snap, nil, e, key[layout.ContainerKeySize:layout.ContainerKeySize+int(e.Point)])
		if broken, ok := errors.AsType[*storetype.CorruptError](err); ok {
			return k.complain("index entry %x: %s", key, broken.Detail)
		}
		return err
	})
}

// checkVersion verifies one entry of the versions log. Its images must be valid documents
// of one item, and must agree with the index.
func (k *containerCheck) checkVersion(at logPosition, value []byte) error {
	v, err := decodeVersion(value)
	if err != nil {
		return k.complain("version at LSN %d: %v", at.lsn, err)
	}
	current, previous := v.images[:v.current], v.images[v.current:]
	if (len(current) == 0) != (v.op == feed.Delete) || (len(previous) == 0) != (v.op == feed.Create) || v.expired && v.op != feed.Delete {
		return k.complain("the %s at LSN %d has %d bytes and %d before (expired: %t)", v.op, at.lsn, len(current), len(previous), v.expired)
	}
	image := current
	if len(image) == 0 {
		image = previous
	}
	doc, err := k.c.parseImage(image)
	if err != nil {
		return k.complain("version at LSN %d: %v", at.lsn, err)
	}
	key, _ := layout.AppendIndexKey(nil, k.c.number, k.c.hash, doc.Components(), doc.ID)
	if !bytes.Equal(key[layout.ContainerKeySize:len(key)-len(doc.ID)], at.point) {
		return k.complain("the version of item %q at LSN %d has another key than its log entry", doc.ID, at.lsn)
	}
	if len(previous) > 0 {
		_, s, err := k.c.tail.ParseStored(previous)
		if err != nil || s.LSN != v.previousLSN || s.LSN > at.lsn {
			return k.complain("the previous image at LSN %d is of LSN %d, not %d: %v", at.lsn, s.LSN, v.previousLSN, err)
		}
	}
	return k.compareVersion(at, v, doc.ID, key)
}

// compareVersion verifies the last version of an item. If the item still has this
// version, its document must equal the version's image.
func (k *containerCheck) compareVersion(at logPosition, v versionEntry, id string, key []byte) error {
	e, ok, err := lookup(k.v.snap, key)
	if err != nil {
		return err
	}
	newer := ok && (e.LSN > at.lsn || e.LSN == at.lsn && int(e.Ordinal) > at.ordinal)
	if !ok || newer {
		return nil // the item was replaced or deleted later
	}
	if v.op == feed.Delete || e.LSN != at.lsn || int(e.Ordinal) != at.ordinal {
		return k.complain("item %q is at LSN %d in the index, and its last version is a %s at LSN %d", id, e.LSN, v.op, at.lsn)
	}
	stored, err := k.c.fetch(k.v.snap, nil, e, at.point)
	if errors.As(err, new(*storetype.CorruptError)) {
		return nil // checkIndex reports the missing document
	}
	if err == nil && !bytes.Equal(stored, v.images[:v.current]) {
		err = k.complain("item %q is not its last version, at LSN %d", id, at.lsn)
	}
	return err
}
