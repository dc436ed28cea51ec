package query

import "github.com/changefeed-go/changefeed/internal/query/syntax"

// Cost holds what the charge of a query depends on.
type Cost struct {
	// Filtered reports whether the query has a condition, and Joined whether its FROM has
	// several loops. Path reports whether it is SELECT VALUE of a path.
	Filtered, Joined, Path bool
	// Members is the number of items of the select list, or 0 for SELECT * and SELECT VALUE.
	Members int
}

// Cost returns what the charge of the query depends on.
func (b *Bound) Cost() Cost {
	_, isPath := b.q.Value.(*syntax.Member)
	return Cost{Filtered: b.q.Where != nil, Joined: b.shape.Several, Path: isPath, Members: len(b.q.Items)}
}
