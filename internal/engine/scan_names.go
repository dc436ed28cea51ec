package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/internal/layout"
)

// maxSet is the largest number of items of a request's sets that are read from the index
// and sorted in memory. Larger sets are read in the order of writing, which also reads the
// names of the items between them.
const maxSet = 4096

const (
	// stepsPerSeek is the number of index entries that are read one after the other in the
	// time in which one is looked up by its name.
	stepsPerSeek = 16
	// largeChunk is the size of the smallest chunk for which the whole index may be read.
	largeChunk = 512
)

// collect fills the chunk with the next items in the order of the page, at most size of
// them, until the page must end.
func (b *chunkScan) collect(ctx context.Context, size int) error {
	w := b.w
	for {
		b.chunk, b.names = b.chunk[:0], b.names[:0]
		b.more, b.ended, b.full = false, false, false
		if b.again {
			b.again = false
			if err := b.collectLast(ctx); err != nil || len(b.chunk) > 0 {
				return err
			}
		}
		part, ok := w.m.partAt(w.sc, b.at)
		if !ok {
			return nil
		}
		b.part = part
		// One more name than the chunk can have tells whether there are more items.
		complete, err := b.collectNames(ctx, size+1)
		if err != nil {
			return err
		}
		if b.trim(size, part) || !complete {
			b.more = true
			return nil
		}
		b.at, b.set = part.end(), nil
		if len(b.chunk) > 0 || w.items > 0 {
			_, b.more = w.m.partAt(w.sc, b.at)
			b.ended = b.more
			return nil
		}
	}
}

// collectLast fills the chunk with the item that at follows, if it still exists and the
// request selects it. A split may have moved it to another partition than the items after
// at.
func (b *chunkScan) collectLast(ctx context.Context) error {
	w, at := b.w, b.at
	number := at.last()
	point, id, err := w.findNumber(&at)
	if err != nil || point == nil || !w.sc.holds(point) || !w.selects(append(bytes.Clone(point), id...), len(point)) {
		return err
	}
	b.add(&layout.Entry{Stamp: layout.Stamp{Number: number}, Point: uint16(len(point))}, point, id) //nolint:gosec // a point has at most a few hundred bytes
	if err := b.resolve(ctx); err != nil {
		return err
	}
	b.part = itemPart{resumed: &at}
	for _, p := range w.m.partitions {
		if p.has(point) {
			w.of = p
		}
	}
	b.trim(1, b.part)
	next, more := w.m.partAt(w.sc, at)
	b.more, b.ended = more, more && !next.partition.has(point)
	return nil
}

// findNumber returns the point and the id of the item that a position follows. point is
// nil if the item does not exist any more.
func (w *itemScan) findNumber(at *itemPosition) (point, id []byte, err error) {
	number := at.last()
	if len(at.ranges) == 0 {
		id, err = getValue(w.v.snap, layout.AppendKeyOrder(nil, w.c.number, at.lower, number))
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, w.c.db.fault(err)
		}
		return at.lower, id, nil
	}
	return w.c.findNumber(w.v, w.m, number)
}

// collectNames adds the part's next items to the chunk, up to n of them, and moves at
// after the last one that it read. complete reports whether the part has no others. Some
// items may have expired.
func (b *chunkScan) collectNames(ctx context.Context, n int) (complete bool, err error) {
	w := b.w
	if intervals := w.sets.intervals(); intervals != nil {
		if b.set == nil {
			if b.set, err = w.readSet(ctx, b.part, intervals); err != nil {
				return false, err
			}
		}
		if !b.set.tooLarge {
			return b.takeSet(n), nil
		}
	}
	it, err := w.openNames(&b.part)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if left, ok := b.isLarge(it, n); ok {
		b.chunk = slices.Grow(b.chunk, min(left, 2*n)) // append would allocate several times as much
		if complete, ok, err := b.readIndex(ctx, n); ok || err != nil {
			return complete, err
		}
	}
	if complete, err = b.readNames(ctx, it, n); err == nil {
		err = b.resolve(ctx)
	}
	return complete, err
}

