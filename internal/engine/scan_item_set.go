package engine

import (
	"bytes"
	"slices"
	"sort"

	"github.com/changefeed-go/changefeed/feed"
)

// ItemSet is a set of items, told by what the index has of them: no document has to be read to find them.
type ItemSet struct {
	// Key is a full partition key. Default: any.
	Key feed.PartitionKey
	// From and To bound the ids, From <= id < To, in the order of their UTF-8. An empty To is no bound.
	From, To string
}

// WithID is the set of the items of one id; a nil key stands for any.
func WithID(key feed.PartitionKey, id string) ItemSet {
	return ItemSet{Key: key, From: id, To: id + "\x00"}
}

// itemSets is a union of ItemSets, laid out for a walk over the index.
type itemSets struct {
	// points are those that have a key, as intervals of what follows the container in index keys; ids are those that have none, as
	// intervals of ids. Both are in order and apart.
	points, ids []stretch
}

// stretch is an interval lower <= x < upper; a nil upper is no bound.
type stretch struct{ lower, upper []byte }

// newItemSets lays out the sets; nil: the request has none, and isn't narrowed.
func (c *Container) newItemSets(sets []ItemSet) (*itemSets, error) {
	if sets == nil {
		return nil, nil //nolint:nilnil // "not narrowed" isn't "nothing"
	}
	u := &itemSets{}
	for _, s := range sets {
		if s.Key == nil {
			u.ids = append(u.ids, stretchOf(nil, s))
			continue
		}
		components, err := c.paths.fullKey(s.Key)
		if err != nil {
			return nil, err
		}
		u.points = append(u.points, stretchOf(c.hash.AppendPoint(nil, components), s))
	}
	u.points, u.ids = united(u.points), united(u.ids)
	return u, nil
}

// stretchOf is where the ids of a set are behind a point.
func stretchOf(point []byte, s ItemSet) (p stretch) {
	p.lower = append(bytes.Clone(point), s.From...)
	switch {
	case s.To != "":
		p.upper = append(bytes.Clone(point), s.To...)
	case len(point) > 0:
		p.upper = successor(point) // no point is a prefix of another one
	}
	return p
}

// united sorts intervals and joins those that overlap; empty ones are left out.
func united(all []stretch) []stretch {
	slices.SortFunc(all, func(a, b stretch) int { return bytes.Compare(a.lower, b.lower) })
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

// stretches are the only places in the index that have to be looked at; nil: all may have to be.
func (u *itemSets) stretches() []stretch {
	if u == nil || len(u.ids) > 0 {
		return nil
	}
	if u.points == nil {
		return []stretch{}
	}
	return u.points
}

// hold says whether an item is in one of the sets.
func (u *itemSets) hold(i *indexed) bool {
	return u == nil || within(u.points, i.rest) || within(u.ids, i.id())
}

// within says whether x is in one of the intervals.
func within(stretches []stretch, x []byte) bool {
	n := sort.Search(len(stretches), func(n int) bool { return bytes.Compare(stretches[n].lower, x) > 0 })
	return n > 0 && (stretches[n-1].upper == nil || bytes.Compare(x, stretches[n-1].upper) < 0)
}
