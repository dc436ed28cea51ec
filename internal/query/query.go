package query

import (
	"encoding/json"
	"time"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Query is a text that was read and understood. It doesn't change and may be
// used by any number of goroutines; a server may keep it for the next request
// with the same text.
type Query struct {
	q *syntax.Select
	// count is set when the rows of q are only counted.
	count *countDistinct
}

// Parse reads a query. The error is a *[syntax.Error] or an *[syntax.UnsupportedError].
// It takes time in proportion to the text, whose length and nesting are bounded.
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

// String returns the query in the service's own spelling, one clause a line.
// Parse reads it back as the same query.
func (q *Query) String() string {
	if q.count != nil {
		return q.count.outer.String()
	}
	return q.q.String()
}

// Bind gives the parameters their values. The names of params have their @, as
// in a request's body; values that the query doesn't use are ignored. The error
// is a *[ParameterError] or a *[syntax.Error] (a TOP, OFFSET or LIMIT that is no
// count). params isn't kept, its values are.
func (q *Query) Bind(params map[string]json.RawMessage) (*Bound, error) {
	b, err := bind(q.q, params)
	if err == nil && q.count != nil {
		b.prog.count = q.count
		b.shape.Aggregates, b.shape.SelectAll, b.shape.SelectValue = []string{value.Count.String()}, false, q.count.name == ""
	}
	return b, err
}

// Bound is a query with its parameters' values, ready to run. It doesn't change
// and may be used by any number of goroutines; each takes [Rows] of its own.
type Bound struct {
	q      *syntax.Select
	params map[string]value.Value
	now    time.Time // what the query takes for now
	shape  Shape
	prog   *program
}

// Shape says what of a query concerns several documents at once. Whoever reads
// the documents has to see to Top, Offset, Limit and OrderBy; [Rows] and [Groups]
// see to the rest.
type Shape struct {
	// Top is the count of TOP, nil without the clause. Zero is a count.
	Top *int64
	// Offset and Limit are the counts of OFFSET LIMIT, both nil without the clause.
	Offset, Limit *int64
	// OrderBy has an entry for each sort key.
	OrderBy []SortKey
	// Distinct and GroupBy are set by the clauses.
	Distinct, GroupBy bool
	// Aggregates are the aggregate functions of the select list, as a plan names
	// them: "Count". Without GROUP BY they make one row, also of no documents.
	Aggregates []string
	// Grouped: several documents make a row together (GROUP BY, aggregates, DISTINCT),
	// and [Rows.Groups] has the rows.
	Grouped bool
	// SelectValue: the rows are bare values (SELECT VALUE).
	SelectValue bool
	// SelectAll: the rows are the documents' own bytes (SELECT *).
	SelectAll bool
	// NoSource: FROM doesn't name the container, or isn't there, and no document is read. The rows are those of one document, {}, and there is nothing else.
	NoSource bool
	// Several: a document may make several rows, or none (JOIN, FROM x IN, FROM c.path): use [Rows.Each].
	Several bool
}

// SortKey is one key of ORDER BY.
type SortKey struct {
	// Path is the expression as the service writes it: c.x, c["a b"].
	Path string
	// Descending is set by DESC.
	Descending bool
}

// Merged says that the rows of several ranges can't be put behind each other, but
// have to be merged, as [Bound.Plan] says. TOP can be: the client or the server
// trims.
func (s Shape) Merged() bool {
	return !s.NoSource && (s.Grouped || len(s.OrderBy) > 0 || s.Limit != nil)
}

// Shape returns what of the query concerns several documents at once.
func (b *Bound) Shape() Shape { return b.shape }