// readNames is collectNames without the index: the added items have only a name and a
// number.
func (b *chunkScan) readNames(ctx context.Context, it *pebble.Iterator, n int) (complete bool, err error) {
	w := b.w
	number := uint32(0) // of the last item, whose point is w.last
	defer func() {
		if number > 0 {
			b.at = b.part.after(w.last, number)
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		if b.late = w.isLate(); b.late {
			return false, nil
		}
		if w.looked%checkEvery == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return false, w.c.db.fault(err)
		}
		key := it.Key()
		point, id := key[layout.ContainerKeySize:len(key)-4], value
		if b.part.byNumber {
			if point, id, err = layout.DecodeOrder(value); err != nil {
				return false, w.c.db.fault(err)
			}
		}
		from := len(b.names)
		b.names = append(append(b.names, point...), id...)
		wanted := b.part.has(point) && w.selects(b.names[from:], len(point))
		b.names = b.names[:from]
		if wanted {
			if len(b.chunk) == n || len(b.names) >= maxChunkNames {
				return false, nil
			}
			b.add(&layout.Entry{Stamp: layout.Stamp{Number: orderNumber(key)}, Point: uint16(len(point))}, point, id) //nolint:gosec // a point has at most a few hundred bytes
		}
		number, w.last = orderNumber(key), append(w.last[:0], point...)
	}
	if err := it.Error(); err != nil {
		return false, w.c.db.fault(err)
	}
	return true, nil
}

// openNames opens an iterator over the names of a part. Other names are between them if
// the part's borders are not those of a partition.
func (w *itemScan) openNames(p *itemPart) (*pebble.Iterator, error) {
	var o pebble.IterOptions
	if p.byNumber {
		o.LowerBound = layout.AppendOrderKey(make([]byte, 0, layout.OrderKeySize), w.c.number, p.partition.number, p.number+1)
		o.UpperBound = layout.Successor(o.LowerBound[:layout.SegmentKeySize])
	} else {
		o.LowerBound = append(layout.AppendContainerKey(nil, layout.SpaceKeyOrder, w.c.number), p.lower...)
		if p.number > 0 {
			o.LowerBound = binary.BigEndian.AppendUint32(o.LowerBound, p.number+1)
		}
		o.UpperBound = append(layout.AppendContainerKey(nil, layout.SpaceKeyOrder, w.c.number), p.upper...)
	}
	it, err := w.v.snap.NewIter(&o)
	if err != nil {
		return nil, w.c.db.fault(err)
	}
	return it, nil
}

// isLarge reports whether the next n items are such a share of their partition that readIndex
// is probably faster than readNames and resolve. It assumes that the container's partitions
// have about as many items each, because to count them costs as much as to read them. it is
// over the part's names. left is about the number of items that are left in the part.
func (b *chunkScan) isLarge(it *pebble.Iterator, n int) (left int, ok bool) {
	if !b.part.byNumber || n < largeChunk || !it.Last() {
		return 0, false
	}
	partitions, last := len(b.w.m.partitions), int(orderNumber(it.Key()))
	left = (last - int(b.part.number)) / partitions
	return left, left >= largeChunk && last/partitions <= stepsPerSeek*min(n, left)
}

// readIndex is collectNames for a large chunk: it reads all of the part's entries in the
// index, one after the other, and keeps those with the lowest numbers. That is much faster than
// reading the names and looking each of them up. ok is false if the part has so many entries
// that it isn't. Then nothing is added.
func (b *chunkScan) readIndex(ctx context.Context, n int) (complete, ok bool, err error) {
	w, part := b.w, keyFilter{lower: b.part.lower, upper: b.part.upper}
	read, last := 0, uint32(math.MaxUint32)
	ok = true
	err = w.c.scanIndex(ctx, w.v, &part, nil, nil, func(i *indexed) (bool, error) {
		if read++; read > stepsPerSeek*n {
			ok = false
			return false, nil
		}
		if i.Number <= b.part.number || i.Number > last || !w.selects(i.rest, i.at) {
			return true, nil
		}
		b.add(&i.Entry, i.pointBytes(), i.id())
		if len(b.chunk) >= 2*n || len(b.names) >= maxChunkNames && len(b.chunk) > 1 {
			last = b.keepFirst(min(n, len(b.chunk)/2))
		}
		return true, nil
	})
	if err != nil || !ok {
		b.chunk, b.names = b.chunk[:0], b.names[:0]
		return false, false, err
	}
	if len(b.chunk) > n {
		last = b.keepFirst(n)
	}
	b.sortNumbers()
	if complete = last == math.MaxUint32; !complete {
		x := &b.chunk[len(b.chunk)-1]
		b.at = b.part.after(nil, x.Number)
	}
	return complete, true, nil
}

