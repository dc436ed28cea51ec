package engine

import (
	"bytes"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
)

// scope is what part of a container a reader asked for: a range of points, and
// one logical partition in it where a point says more than its EPK.
type scope struct {
	keys         feed.Range
	lower, upper []byte // keys, binary
	// point is that of a full key; nil: all keys of the range.
	point []byte
	hash  epk.Hash
}

// holds reports whether a point lies in the scope.
func (s *scope) holds(point []byte) bool {
	if s.point != nil && !bytes.Equal(s.point, point) {
		return false
	}
	key := s.hash.EPK(point)
	return bytes.Compare(key, s.lower) >= 0 && bytes.Compare(key, s.upper) < 0
}

// contains reports whether all of a range lies in the scope.
func (s *scope) contains(keys feed.Range) bool { return s.point == nil && s.keys.Contains(keys) }

// newScope makes the scope of a request: a range of keys, and a logical key or a prefix of one.
func (c *Container) newScope(keys feed.Range, key feed.PartitionKey) (scope, error) {
	s := scope{keys: keys.OrFull(), hash: c.hash}
	if s.keys.IsEmpty() {
		return s, badRequest(BadRange, "%s holds no key", s.keys)
	}
	// Borders are compared as text too, where lower case would sort differently; and what
	// reaches beyond all partitions would look as if it lay in several.
	if !isHex(s.keys.Min) || !isHex(s.keys.Max) || s.keys.Max > feed.MaxEPK {
		return s, badRequest(BadRange, "%s is no range of upper-case hexadecimal keys up to %s", s.keys, feed.MaxEPK)
	}
	if len(key) > 0 {
		components, err := keyComponents(key)
		if err != nil {
			return s, err
		}
		if len(components) > len(c.paths) || len(components) < len(c.paths) && c.hash != epk.MultiHash {
			return s, badRequest(KeyMismatch, "partition key %s has %d components; the container's has %d", key, len(components), len(c.paths))
		}
		if len(components) == len(c.paths) {
			s.point = c.hash.AppendPoint(nil, components)
		}
		lower, upper := c.hash.Prefix(components)
		s.keys = s.keys.Intersect(feed.Range{Min: lower, Max: upper})
	}
	var err error
	s.lower, s.upper, err = binaryRange(s.keys)
	return s, err
}

// narrow cuts the scope to a partition's range.
func (s *scope) narrow(p *partition) {
	s.keys = s.keys.Intersect(p.keys)
	if bytes.Compare(p.lower, s.lower) > 0 {
		s.lower = p.lower
	}
	if bytes.Compare(p.upper, s.upper) < 0 {
		s.upper = p.upper
	}
}

// partitionIn finds the one partition that the scope lies in, or that id names.
// *feed.GoneError: there is none of that ID, or more than one.
func (s *scope) partitionIn(m *meta, id string) (place int, err error) {
	switch {
	case id != "":
		if place = m.byID(id); place < 0 {
			return -1, gone(id, s.keys)
		}
		return place, nil
	case s.point != nil:
		return m.find(s.hash.EPK(s.point)), nil
	}
	// A scope without keys (a range and a key outside of it) lies anywhere.
	place = min(m.find(s.lower), len(m.partitions)-1)
	if !s.keys.IsEmpty() && bytes.Compare(s.upper, m.partitions[place].upper) > 0 {
		return -1, gone("", s.keys)
	}
	return place, nil
}
