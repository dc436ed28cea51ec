package query

// Position is a place in the order of a query's rows: a row's sort key and the
// number of its document, which tells rows with equal keys apart.
type Position struct {
	// Key is what [Rows.OrderKey] returned; nil without ORDER BY.
	Key []byte
	// Tie is the document's number in its container (the one in its rid).
	Tie uint64
}

// SortedRow is a row at its place.
type SortedRow struct {
	Position
	// Row is the row's JSON.
	Row []byte
}

// Sorter keeps the first rows, in the order of a query's ORDER BY, of all that
// it is shown. Its memory is that of the rows it keeps, so a page costs a scan of the
// partition key or range and no more memory than the page.
type Sorter struct {
	keep       int
	after      *Position
	descending bool
	rows       []SortedRow
}

// NewSorter returns a sorter that keeps at most keep rows: those that come first
// after the position, or of all when after is nil. Rows with equal keys come in
// the order of their documents' numbers, in the direction of the first sort key.
func (b *Bound) NewSorter(keep int, after *Position) *Sorter {
	s := &Sorter{keep: keep, after: after}
	if o := b.shape.OrderBy; len(o) > 0 {
		s.descending = o[0].Descending
	}
	return s
}

// Add shows the sorter a row. It copies what it keeps.
func (s *Sorter) Add(p Position, row []byte) {
}

// Rows returns the rows kept, in their order, and leaves the sorter empty.
func (s *Sorter) Rows() []SortedRow { return nil }
