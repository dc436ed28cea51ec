package query

import (
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// withoutResumption returns the condition of q without the filter by which a client has
// replaced orderFilter, or nil if there is nothing else. Only the queries of plans have
// orderFilter, so the condition of any other query is returned as it is.
//
// The filter is the last term, before the IS_DEFINED of SELECT VALUE. If the user's query
// has no condition, the terms of a filter with AND are terms of the whole condition.
func withoutResumption(q *syntax.Select) syntax.Expr {
	keys := rewrittenKeys(q)
	if q.Where == nil || keys == nil {
		return q.Where
	}
	terms, last := []syntax.Expr{q.Where}, []syntax.Expr(nil)
	all, ok := q.Where.(*syntax.Logical)
	if ok && all.Op == "AND" {
		terms = all.Terms
	}
	payload := &syntax.Call{Name: "IS_DEFINED", Args: []syntax.Expr{q.Items[2].Expr}}
	if n := len(terms) - 1; n > 0 && syntax.Spelling(terms[n]) == syntax.Spelling(payload) {
		terms, last = terms[:n], terms[n:]
	}
	switch n := len(terms) - 1; {
	case inOrderOfKeys(terms, keys):
		terms = nil
	case resumes(terms[n], keys):
		terms = terms[:n]
	default:
		return q.Where
	}
	switch kept := slices.Concat(terms, last); len(kept) {
	case 0:
		return nil
	case 1:
		return kept[0]
	default:
		return &syntax.Logical{Op: "AND", Terms: kept}
	}
}

// sortKey is a key of ORDER BY, spelled so that equal expressions are equal texts.
type sortKey struct {
	text       string
	descending bool
}

// rewrittenKeys returns the keys of ORDER BY of a query that [Bound.rewrite] has made, and
// nil for any other query.
func rewrittenKeys(q *syntax.Select) []sortKey {
	if len(q.OrderBy) == 0 || len(q.Items) != 3 || q.Items[1].Name != "orderByItems" || q.Items[2].Name != "payload" {
		return nil
	}
	items, ok := q.Items[1].Expr.(*syntax.Array)
	rid, _ := syntax.NameOf(q.Items[0].Expr)
	if !ok || rid != "_rid" || len(items.Elements) != len(q.OrderBy) {
		return nil
	}
	keys := make([]sortKey, len(q.OrderBy))
	for i, o := range q.OrderBy {
		if syntax.Spelling(items.Elements[i]) != syntax.Spelling(item(o.Expr)) {
			return nil
		}
		keys[i] = sortKey{syntax.Spelling(o.Expr), o.Desc}
	}
	return keys
}

// inOrderOfKeys reports whether each term compares another key, in their order. The SDK for
// JavaScript writes such a filter for several keys.
func inOrderOfKeys(terms []syntax.Expr, keys []sortKey) bool {
	for _, e := range terms {
		b, ok := e.(*syntax.Binary)
		if !ok {
			return false
		}
		i := slices.IndexFunc(keys, func(k sortKey) bool { return comparesWith(b, k) })
		if i < 0 {
			return false
		}
		keys = keys[i+1:]
	}
	return true
}

// resumes reports whether a condition may be one by which a client resumes: true, or made of
// tests of a key's type and of comparisons that are true from a value on. In a filter of
// several keys, all but the last of a position's keys are compared by "=".
func resumes(e syntax.Expr, keys []sortKey) bool {
	switch e := e.(type) {
	case *syntax.Literal:
		return e.Value.Kind == value.True || e.Value.Kind == value.False
	case *syntax.Unary:
		return e.Op == "NOT" && resumes(e.X, keys)
	case *syntax.Logical:
		return !slices.ContainsFunc(e.Terms, func(e syntax.Expr) bool { return !resumes(e, keys) })
	case *syntax.Binary:
		return slices.ContainsFunc(keys, func(k sortKey) bool { return comparesWith(e, k) })
	case *syntax.Call:
		return strings.HasPrefix(strings.ToUpper(e.Name), "IS_") && len(e.Args) == 1 &&
			slices.ContainsFunc(keys, func(k sortKey) bool { return k.text == syntax.Spelling(e.Args[0]) })
	}
	return false
}

// comparesWith reports whether e compares the key with a constant, in the key's direction.
func comparesWith(e *syntax.Binary, key sortKey) bool {
	direction := ">"
	if key.descending {
		direction = "<"
	}
	_, constant := e.R.(*syntax.Literal)
	return constant && (e.Op == "=" || strings.TrimSuffix(e.Op, "=") == direction) && syntax.Spelling(e.L) == key.text
}
