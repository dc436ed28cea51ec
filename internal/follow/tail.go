package follow

import "cmp"

// Tail finds the end of a feed to which others write. The zero value is ready to follow a
// feed without end.
//
// A source may return an empty page in the middle of the feed, for instance after it has
// read entries of other keys only. If every such page passed for the end, a reader would
// fall behind. But a reader must not chase an end that the writes of other keys keep
// moving either, so the end is the one that the first page showed.
type Tail struct {
	// Once keeps that end for good, for a reader that stops there. Otherwise each page with
	// changes, and each end, is followed by a new search.
	Once bool
	// end is the end that the first page showed, or 0.
	end int64
}

// Changes records a page with changes and reports whether it reaches the end. lsn is the
// page's position and end the last LSN of the feed, each -1 if unknown. Without them, a page
// with changes is never the last.
func (t *Tail) Changes(lsn, end int64) bool {
	if !t.Once {
		t.end = 0
	}
	last := cmp.Or(t.end, max(end, 0))
	if t.Once {
		t.end = last
	}
	return last > 0 && lsn >= last
}

// Empty records a page without changes and reports whether it reaches the end. moved
// reports whether the page's position differs from the position of its read. A page that
// has not moved, or whose LSNs are unknown, is the end.
func (t *Tail) Empty(lsn, end int64, moved bool) bool {
	t.end = cmp.Or(t.end, max(end, 0))
	if moved && lsn >= 0 && lsn < min(t.end, end) {
		return false
	}
	if !t.Once {
		t.end = 0
	}
	return true
}
