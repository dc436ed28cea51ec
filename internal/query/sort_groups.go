package query

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Groups collects the rows that several documents produce together. These are the groups
// of GROUP BY, the single row of aggregates, and the distinct rows of DISTINCT. See
// [Shape.Grouped].
//
// Groups keeps the first rows in the order of their keys, and holds at most twice as many
// as it keeps. So a query with any number of groups takes the memory of two pages, and
// one scan of the partition key or range per page.
//
// The continuation of a page is the key of its last row, not a number of rows. So no
// group is repeated or skipped if documents come and go between pages, or if a split
// divides the range. After a split, each part returns its share of the groups after the
// key.
type Groups struct {
	rows *Rows
	g    *grouping // nil for DISTINCT
	keep int
	// after is the key after which the page begins, or "" for the first page.
	after  string
	groups map[string]*group
	// full is set when groups were dropped for the first time. limit is then the key of
	// the last group that is kept.
	full  bool
	limit string
	size  int
	err   error

	seen   map[differentRow]struct{} // set if rows are only counted
	values []value.Value             // of GROUP BY for the current row
	buf    []byte                    // the key of the current row
}

// Groups returns a collector that keeps the first rows after a key, at most keep of them.
// An empty key means the beginning. The collector uses r and is not safe for concurrent
// use.
func (r *Rows) Groups(keep int, after []byte) *Groups {
	s := &Groups{rows: r, g: r.prog.group, keep: max(keep, 1), after: string(after), groups: map[string]*group{}}
	if r.prog.count != nil {
		s.seen = map[differentRow]struct{}{}
	}
	if s.g != nil {
		s.values = make([]value.Value, len(s.g.keys))
		if len(s.values) == 0 && len(after) == 0 {
			s.insert(s.g.newGroup("")) // one group exists even without documents
		}
	}
	return s
}

// Add adds the current row of [Rows.Each]. It copies the memory that it keeps.
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

// wants reports whether a group with the key in buf is after the start and before the
// groups that were dropped.
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

// cut drops the groups beyond the first keep ones and returns the others in order. It is
// called only after keep groups were added, so a row takes logarithmic time.
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

// Size returns the memory that the collector holds, in bytes.
func (s *Groups) Size() int { return s.size }

// Full reports whether there are rows after the kept ones.
func (s *Groups) Full() bool { return s.full }

// Shrink lowers the number of rows that the collector keeps, until they take at most size
// bytes. It keeps at least one row.
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

// Rows returns the kept rows in the order of their keys. A row is nil if the value of
// SELECT VALUE is undefined for its group. Such a row has a position but is not part of
// the answer. If [Groups.Err] returns an error, the rows are invalid.
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
		f.group, f.notFinite = m, false
		if row, ok := s.g.row(f, nil); ok {
			rows[i].Row = json.RawMessage(row)
		}
		f.made()
		f.group = nil
	}
	s.err = s.rows.end()
	return rows
}

// Err returns the error of the last call of [Groups.Rows], such as an *[EvaluationError].
func (s *Groups) Err() error { return s.err }

// maxGroupKey limits the length of a group's key in bytes. A continuation contains a key,
// and is sent in a header.
const maxGroupKey = 256

// bounded limits the part of key after from to maxGroupKey bytes. It replaces the excess
// with a hash. Beyond the kept bytes, the order of keys is not that of the values. But it
// is the same on every page, and no two groups share a key.
func bounded(key []byte, from int) []byte {
	if len(key)-from <= maxGroupKey {
		return key
	}
	sum := sha256.Sum256(key[from:])
	return append(key[:from+maxGroupKey-len(sum)], sum[:]...)
}
