package query

import (
	"bytes"
	"cmp"
	"slices"
)

// Sorter keeps the first rows in the order of a query's ORDER BY. It holds at most twice
// as many rows as it keeps. So a page costs one scan of the partition key or range, and
// the memory of two pages.
//
// The continuation of a page is the Position of its last row. The next page holds the
// first rows after it. So no row is repeated or skipped if documents come and go between
// pages. Rows that OFFSET skips are kept too, and the caller drops them.
type Sorter struct {
	keep       int
	after      *Position
	descending bool
	rows       []SortedRow
	// full is set when rows were dropped for the first time. limit is then the position
	// of the last row that is kept.
	full  bool
	limit Position
	size  int
}

// rowOverhead is the approximate memory of a row in bytes, without its data.
const rowOverhead = 64

// NewSorter returns a sorter that keeps the first rows after a position, at most keep of
// them. A nil position means the beginning. Rows with equal keys are ordered by the
// numbers of their documents, in the direction of the first sort key.
func (b *Bound) NewSorter(keep int, after *Position) *Sorter {
	s := &Sorter{keep: max(keep, 0), after: after}
	if o := b.shape.OrderBy; len(o) > 0 {
		s.descending = o[0].Descending
	}
	return s
}

// Compare compares two positions in the order of the query. The result is negative if a
// comes first, and positive if b does.
func (s *Sorter) Compare(a, b Position) int {
	if c := bytes.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	c := cmp.Compare(a.Tie, b.Tie)
	if s.descending {
		c = -c
	}
	if c != 0 {
		return c
	}
	return cmp.Compare(a.Row, b.Row)
}

// wants reports whether a row at position p is after the start and before the rows that
// were dropped.
func (s *Sorter) wants(p Position) bool {
	return s.keep > 0 &&
		(s.after == nil || s.Compare(p, *s.after) > 0) &&
		(!s.full || s.Compare(p, s.limit) < 0)
}

// Add adds a row. It copies the memory that it keeps.
func (s *Sorter) Add(p Position, row []byte) {
	if !s.wants(p) {
		return
	}
	p.Key = bytes.Clone(p.Key)
	s.rows = append(s.rows, SortedRow{Position: p, Row: bytes.Clone(row)})
	s.size += rowOverhead + len(p.Key) + len(row)
	if len(s.rows) >= 2*s.keep && len(s.rows) > s.keep {
		s.cut()
	}
}

// cut sorts the rows and drops those beyond the first keep ones. It is called only after
// keep rows were added, so a row takes logarithmic time.
func (s *Sorter) cut() {
	slices.SortFunc(s.rows, func(a, b SortedRow) int { return s.Compare(a.Position, b.Position) })
	if len(s.rows) <= s.keep {
		return
	}
	for _, row := range s.rows[s.keep:] {
		s.size -= rowOverhead + len(row.Key) + len(row.Row)
	}
	clear(s.rows[s.keep:])
	s.rows = s.rows[:s.keep]
	s.full, s.limit = true, s.rows[s.keep-1].Position
}

// Size returns the memory that the sorter holds, in bytes.
func (s *Sorter) Size() int { return s.size }

// Shrink lowers the number of rows that the sorter keeps, until they take at most size
// bytes. It keeps at least one row. It is for callers that accept fewer rows if the rows
// are large.
func (s *Sorter) Shrink(size int) {
	s.cut()
	n, held := len(s.rows), s.size
	for n > 1 && held > size {
		n--
		held -= rowOverhead + len(s.rows[n].Key) + len(s.rows[n].Row)
	}
	if n < len(s.rows) {
		s.keep = n
		s.cut()
	}
}

// Rows returns the kept rows in order and empties the sorter.
func (s *Sorter) Rows() []SortedRow {
	s.cut()
	rows := s.rows
	s.rows, s.full, s.size = nil, false, 0
	return rows
}
