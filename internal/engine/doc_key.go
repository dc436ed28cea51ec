package engine

import (
	"bytes"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// matchKey checks that the document is in the logical partition of the key that a caller
// gave. If it is not, matchKey returns a KeyMismatch error with both keys. A nil key is
// not checked.
func (c *Container) matchKey(given feed.PartitionKey, d *layout.Document) error {
	if given == nil {
		return nil
	}
	components, err := c.paths.FullKey(given)
	if err != nil {
		return err
	}
	if !c.hash.SamePartition(components, d.Components()) {
		return layout.BadRequest(storetype.KeyMismatch, "the key %s was given, and the document %q has %s", given, d.ID, layout.PartitionKey(d.Components()))
	}
	return nil
}

// SamePartition reports whether two full keys name the same logical partition. They do if
// they are equal, and in a container of HashV1 if they differ only where the hash does not
// look. It returns false if one of them does not fit the container.
func (c *Container) SamePartition(a, b feed.PartitionKey) bool {
	x, err := c.paths.FullKey(a)
	if err != nil {
		return false
	}
	y, err := c.paths.FullKey(b)
	return err == nil && c.hash.SamePartition(x, y)
}

// SharesPartition reports whether the logical partition of a full key may have documents
// with other keys, as in a container of HashV1.
func (c *Container) SharesPartition(key feed.PartitionKey) bool {
	components, err := c.paths.FullKey(key)
	return err == nil && c.hash.MayShare(components)
}

// KeyPaths returns the partition key paths, each as its names: ["a","b"] for /a/b. The
// caller must not change them.
func (c *Container) KeyPaths() [][]string { return c.paths }

// SystemKey reports whether the container has no partition key of its own; see
// [storetype.ContainerProperties].
func (c *Container) SystemKey() bool { return c.systemKey }

// KeyRange implements store.Container.KeyRange, which documents it.
func (c *Container) KeyRange(key feed.PartitionKey) (feed.Range, error) {
	s, err := c.newKeyFilter(feed.Range{}, key)
	return s.keys, err
}

// keyFilter selects the items of a request by their partition keys. All selected keys are
// in one range. If the request has a full key, only that key is selected.
type keyFilter struct {
	keys         feed.Range
	lower, upper []byte // the borders of the range keys, in binary form
	// point is the point of the full key. If nil, all keys of the range are selected.
	point []byte
}

// holds reports whether the filter selects the partition key with the given point.
func (s *keyFilter) holds(point []byte) bool {
	return (s.point == nil || bytes.Equal(s.point, point)) && between(point, s.lower, s.upper)
}

// between reports whether a point is in a range whose borders are given in binary form.
func between(point, lower, upper []byte) bool {
	return bytes.Compare(point, lower) >= 0 && bytes.Compare(point, upper) < 0
}

// newKeyFilter returns the filter of a request that has a range, a partition key, or a
// prefix of a key. If both arguments are empty, all keys are selected.
func (c *Container) newKeyFilter(keys feed.Range, key feed.PartitionKey) (keyFilter, error) {
	s := keyFilter{keys: keys.OrFull()}
	if s.keys.IsEmpty() {
		return s, layout.BadRequest(storetype.BadRange, "%s contains no key", s.keys)
	}
	// Borders are also compared as text, where lower case sorts differently. A border
	// above MaxEPK would make a range seem to cover several partitions.
	if !isHex(s.keys.Min) || !isHex(s.keys.Max) || s.keys.Max > feed.MaxEPK {
		return s, layout.BadRequest(storetype.BadRange, "%s is not a range of upper-case hexadecimal keys up to %s", s.keys, feed.MaxEPK)
	}
	if len(key) > 0 {
		components, err := layout.KeyComponents(key)
		if err != nil {
			return s, err
		}
		if len(components) > len(c.paths) || len(components) < len(c.paths) && c.hash != epk.MultiHash {
			return s, layout.BadRequest(storetype.KeyMismatch, "partition key %s has %d components; the container's has %d", key, len(components), len(c.paths))
		}
		if len(components) == len(c.paths) {
			s.point = c.hash.Append(nil, components)
		}
		lower, upper := c.hash.Prefix(components)
		s.keys = s.keys.Intersect(feed.Range{Min: lower, Max: upper})
	}
	var err error
	s.lower, s.upper, err = binaryRange(s.keys)
	return s, err
}

// narrow removes from the filter all keys that are outside of partition p.
func (s *keyFilter) narrow(p *partition) {
	s.keys = s.keys.Intersect(p.keys)
	if bytes.Compare(p.lower, s.lower) > 0 {
		s.lower = p.lower
	}
	if bytes.Compare(p.upper, s.upper) < 0 {
		s.upper = p.upper
	}
}

// partitionIn returns the index of the partition with the given id. If id is empty, it
// returns the index of the one partition that has all keys of the filter. It returns a
// *feed.GoneError if there is no such partition.
func (s *keyFilter) partitionIn(m *meta, id string) (index int, err error) {
	switch {
	case id != "":
		if index = m.byID(id); index < 0 {
			return -1, gone(id, s.keys)
		}
		return index, nil
	case s.point != nil:
		return m.find(s.point), nil
	}
	// If the key is outside of the range, the filter selects no key. Any partition can
	// serve such a request.
	index = min(m.find(s.lower), len(m.partitions)-1)
	if !s.keys.IsEmpty() && bytes.Compare(s.upper, m.partitions[index].upper) > 0 {
		return -1, gone("", s.keys)
	}
	return index, nil
}
