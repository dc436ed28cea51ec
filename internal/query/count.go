package query

import (
	"crypto/sha256"
	"slices"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// countDistinct describes a query that only counts distinct rows: SELECT COUNT(1) FROM
// (SELECT DISTINCT ...). The inner query runs instead. A client that reads several ranges
// gets the rows of the inner query and counts them itself.
type countDistinct struct {
	// name is the member with the count. It is empty for SELECT VALUE.
	name string
	// outer is the original query.
	outer *syntax.Select
}

// distinctCounted returns the inner query if q only counts distinct rows. Otherwise it
// returns nil.
func distinctCounted(q *syntax.Select) (inner *syntax.Select, count *countDistinct) {
	list := syntax.SelectList(q)
	if q.From == nil || q.From.Subquery == nil || q.From.In || len(q.From.Joins) > 0 || len(list) != 1 ||
		q.Distinct || q.Top != nil || q.Limit != nil || q.Where != nil || len(q.GroupBy) > 0 || len(q.OrderBy) > 0 {
		return nil, nil
	}
	inner = q.From.Subquery
	if !inner.Distinct || inner.From == nil || isGrouped(inner) || inner.Top != nil || inner.Limit != nil || len(inner.OrderBy) > 0 {
		return nil, nil
	}
	c, kind := aggregateCall(list[0])
	if kind != value.Count || len(c.Args) != 1 {
		return nil, nil
	}
	switch arg := c.Args[0].(type) {
	case *syntax.Literal:
		if arg.Value.Kind == value.Undefined {
			return nil, nil
		}
	case *syntax.Ident:
		if arg.Name != q.From.Alias {
			return nil, nil
		}
	default:
		return nil, nil
	}
	count = &countDistinct{outer: q}
	if q.Value == nil {
		count.name = syntax.OutputNames(q.Items)[0]
	}
	return inner, count
}

// differentRow is the hash of a row. A query that counts distinct rows keeps only these
// hashes.
type differentRow [16]byte

// differentRowSize is the approximate size of one hash in the set of all hashes, in
// bytes.
const differentRowSize = 40

// count adds the hash of a row to the set of distinct rows. key is the key of the row.
func (s *Groups) count(key []byte) {
	sum := sha256.Sum256(key)
	row := differentRow(sum[:])
	if _, have := s.seen[row]; !have {
		s.seen[row] = struct{}{}
		s.size += differentRowSize
	}
}

// counted returns the single row of a query that counts distinct rows.
func (s *Groups) counted(c *countDistinct) []SortedRow {
	n := value.OfInt(int64(len(s.seen))).AppendJSON(nil)
	if c.name == "" {
		return []SortedRow{{Row: n}}
	}
	row := append(value.AppendString([]byte{'{'}, []byte(c.name)), ':')
	return []SortedRow{{Row: append(append(row, n...), '}')}}
}

// Uniform returns the query without its condition, if its result depends only on the
// number of matching documents, as SELECT VALUE COUNT(1) does. A caller that has this
// number may evaluate the query over as many empty objects, {}. For any other query, ok
// is false.
//
// Only queries with aggregates qualify, because only their rows do not belong to single
// documents.
func (b *Bound) Uniform() (without *Bound, ok bool) {
	q := b.q
	if len(b.shape.Aggregates) == 0 || q.From == nil || len(sourcesOf(q)) > 0 || len(q.From.Joins) > 0 || len(q.GroupBy) > 0 || len(q.OrderBy) > 0 || q.Distinct {
		return nil, false
	}
	plain := *q
	plain.Where = nil
	if slices.ContainsFunc(syntax.SelectList(q), func(e syntax.Expr) bool { return !uniform(e) }) {
		return nil, false
	}
	without = &Bound{q: &plain, params: b.params, now: b.now, shape: b.shape}
	without.prog = compile(&plain, b.params, b.now)
	return without, true
}

// uniform reports whether the value of an expression is the same for all documents.
// COUNT of the document itself qualifies, because a document is never undefined.
func uniform(e syntax.Expr) bool {
	if c, kind := aggregateCall(e); kind == value.Count && len(c.Args) == 1 {
		if _, ok := c.Args[0].(*syntax.Ident); ok {
			return true
		}
	}
	switch e.(type) {
	case *syntax.Ident, *syntax.Subquery:
		return false
	}
	return syntax.EachChild(e, uniform)
}
