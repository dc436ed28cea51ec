package query

import (
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// Uniform returns the query without its condition, if it makes the same of all
// documents that the condition is true of, as SELECT VALUE COUNT(1) does: whoever
// knows how many there are may show the evaluator as many empty objects, {},
// instead of them. ok is false for any other query. It holds of queries
// that have aggregates alone, since only their rows don't belong to documents.
func (b *Bound) Uniform() (without *Bound, ok bool) {
	q := b.q
	alias := documentAlias(q)
	if len(b.shape.Aggregates) == 0 || alias == "" || len(q.From.Joins) > 0 || len(q.GroupBy) > 0 || len(q.OrderBy) > 0 || q.Distinct {
		return nil, false
	}
	plain := *q
	plain.Where = nil
	for _, it := range q.Items {
		if !uniform(it.Expr, alias) {
			return nil, false
		}
	}
	if q.Value != nil && !uniform(q.Value, alias) {
		return nil, false
	}
	without = &Bound{q: &plain, params: b.params, now: b.now, shape: b.shape}
	without.prog = compile(&plain, b.params, b.now)
	return without, true
}

// uniform says whether an expression is the same for all documents. COUNT of the
// document itself is: it is never undefined.
func uniform(e syntax.Expr, alias string) bool {
	switch e := e.(type) {
	case *syntax.Ident, *syntax.Subquery:
		return false
	case *syntax.Call:
		if !e.Udf && strings.EqualFold(e.Name, "COUNT") && len(e.Args) == 1 {
			if root, ok := e.Args[0].(*syntax.Ident); ok && root.Name == alias {
				return true
			}
		}
	}
	for _, child := range syntax.Children(e) {
		if !uniform(child, alias) {
			return false
		}
	}
	return true
}
