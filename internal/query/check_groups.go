package query

import (
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// aggregate checks the call of an aggregate. Its arguments are checked like any other
// expression.
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

// hasSubquery reports whether one of the expressions contains a subquery.
func hasSubquery(list ...syntax.Expr) bool {
	for e := range syntax.Outer(list...) {
		if _, ok := e.(*syntax.Subquery); ok {
			return true
		}
	}
	return false
}

// groups checks the combination of DISTINCT, GROUP BY and aggregates with other clauses.
// It refuses combinations that the service refuses too, so their results need not be
// guessed.
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
	case len(q.OrderBy) > 0 && len(q.GroupBy) > 0:
		return &syntax.UnsupportedError{What: "ORDER BY together with GROUP BY"}
	case len(q.OrderBy) > 0 && grouped:
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

// groupKey refuses expressions that the service cannot group by. A key that names no
// property is the same for all items, or changes with every evaluation. A page of
// changing keys could not be continued.
func groupKey(e syntax.Expr) error {
	switch {
	case hasSubquery(e):
		return &syntax.UnsupportedError{What: "a subquery in GROUP BY"}
	case !hasProperty(e):
		return &syntax.UnsupportedError{What: "GROUP BY " + syntax.Format(e) + ", which names no property,"}
	}
	return nil
}

// hasProperty reports whether an expression contains a path.
func hasProperty(e syntax.Expr) bool {
	for x := range syntax.Outer(e) {
		if syntax.Root(x) != nil {
			return true
		}
	}
	return false
}

// overGroups refuses expressions that do not have a single value for each group.
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
	for _, child := range syntax.Children(e) {
		if err := c.overGroups(child, keys); err != nil {
			return err
		}
	}
	return nil
}

// distinctKeys reports whether each row of DISTINCT has a unique position in the order.
// It has if every sort key is a part of the row.
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

// partOf reports whether a path is selected, or is inside a selected value.
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
