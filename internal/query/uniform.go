package query

import "strings"

// Uniform returns the query without its condition, if it makes the same of all
// documents that the condition is true of, as SELECT VALUE COUNT(1) does: whoever
// knows how many there are may show the evaluator as many empty objects, {},
// instead of them. ok is false for any other query. It holds of queries
// that have aggregates alone, since only their rows don't belong to documents.
func (b *Bound) Uniform() (without *Bound, ok bool) {
	q := b.q
	alias := documentAlias(q)
	if len(b.shape.Aggregates) == 0 || alias == "" || len(q.from.joins) > 0 || len(q.groupBy) > 0 || len(q.orderBy) > 0 || q.distinct {
		return nil, false
	}
	plain := *q
	plain.where = nil
	for _, it := range q.items {
		if !uniform(it.e, alias) {
			return nil, false
		}
	}
	if q.value != nil && !uniform(q.value, alias) {
		return nil, false
	}
	without = &Bound{q: &plain, params: b.params, now: b.now, shape: b.shape}
	without.prog = compile(&plain, b.params, b.now)
	return without, true
}

// uniform says whether an expression is the same for all documents. COUNT of the
// document itself is: it is never undefined.
func uniform(e expr, alias string) bool {
	switch e := e.(type) {
	case *ident, *subquery:
		return false
	case *call:
		if !e.udf && strings.EqualFold(e.name, "COUNT") && len(e.args) == 1 {
			if root, ok := e.args[0].(*ident); ok && root.name == alias {
				return true
			}
		}
	}
	for _, child := range children(e) {
		if !uniform(child, alias) {
			return false
		}
	}
	return true
}
