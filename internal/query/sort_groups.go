package query

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Groups collects the rows that several documents make together: the groups of
// GROUP BY, the one of a query with aggregates, the different rows of DISTINCT.
// See [Shape.Grouped].
//
// It keeps the first rows, in the order of their keys, of all that it is shown,
// and holds at most twice as many, so that a query of any number of groups takes
// the memory of two pages, and a scan of the partition key or range for each. A page's
// continuation is the key of its last row: it doesn't count rows, so nothing is
// returned twice or left out when documents come and go between the pages, or
// when a split divides the range, whose parts then each have their share of the
// groups behind the key.
type Groups struct {
	rows *Rows
	g    *grouping // nil for DISTINCT
	keep int
	// after is the key of the row before the first; empty: there is none.
	after  string
	groups map[string]*group
	// full is set once groups were dropped; limit is then the last key of those
	// kept when it was last looked.
	full  bool
	limit string
	size  int
	err   error

	seen   map[differentRow]struct{} // where rows are only counted
	values []value.Value             // of the row's GROUP BY
	buf    []byte                    // its key
}

// Groups returns a collector that keeps at most keep rows, those that come first
// behind the key after, or of all when after is empty. It uses r, and so serves
// one goroutine at a time.
func (r *Rows) Groups(keep int, after []byte) *Groups {
	s := &Groups{rows: r, g: r.prog.group, keep: max(keep, 1), after: string(after), groups: map[string]*group{}}
	if r.prog.count != nil {
		s.seen = map[differentRow]struct{}{}
	}
	if s.g != nil {
		s.values = make([]value.Value, len(s.g.keys))
		if len(s.values) == 0 && len(after) == 0 {
			s.insert(s.g.newGroup("")) // there is one also of no documents
		}
	}
	return s
}

// Add shows the collector the row that [Rows.Each] is at. It copies what it keeps.
func (s *Groups) Add() {
	if s.g == nil {
		s.addDistinct()
		return
	}
	f := &s.rows.f
	s.buf = bounded(s.g.keyOf(f, s.values, s.buf[:0]), 0)
	m := s.groups[string(s.buf)]
	if m == nil {
		if !s.wants() {
			return
		}
		m = s.g.newGroup(string(s.buf))
		m.keep(s.values)
		s.insert(m)
	}
	held := m.size
	s.g.add(m, f)
	s.size += m.size - held
}

func (s *Groups) addDistinct() {
	row, ok := s.rows.Row()
	if !ok {
		return
	}
	if s.seen != nil {
		s.buf = value.AppendKey(s.buf[:0], value.Decode(row))
		s.count(s.buf)
		return
	}
	s.buf = s.rows.OrderKey(s.buf[:0])
	order := len(s.buf)
	s.buf = bounded(value.AppendKey(s.buf, value.Decode(row)), order)
	if s.groups[string(s.buf)] != nil || !s.wants() {
		return
	}
	m := &group{key: string(s.buf), row: bytes.Clone(row)}
	m.size = groupOverhead + len(m.key) + len(m.row)
	s.insert(m)
}

// wants says whether the key in buf has a place so far.
func (s *Groups) wants() bool {
	return (s.after == "" || string(s.buf) > s.after) && (!s.full || string(s.buf) <= s.limit)
}

func (s *Groups) insert(m *group) {
	s.groups[m.key] = m
	s.size += m.size
	if len(s.groups) >= 2*s.keep && len(s.groups) > s.keep {
		s.cut()
	}
}

// cut drops what is too much. It is done once in keep rows, so a row costs the
// logarithm of keep.
func (s *Groups) cut() []*group {
	list := make([]*group, 0, len(s.groups))
	for _, m := range s.groups {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *group) int { return strings.Compare(a.key, b.key) })
	if len(list) <= s.keep {
		return list
	}
	for _, m := range list[s.keep:] {
		delete(s.groups, m.key)
		s.size -= m.size
	}
	list = list[:s.keep]
	s.full, s.limit = true, list[s.keep-1].key
	return list
}

// Size is how much memory the collector holds, in bytes.
func (s *Groups) Size() int { return s.size }

// Full says that there are rows behind those that are kept.
func (s *Groups) Full() bool { return s.full }

// Shrink makes the collector keep fewer rows from now on, so that those it holds
// take at most size bytes, if one row does.
func (s *Groups) Shrink(size int) {
	list := s.cut()
	n, held := len(list), s.size
	for n > 1 && held > size {
		n--
		held -= list[n].size
	}
	if n < len(list) {
		s.keep = n
		s.cut()
	}
}

// Rows returns the rows kept, in the order of their keys. A row is nil when
// SELECT VALUE makes nothing of its group: it has a place, and isn't answered. If
// [Groups.Err] is set, no row is right.
func (s *Groups) Rows() []SortedRow {
	if c := s.rows.prog.count; c != nil {
		return s.counted(c)
	}
	list := s.cut()
	rows := make([]SortedRow, len(list))
	for i, m := range list {
		rows[i] = SortedRow{Position: Position{Key: []byte(m.key)}, Row: m.row}
		if s.g == nil {
			continue
		}
		f := &s.rows.f
		f.group = m
		if row, ok := s.g.row(f, nil); ok {
			rows[i].Row = json.RawMessage(row)
		}
		f.group = nil
	}
	s.err = s.rows.end()
	return rows
}

// Err says why a row of the last [Groups.Rows] couldn't be made, as [Rows.Each]
// does of a document.
func (s *Groups) Err() error { return s.err }

// maxGroupKey is the longest key of a group in bytes: keys are parts of
// continuations, which are headers.
const maxGroupKey = 256

// bounded makes what key has behind from at most maxGroupKey bytes long: what is
// too much becomes its hash. So the order of keys is that of values only as far as
// their beginnings say; it is the same on every page, and no two groups share a key.
func bounded(key []byte, from int) []byte {
	if len(key)-from <= maxGroupKey {
		return key
	}
	sum := sha256.Sum256(key[from:])
	return append(key[:from+maxGroupKey-len(sum)], sum[:]...)
}
