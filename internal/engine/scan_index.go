package engine

import (
	"bytes"
	"context"
	"slices"
	"sort"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
)

// indexed is an item's entry in the index. Its slices are valid only during the visit.
type indexed struct {
	layout.Entry
	// key is the whole index key. rest is its part after the container's number: the
	// point and the id.
	key, rest []byte
	// at is the offset of the id in rest.
	at int
}

func (i *indexed) pointBytes() []byte { return i.rest[:i.at] }
func (i *indexed) id() []byte         { return i.rest[i.at:] }

// scanIndex visits the items of a filter, sorted by effective partition key and id, until
// visit returns false or an error. It starts at the position from, which is a point and
// an id. If from is empty, it starts at the first item. Expired items are visited too. No
// document is read.
//
// Unless intervals is nil, only items in these intervals are visited, and others cost
// nothing. The intervals are sorted, disjoint and bounded. They are intervals of the part
// of index keys after the container. An error of visit is returned unchanged.
func (c *Container) scanIndex(ctx context.Context, v *view, sc *keyFilter, intervals []interval, from []byte, visit func(*indexed) (bool, error)) (err error) {
	lower, upper := c.indexBounds(sc)
	base := lower[:layout.ContainerKeySize:layout.ContainerKeySize]
	if first := append(base, from...); bytes.Compare(first, lower) > 0 {
		lower = first
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return c.db.fault(err)
	}
	defer func() {
		if cerr := it.Close(); err == nil && cerr != nil {
			err = c.db.fault(cerr)
		}
	}()
	w := indexScan{ctx: ctx, c: c, sc: sc, it: it, visit: visit}
	if intervals == nil {
		_, err = w.run(it.First(), upper)
		return err
	}
	for n, s := range intervals {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		from, to := append(base, s.lower...), append(base, s.upper...)
		if bytes.Compare(to, lower) <= 0 {
			continue
		}
		if bytes.Compare(from, upper) >= 0 {
			break
		}
		if more, err := w.run(it.SeekGE(from), to); err != nil || !more {
			return err
		}
	}
	return nil
}

// scanAll is scanIndex over all items from a position on.
func (c *Container) scanAll(ctx context.Context, v *view, from []byte, visit func(*indexed) (bool, error)) error {
	sc, err := c.newKeyFilter(feed.Range{}, nil)
	if err != nil {
		return err
	}
	return c.scanIndex(ctx, v, &sc, nil, from, visit)
}

// indexScan is a scan of the index.
type indexScan struct {
	ctx   context.Context //nolint:containedctx // the context of one call of scanIndex
	c     *Container
	sc    *keyFilter
	it    *pebble.Iterator
	visit func(*indexed) (bool, error)
	// i is the argument of visit. It escapes to the heap, so all calls share it.
	i       indexed
	visited int
}

// run visits the entries from the iterator's current one up to the key upper. ok reports
// whether there is a current entry. more is false if the whole scan must end.
func (w *indexScan) run(ok bool, upper []byte) (more bool, err error) {
	for ; ok; ok = w.it.Next() {
		if w.visited++; w.visited%checkEvery == 0 && w.ctx.Err() != nil {
			return false, w.ctx.Err()
		}
		if bytes.Compare(w.it.Key(), upper) >= 0 {
			return true, nil
		}
		if w.i, err = readIndexed(w.it); err != nil {
			return false, w.c.db.fault(err)
		}
		point := w.i.pointBytes()
		if bytes.Compare(point, w.sc.upper) >= 0 {
			return false, nil
		}
		if bytes.Compare(point, w.sc.lower) < 0 || w.sc.point != nil && !bytes.Equal(w.sc.point, point) {
			continue
		}
		if more, err := w.visit(&w.i); err != nil || !more {
			return false, err
		}
	}
	if err := w.it.Error(); err != nil {
		return false, w.c.db.fault(err)
	}
	return true, nil
}

// indexBounds returns the bounds of the index keys of a filter's items. Unless the filter
// has a full key, other items are between the bounds, too.
func (c *Container) indexBounds(sc *keyFilter) (lower, upper []byte) {
	base := layout.AppendContainerKey(nil, layout.SpaceIndex, c.number)
	if sc.point == nil {
		return append(bytes.Clone(base), sc.lower...), layout.Successor(base)
	}
	// No point is a prefix of another one, so all keys between the bounds have this
	// point.
	lower = append(base, sc.point...)
	return lower, layout.Successor(lower)
}

