package query

import (
	"fmt"
	"slices"
	"strings"
)

// aggregate checks the call of an aggregate, whose arguments are checked like any
// other expression.
func (c *checker) aggregate(e *call) error {
	name := strings.ToUpper(e.name)
	switch {
	case !c.selecting:
		return &UnsupportedError{What: "the aggregate function " + name + " anywhere but in a SELECT"}
	case len(e.args) != 1:
		return c.fail(e.tok, CodeArguments, fmt.Sprintf("The %s function requires 1 argument.", name))
	case hasAggregate(e.args...) || hasSubquery(e.args...):
		return c.fail(e.tok, CodeAggregate, "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.")
	}
	return nil
}

// hasSubquery says whether there is a subquery in one of the expressions.
func hasSubquery(list ...expr) bool {
	for _, e := range list {
		if _, ok := e.(*subquery); ok || hasSubquery(children(e)...) {
			return true
		}
	}
	return false
}

// groups checks how DISTINCT, GROUP BY and aggregates go together with the other
// clauses. What the service doesn't have either is refused by name: nothing here
// has to be guessed.
func (c *checker) groups() error {
	q := c.q
	grouped := isGrouped(q)
	switch {
	case q.star && len(q.groupBy) > 0:
		return c.fail(token{end: len(c.text)}, CodeGroupStar, "'SELECT *' is not allowed with GROUP BY.")
	case q.distinct && len(q.groupBy) > 0:
		return &UnsupportedError{What: "DISTINCT together with GROUP BY"}
	case q.distinct && grouped:
		return &UnsupportedError{What: "DISTINCT together with aggregates"}
	case len(q.orderBy) > 0 && len(q.groupBy) > 0:
		return &UnsupportedError{What: "ORDER BY together with GROUP BY"}
	case len(q.orderBy) > 0 && grouped:
		return &UnsupportedError{What: "ORDER BY together with aggregates"}
	case q.distinct && !distinctKeys(q):
		return &UnsupportedError{What: "DISTINCT with ORDER BY of something that isn't selected"}
	case !grouped:
		return nil
	}
	keys := map[string]bool{}
	for _, e := range q.groupBy {
		if err := groupKey(e); err != nil {
			return err
		}
		keys[spelling(e)] = true
	}
	for _, e := range selectList(q) {
		if err := c.overGroups(e, keys); err != nil {
			return err
		}
	}
	return nil
}

// groupKey takes what the service can group by. A key that is made of no property is the same for all items, or
// another one each time it is asked for, of which no page could be continued.
func groupKey(e expr) error {
	switch {
	case hasSubquery(e):
		return &UnsupportedError{What: "a subquery in GROUP BY"}
	case !hasProperty(e):
		return &UnsupportedError{What: "GROUP BY " + printExpr(e) + ", which names no property,"}
	}
	return nil
}

// hasProperty says whether there is a path in one of the expressions.
func hasProperty(list ...expr) bool {
	return slices.ContainsFunc(list, func(e expr) bool { return root(e) != nil || hasProperty(children(e)...) })
}

// overGroups takes what has one value for each group.
func (c *checker) overGroups(e expr, keys map[string]bool) error {
	if call, _ := aggregateCall(e); call != nil || keys[spelling(e)] {
		return nil
	}
	if _, ok := e.(*subquery); ok {
		return &UnsupportedError{What: "a subquery in a SELECT with GROUP BY or aggregates"}
	}
	if of := root(e); of != nil {
		return c.fail(of.tok, CodeNotGrouped, fmt.Sprintf("Property reference '%s' is invalid in the select list because it is not contained in "+
			"either an aggregate function or the GROUP BY clause.", printExpr(e)))
	}
	for _, child := range children(e) {
		if err := c.overGroups(child, keys); err != nil {
			return err
		}
	}
	return nil
}

// distinctKeys says whether each row of DISTINCT has one place in the order: when
// every sort key is a part of the row.
func distinctKeys(q *selectQuery) bool {
	selected := map[string]bool{}
	for _, e := range selectList(q) {
		selected[spelling(e)] = true
	}
	for _, o := range q.orderBy {
		if !q.star && !partOf(o.e, selected) {
			return false
		}
	}
	return true
}

// partOf says whether a path is one of the selected, or leads into one.
func partOf(e expr, selected map[string]bool) bool {
	for {
		if selected[spelling(e)] {
			return true
		}
		m, ok := e.(*member)
		if !ok {
			return false
		}
		e = m.base
	}
}
