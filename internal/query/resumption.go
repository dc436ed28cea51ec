package query

import (
	"slices"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// withoutResumption returns the condition of a sorted query without the terms that only
// concern the values of ORDER BY, or nothing at all. It returns nil if there are no others.
func withoutResumption(where syntax.Expr, order []syntax.Order) syntax.Expr {
	if where == nil {
		return nil
	}
	keys := make([]string, len(order))
	for i := range order {
		keys[i] = syntax.Format(order[i].Expr)
	}
	all, ok := where.(*syntax.Logical)
	if !ok || all.Op != "AND" {
		if resumes(where, keys) {
			return nil
		}
		return where
	}
	kept := slices.DeleteFunc(slices.Clone(all.Terms), func(e syntax.Expr) bool { return resumes(e, keys) })
	switch len(kept) {
	case 0:
		return nil
	case 1:
		return kept[0]
	}
	and := *all
	and.Terms = kept
	return &and
}

// resumes reports whether a condition may be one that a client has added to resume: it is made
// of constants and of the keys of ORDER BY.
func resumes(e syntax.Expr, keys []string) bool {
	within := func(all ...syntax.Expr) bool {
		return !slices.ContainsFunc(all, func(e syntax.Expr) bool { return !resumes(e, keys) })
	}
	switch e := e.(type) {
	case *syntax.Literal, *syntax.Param:
		return true
	case *syntax.Unary:
		return within(e.X)
	case *syntax.Binary:
		return within(e.L, e.R)
	case *syntax.Logical:
		return within(e.Terms...)
	case *syntax.Call:
		return within(e.Args...)
	}
	return slices.Contains(keys, syntax.Format(e))
}