// keepFirst drops all but those n items of the chunk with the lowest numbers, whose order
// stays. It returns the last of these numbers.
func (b *chunkScan) keepFirst(n int) (last uint32) {
	b.numbers = b.numbers[:0]
	for i := range b.chunk {
		b.numbers = append(b.numbers, b.chunk[i].Number)
	}
	slices.Sort(b.numbers)
	last = b.numbers[n-1]
	kept, names := b.chunk[:0], b.names[:0]
	for i := range b.chunk {
		if x := b.chunk[i]; x.Number <= last {
			name := b.name(&x)
			x.rest = uint32(len(names)) //nolint:gosec // maxChunkNames
			names = append(names, name...)
			x.end = uint32(len(names)) //nolint:gosec // maxChunkNames
			kept = append(kept, x)
		}
	}
	b.chunk, b.names = kept, names
	return last
}

// sortNumbers sorts the chunk by the items' numbers.
func (b *chunkScan) sortNumbers() {
	b.order = slices.Grow(b.order[:0], len(b.chunk))
	for n := range b.chunk {
		b.order = append(b.order, logAddress{lsn: int64(b.chunk[n].Number), at: uint32(n)}) //nolint:gosec // maxChunk
	}
	b.order, b.spare = sortAddresses(b.order, b.spare)
	for n := range b.chunk {
		x, to := b.chunk[n], uint32(n)                                         //nolint:gosec // maxChunk
		for from := b.order[to].at; from != uint32(n); from = b.order[to].at { //nolint:gosec // maxChunk
			b.chunk[to], b.order[to].at = b.chunk[from], to
			to = from
		}
		b.chunk[to], b.order[to].at = x, to
	}
}

// sortedName is an item of a chunk, with the first bytes of its name.
type sortedName struct {
	first uint64
	at    uint32 // the index in the chunk
}

// sortNames sets b.sorted to those items of the chunk that have no entry yet, sorted by their
// names. Most comparisons need only the first bytes of two names. The rest of them is elsewhere
// in memory, and fetching it takes most of the time of a large sort.
func (b *chunkScan) sortNames() {
	b.sorted = b.sorted[:0]
	for n := range b.chunk {
		if b.chunk[n].LSN > 0 {
			continue
		}
		var first [8]byte
		copy(first[:], b.name(&b.chunk[n]))
		b.sorted = append(b.sorted, sortedName{binary.BigEndian.Uint64(first[:]), uint32(n)}) //nolint:gosec // maxChunk
	}
	slices.SortFunc(b.sorted, func(x, y sortedName) int {
		if x.first != y.first {
			return cmp.Compare(x.first, y.first)
		}
		return bytes.Compare(b.name(&b.chunk[x.at]), b.name(&b.chunk[y.at]))
	})
}

