package query

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Query is a parsed and checked query. It is immutable and safe for concurrent use. A
// server may keep it for the next request with the same text.
type Query struct {
	q *syntax.Select
	// count is set if the query only counts the rows of q.
	count *countDistinct
}

// Parse reads a query. It returns a *[syntax.Error] or a *[syntax.UnsupportedError]. The
// time is proportional to the text, whose length and nesting are bounded.
func Parse(text string) (*Query, error) {
	q, err := syntax.Parse(text)
	if err != nil {
		return nil, err
	}
	inner, count := distinctCounted(q)
	if count != nil {
		q = inner
	}
	if err := check(text, q); err != nil {
		return nil, err
	}
	return &Query{q: q, count: count}, nil
}

// String returns the query in the service's own spelling, one clause a line. Parse reads
// that text as the same query.
func (q *Query) String() string {
	if q.count != nil {
		return q.count.outer.String()
	}
	return q.q.String()
}

// Bind sets the parameters. The names in params include the @, as in the body of a
// request. Parameters that the query does not use are ignored.
//
// It returns a *[ParameterError] if a parameter is missing or has an unsuitable value,
// such as a TOP that is not a count. Bind keeps the values and does not keep the map.
func (q *Query) Bind(params map[string]json.RawMessage) (*Bound, error) {
	b, err := bind(q.q, params)
	if err == nil && q.count != nil {
		b.prog.count = q.count
		b.shape.Aggregates, b.shape.SelectAll, b.shape.SelectValue = []string{value.Count.String()}, false, q.count.name == ""
	}
	return b, err
}

// Bound is a query with its parameters, ready to run. It is immutable and safe for
// concurrent use, but each goroutine needs its own [Rows].
type Bound struct {
	q      *syntax.Select
	params map[string]value.Value
	now    time.Time // the current time in the query
	shape  Shape
	prog   *program
}

// Shape describes the parts of a query that concern several documents. The caller that
// reads the documents must apply Top, Offset, Limit and OrderBy. [Rows] and [Groups]
// apply the rest.
type Shape struct {
	// Top is the count of TOP. It is nil without the clause. Zero is a valid count.
	Top *int64
	// Offset and Limit are the counts of OFFSET LIMIT. Both are nil without the clause.
	Offset, Limit *int64
	// OrderBy has one entry for each sort key.
	OrderBy []SortKey
	// Distinct and GroupBy report whether the query has these clauses.
	Distinct, GroupBy bool
	// Aggregates lists the aggregate functions of the select list, named as in a plan:
	// "Count". Without GROUP BY they produce exactly one row, even from no documents.
	Aggregates []string
	// Grouped reports whether several documents produce a row together (GROUP BY,
	// aggregates, DISTINCT). [Rows.Groups] returns such rows.
	Grouped bool
	// SelectValue reports whether the rows are bare values (SELECT VALUE).
	SelectValue bool
	// SelectAll reports whether the rows are the documents' own bytes (SELECT *).
	SelectAll bool
	// NoSource reports whether FROM is missing or does not name the container. Then no
	// document is read, and the query is evaluated once, for {}.
	NoSource bool
	// Several reports whether a document may produce several rows or none (JOIN, FROM x
	// IN, FROM c.path). Use [Rows.Each] then.
	Several bool
}

// SortKey is one key of ORDER BY.
type SortKey struct {
	// Path is the expression as the service writes it: c.x, c["a b"].
	Path string
	// Descending reports whether the key has DESC.
	Descending bool
}

// Merged reports whether the rows of several ranges must be merged as [Bound.Plan]
// describes, and cannot be concatenated. TOP needs no merge, because the client or
// the server truncates the rows.
func (s Shape) Merged() bool {
	return !s.NoSource && (s.Grouped || len(s.OrderBy) > 0 || s.Limit != nil)
}

// Shape returns the parts of the query that concern several documents.
func (b *Bound) Shape() Shape { return b.shape }

// Identity returns a text that two queries share if a position among the rows of one is a
// position among the rows of the other. It has the query and the values of its parameters.
//
// Clients that merge the sorted rows of several ranges put a filter on the values of ORDER BY
// into the query of the plan, and another one when they resume. So this filter is no part of
// the identity, but every condition of the user's is.
func (b *Bound) Identity() []byte {
	q := *b.q
	q.Where = withoutResumption(b.q)
	text := []byte(q.String())
	for _, name := range slices.Sorted(maps.Keys(b.params)) {
		v := b.params[name]
		text = fmt.Appendf(text, "\x00%s %d ", name, v.Kind)
		text = v.AppendJSON(text)
	}
	return text
}
