package query

import (
	"bytes"
	"cmp"
	"slices"
)

// Sorter keeps the first rows, in the order of a query's ORDER BY, of all that
// it is shown. It holds at most twice the rows it keeps, so a page costs a scan of
// the partition key or range, and the memory of two pages.
//
// A page's continuation is the Position of its last row, and the next page is
// what a sorter keeps that begins after it: nothing is returned twice or left
// out when documents come and go between the pages. A row skipped by OFFSET is
// one that was kept and not returned.
type Sorter struct {
	keep       int
	after      *Position
	descending bool
	rows       []SortedRow
	// full is set once more than keep rows were seen; limit is then the last of
	// those kept when it was last looked.
	full  bool
	limit Position
	size  int
}

// rowOverhead is what a row costs beside its bytes.
const rowOverhead = 64

// NewSorter returns a sorter that keeps at most keep rows: those that come first
// after the position, or of all when after is nil. Rows with equal keys come in
// the order of their documents' numbers, in the direction of the first sort key.
func (b *Bound) NewSorter(keep int, after *Position) *Sorter {
	s := &Sorter{keep: max(keep, 0), after: after}
	if o := b.shape.OrderBy; len(o) > 0 {
		s.descending = o[0].Descending
	}
	return s
}

// Compare returns the order of two positions: negative when a comes first.
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

// wants reports whether a row at p would be kept so far.
func (s *Sorter) wants(p Position) bool {
	return s.keep > 0 &&
		(s.after == nil || s.Compare(p, *s.after) > 0) &&
		(!s.full || s.Compare(p, s.limit) < 0)
}

// Add shows the sorter a row. It copies what it keeps.
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

// cut sorts and drops what is too much. It is done once in keep rows, so a row
// costs the logarithm of keep.
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

// Size is how much memory the sorter holds, in bytes.
func (s *Sorter) Size() int { return s.size }

// Shrink makes the sorter keep fewer rows from now on, so that those it holds take at most size bytes, if one
// row does. It is for whoever can do with fewer rows than were asked for, because they are large.
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

// Rows returns the rows kept, in their order, and leaves the sorter as it was
// before the first.
func (s *Sorter) Rows() []SortedRow {
	s.cut()
	rows := s.rows
	s.rows, s.full, s.size = nil, false, 0
	return rows
}
