package query

import (
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// aggregate returns an error if the call of an aggregate is in a place where aggregates
// are not allowed, or if it is not supported.
func (c *checker) aggregate(e *syntax.Call) error {
	name := strings.ToUpper(e.Name)
	switch {
	case !c.selecting:
		return &syntax.UnsupportedError{What: "the aggregate function " + name + " anywhere but in a SELECT"}
	case len(e.Args) != 1:
		return c.fail(e.Tok, syntax.CodeArguments, fmt.Sprintf("The %s function requires 1 argument.", name))
	case hasAggregate(e.Args...) || hasSubquery(e.Args...):
		return c.fail(e.Tok, syntax.CodeAggregate, "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.")
	}
	return nil
}

// hasSubquery reports whether any of the expressions contains a subquery.
func hasSubquery(list ...syntax.Expr) bool {
	for e := range syntax.Outer(list...) {
		if _, ok := e.(*syntax.Subquery); ok {
			return true
		}
	}
	return false
}

// groups returns an error if DISTINCT, GROUP BY or aggregates are combined with other
// clauses in a way that the service refuses.
func (c *checker) groups() error {
	q := c.q
	grouped := isGrouped(q)
	switch {
	case q.Star && len(q.GroupBy) > 0:
		return c.fail(syntax.Token{End: len(c.text)}, syntax.CodeGroupStar, "'SELECT *' is not allowed with GROUP BY.")
	case q.Distinct && len(q.GroupBy) > 0:
		return &syntax.UnsupportedError{What: "DISTINCT together with GROUP BY"}
	case q.Distinct && grouped:
		return &syntax.UnsupportedError{What: "DISTINCT together with aggregates"}
	case len(q.OrderBy) > 0 && grouped && len(q.GroupBy) == 0:
		return &syntax.UnsupportedError{What: "ORDER BY together with aggregates"}
	case q.Distinct && !distinctKeys(q):
		return &syntax.UnsupportedError{What: "DISTINCT with ORDER BY of something that isn't selected"}
	case !grouped:
		return nil
	}
	keys := map[string]bool{}
	for _, e := range q.GroupBy {
		if err := groupKey(e); err != nil {
			return err
		}
		keys[syntax.Spelling(e)] = true
	}
	for _, e := range syntax.SelectList(q) {
		if err := c.overGroups(e, keys); err != nil {
			return err
		}
	}
	return nil
}

// groupKey returns an error if e cannot be an expression of GROUP BY. It must contain a
// path into the document. Otherwise its value would be the same for all documents, or
// would change with every evaluation, so that no page could be continued.
func groupKey(e syntax.Expr) error {
	switch {
	case hasSubquery(e):
		return &syntax.UnsupportedError{What: "a subquery in GROUP BY"}
	case !hasProperty(e):
		return &syntax.UnsupportedError{What: "GROUP BY " + syntax.Format(e) + ", which names no property,"}
	}
	return nil
}

// hasProperty reports whether an expression contains a path into the document, such as
// c.a.
func hasProperty(e syntax.Expr) bool {
	for x := range syntax.Outer(e) {
		if syntax.Root(x) != nil {
			return true
		}
	}
	return false
}

// overGroups returns an error if an expression can have several values within one group.
// Its parts must be aggregates, constants or expressions of GROUP BY, which are in keys.
func (c *checker) overGroups(e syntax.Expr, keys map[string]bool) error {
	if call, _ := aggregateCall(e); call != nil || keys[syntax.Spelling(e)] {
		return nil
	}
	if _, ok := e.(*syntax.Subquery); ok {
		return &syntax.UnsupportedError{What: "a subquery in a SELECT with GROUP BY or aggregates"}
	}
	if of := syntax.Root(e); of != nil {
		return c.fail(of.Tok, syntax.CodeNotGrouped, fmt.Sprintf("Property reference '%s' is invalid in the select list because it is not contained in "+
			"either an aggregate function or the GROUP BY clause.", syntax.Format(e)))
	}
	var err error
	syntax.EachChild(e, func(child syntax.Expr) bool {
		err = c.overGroups(child, keys)
		return err == nil
	})
	return err
}

// distinctKeys reports whether every sort key of a SELECT DISTINCT is a part of its row.
// Otherwise equal rows could have different positions in the order.
func distinctKeys(q *syntax.Select) bool {
	selected := map[string]bool{}
	for _, e := range syntax.SelectList(q) {
		selected[syntax.Spelling(e)] = true
	}
	for _, o := range q.OrderBy {
		if !q.Star && !partOf(o.Expr, selected) {
			return false
		}
	}
	return true
}

// partOf reports whether the path e, or a path that contains it, is among the selected
// ones.
func partOf(e syntax.Expr, selected map[string]bool) bool {
	for {
		if selected[syntax.Spelling(e)] {
			return true
		}
		m, ok := e.(*syntax.Member)
		if !ok {
			return false
		}
		e = m.Base
	}
}