// resolve reads the index entries of those items of the chunk that have none yet, in the
// order of the index.
func (b *chunkScan) resolve(ctx context.Context) error {
	w := b.w
	if b.sortNames(); len(b.sorted) == 0 {
		return nil
	}
	prefix := layout.AppendContainerKey(nil, layout.SpaceIndex, w.c.number)
	it, err := w.v.snap.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.Successor(prefix)})
	if err != nil {
		return w.c.db.fault(err)
	}
	key := prefix
	tries, good := 0, 0 // of stepping over a few entries instead of seeking
	for at, s := range b.sorted {
		if at%checkEvery == 0 && ctx.Err() != nil {
			return errors.Join(ctx.Err(), it.Close())
		}
		x := &b.chunk[s.at]
		key = append(key[:layout.ContainerKeySize], b.name(x)...)
		found := false
		if at > 0 && tries <= 2*good+fewSteps {
			tries++
			for n, before := 0, true; before && n < fewSteps && it.Next(); n++ {
				order := bytes.Compare(it.Key(), key)
				before, found = order < 0, order == 0
			}
			if found {
				good++
			}
		}
		if !found && (!it.SeekGE(key) || !bytes.Equal(it.Key(), key)) {
			err := cmp.Or(it.Error(), layout.Corrupt("container %s: item %x is in the order of writing but not in the index", w.c.name, key))
			return errors.Join(w.c.db.fault(err), it.Close())
		}
		i, err := readIndexed(it)
		if err == nil && i.Number != x.Number {
			err = layout.Corrupt("container %s: item %x has the number %d in the index and %d in the order of writing", w.c.name, key, i.Number, x.Number)
		}
		if err != nil {
			return errors.Join(w.c.db.fault(err), it.Close())
		}
		x.Entry = i.Entry
	}
	if err := it.Close(); err != nil {
		return w.c.db.fault(err)
	}
	return nil
}

// trim removes the expired items from the chunk, and those that don't fit on the page. It
// reports whether it removed any of the latter. Then at is after the last item that stays,
// or at the beginning of the part.
func (b *chunkScan) trim(size int, part itemPart) (more bool) {
	w := b.w
	kept, stored := b.chunk[:0], 0
	for n := range b.chunk {
		x := &b.chunk[n]
		if w.isExpired(&x.Entry) {
			continue
		}
		if b.full = w.isFull(w.items+len(kept), w.bytes+stored, int(x.Size)); b.full || len(kept) == size {
			more = true
			break
		}
		stored += b.shown(x)
		kept = append(kept, *x)
	}
	b.chunk = kept
	switch {
	case !more:
	case len(kept) > 0:
		x := &kept[len(kept)-1]
		b.at = part.after(b.point(x), x.Number)
	default:
		b.at = part.begin()
	}
	return more
}

// sortedSet has the items of a request's sets in one part, in the order of the part.
type sortedSet struct {
	items    []collected
	names    []byte
	tooLarge bool // there are more than maxSet, and items does not have them
}

// readSet reads the items of a part from the given intervals of the index.
func (w *itemScan) readSet(ctx context.Context, part itemPart, intervals []interval) (*sortedSet, error) {
	sc := *w.sc
	sc.narrow(part.partition)
	set := &sortedSet{}
	err := w.c.scanIndex(ctx, w.v, &sc, intervals, nil, func(i *indexed) (bool, error) {
		if !part.has(i.pointBytes()) || !w.selects(i.rest, i.at) {
			return true, nil
		}
		if len(set.items) == maxSet {
			set.tooLarge = true
			return false, nil
		}
		from := len(set.names)
		set.names = append(set.names, i.rest...)
		set.items = append(set.items, collected{Entry: i.Entry, rest: uint32(from), end: uint32(len(set.names))}) //nolint:gosec // maxSet
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(set.items, func(x, y collected) int {
		if part.byNumber {
			return cmp.Compare(x.Number, y.Number)
		}
		return cmp.Or(bytes.Compare(set.point(&x), set.point(&y)), cmp.Compare(x.Number, y.Number))
	})
	return set, nil
}

// point returns the point of an item of the set.
func (s *sortedSet) point(x *collected) []byte { return s.names[x.rest : x.rest+uint32(x.Point)] }

// takeSet is collectNames for the items of b.set.
func (b *chunkScan) takeSet(n int) (complete bool) {
	s, part := b.set, &b.part
	next := sort.Search(len(s.items), func(i int) bool {
		x := &s.items[i]
		if !part.byNumber && !bytes.Equal(s.point(x), part.lower) {
			return bytes.Compare(s.point(x), part.lower) > 0
		}
		return x.Number > part.number
	})
	for ; next < len(s.items); next++ {
		x := &s.items[next]
		if len(b.chunk) == n {
			return false
		}
		id := s.names[x.rest+uint32(x.Point) : x.end]
		b.add(&x.Entry, s.point(x), id)
		b.at = part.after(s.point(x), x.Number)
	}
	return true
}