// readIndexed decodes the iterator's current entry.
func readIndexed(it *pebble.Iterator) (indexed, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return indexed{}, err
	}
	e, err := layout.DecodeEntry(value)
	if err != nil {
		return indexed{}, err
	}
	key := it.Key()
	if len(key) < layout.ContainerKeySize+int(e.Point) {
		return indexed{}, layout.Corrupt("index entry %x has a point of %d bytes", key, e.Point)
	}
	return indexed{Entry: e, key: key, rest: key[layout.ContainerKeySize:], at: int(e.Point)}, nil
}

// ItemSet is a set of items by key and id. The index alone determines its items, so no
// document is read to find them.
type ItemSet struct {
	// Key is a full partition key. If nil, items of all keys are in the set.
	Key feed.PartitionKey
	// From and To bound the ids: From <= id < To, in the order of UTF-8. If To is empty,
	// there is no upper bound.
	From, To string
}

// itemSets is a union of ItemSets, prepared for a scan of the index.
type itemSets struct {
	// points has the sets with a key, and ids those without one. An element of points is
	// an interval of index keys without the container's number. An element of ids is an
	// interval of ids. Both are sorted and do not overlap.
	points, ids []interval
}

// interval is the interval lower <= x < upper. If upper is nil, there is no upper bound.
type interval struct{ lower, upper []byte }

// newItemSets returns the union of the sets. It returns nil if sets is nil, which selects
// all items.
func (c *Container) newItemSets(sets []ItemSet) (*itemSets, error) {
	if sets == nil {
		return nil, nil //nolint:nilnil // nil selects all items
	}
	u := &itemSets{}
	for _, s := range sets {
		if s.Key == nil {
			u.ids = append(u.ids, intervalOf(nil, s))
			continue
		}
		components, err := c.paths.FullKey(s.Key)
		if err != nil {
			return nil, err
		}
		u.points = append(u.points, intervalOf(c.hash.Append(nil, components), s))
	}
	u.points, u.ids = union(u.points), union(u.ids)
	return u, nil
}

// intervalOf returns the interval of the ids of set s, each preceded by the given point.
func intervalOf(point []byte, s ItemSet) (p interval) {
	p.lower = append(bytes.Clone(point), s.From...)
	switch {
	case s.To != "":
		p.upper = append(bytes.Clone(point), s.To...)
	case len(point) > 0:
		p.upper = layout.Successor(point) // no point is a prefix of another one
	}
	return p
}

// union returns the union of intervals, sorted and disjoint. It drops empty intervals.
func union(all []interval) []interval {
	slices.SortFunc(all, func(a, b interval) int { return bytes.Compare(a.lower, b.lower) })
	out := all[:0]
	for _, s := range all {
		if s.upper != nil && bytes.Compare(s.lower, s.upper) >= 0 {
			continue
		}
		if n := len(out); n > 0 && (out[n-1].upper == nil || bytes.Compare(s.lower, out[n-1].upper) <= 0) {
			if last := &out[n-1]; last.upper != nil && (s.upper == nil || bytes.Compare(s.upper, last.upper) > 0) {
				last.upper = s.upper
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// intervals returns the intervals that contain all items of the sets. It returns nil if
// any index entry may be in a set.
func (u *itemSets) intervals() []interval {
	if u == nil || len(u.ids) > 0 {
		return nil
	}
	if u.points == nil {
		return []interval{}
	}
	return u.points
}

// contains reports whether one of the sets has the item whose point and id are rest, with
// the id at the offset at. A nil union contains all items.
func (u *itemSets) contains(rest []byte, at int) bool {
	return u == nil || within(u.points, rest) || within(u.ids, rest[at:])
}

// within reports whether x is in one of the intervals.
func within(intervals []interval, x []byte) bool {
	n := sort.Search(len(intervals), func(n int) bool { return bytes.Compare(intervals[n].lower, x) > 0 })
	return n > 0 && (intervals[n-1].upper == nil || bytes.Compare(x, intervals[n-1].upper) < 0)
}
