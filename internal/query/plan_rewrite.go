package query

import (
	"slices"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// orderFilter is the placeholder for the resume filter of a client that merges sorted
// rows. A client with no resume filter replaces it with true.
const orderFilter = "({documentdb-formattableorderbyquery-filter})"

// rewrite sets the fields of info by which a client merges the rows of several ranges,
// and the query that it sends to each range. The rewritten query is empty if the client
// sends the original text.
func (b *Bound) rewrite(info *Info) error {
	q, s := *b.q, b.shape
	if c := b.prog.count; c != nil {
		info.DistinctType, info.DCountInfo, info.RewrittenQuery = "Unordered", &DCount{Alias: c.name}, b.q.String()
		return nil
	}
	info.Offset, info.Limit = s.Offset, s.Limit
	grouped := isGrouped(b.q)
	if s.Grouped {
		// Each range must return all of its rows, because TOP, OFFSET and LIMIT apply to
		// the merged rows.
		q.Top, q.Offset, q.Limit = nil, nil, nil
	} else if s.Limit != nil {
		q.Offset, q.Limit = countOf(0), countOf(*s.Offset+*s.Limit)
	}
	if q.Top != nil {
		q.Top = countOf(*s.Top)
	}
	if s.Distinct {
		info.DistinctType = "Unordered"
	}
	var err error
	switch {
	case grouped:
		err = rewriteGroups(&q, info)
	case len(q.OrderBy) > 0:
		rewriteOrder(&q, s, documentAlias(b.q), info)
	case s.Limit == nil && (s.Top == nil || !s.Distinct):
		return nil
	}
	if err != nil {
		return err
	}
	info.RewrittenQuery = q.String()
	// The rewritten text is deeper and longer than the original. Check that the parser
	// accepts it.
	_, err = syntax.Parse(strings.ReplaceAll(info.RewrittenQuery, orderFilter, "true"))
	return err
}

func countOf(n int64) *syntax.Count {
	return &syntax.Count{N: n, Tok: syntax.Token{Text: strconv.FormatInt(n, 10)}}
}

// rewriteOrder changes each row to an object of the document's rid, its sort keys and the
// selected value.
func rewriteOrder(q *syntax.Select, s Shape, alias string, info *Info) {
	for _, o := range s.OrderBy {
		direction := "Ascending"
		if o.Descending {
			direction = "Descending"
		}
		info.OrderBy, info.OrderByExpressions = append(info.OrderBy, direction), append(info.OrderByExpressions, o.Path)
	}
	if q.Distinct && orderedDistinct(q) {
		info.DistinctType = "Ordered"
	}
	q.Distinct = false
	keys := &syntax.Array{}
	for _, o := range q.OrderBy {
		keys.Elements = append(keys.Elements, item(o.Expr))
	}
	filter := syntax.Expr(&syntax.Ident{Name: orderFilter})
	if q.Where != nil {
		filter = &syntax.Logical{Op: "AND", Terms: []syntax.Expr{q.Where, filter}}
	}
	document := &syntax.Ident{Name: alias}
	payload := syntax.Expr(document)
	switch {
	case q.Value != nil:
		payload = q.Value
		// A row without a payload cannot be merged.
		filter = &syntax.Logical{Op: "AND", Terms: []syntax.Expr{filter, &syntax.Call{Name: "IS_DEFINED", Args: []syntax.Expr{q.Value}}}}
	case !q.Star:
		payload = objectOf(q)
	}
	if q.Where == nil && q.Value == nil {
		filter = &syntax.Ident{Name: orderFilter}
	}
	q.Star, q.Value, q.Where = false, nil, filter
	q.Items = []syntax.Item{
		{Expr: &syntax.Member{Base: document, Name: "_rid", Dot: true}},
		{Expr: keys, Name: "orderByItems"},
		{Expr: payload, Name: "payload"},
	}
}

// orderedDistinct reports whether equal rows are adjacent in the order. They are if the
// select list consists of all sort keys and nothing else.
func orderedDistinct(q *syntax.Select) bool {
	list := syntax.SelectList(q)
	return len(list) == len(q.OrderBy) && !slices.ContainsFunc(q.OrderBy, func(o syntax.Order) bool {
		return !slices.ContainsFunc(list, func(e syntax.Expr) bool { return syntax.Spelling(e) == syntax.Spelling(o.Expr) })
	})
}

// item wraps a value in an object, so that an undefined value keeps its position.
func item(e syntax.Expr) *syntax.Object { return objectWith(syntax.Item{Name: "item", Expr: e}) }

func objectWith(members ...syntax.Item) *syntax.Object { return &syntax.Object{Members: members} }

// rewriteGroups changes each row to partial aggregates, which the client combines by the
// values of GROUP BY. A client cannot combine expressions that are computed from
// aggregates.
func rewriteGroups(q *syntax.Select, info *Info) error {
	for _, e := range syntax.SelectList(q) {
		if c, _ := aggregateCall(e); c == nil && hasAggregate(e) {
			return &PlanError{Message: `{"Errors":["Compositions of aggregates and other expressions are not allowed."]}`}
		}
	}
	keys := &syntax.Array{}
	for _, e := range q.GroupBy {
		keys.Elements = append(keys.Elements, item(e))
		info.GroupByExpressions = append(info.GroupByExpressions, syntax.Format(e))
	}
	var payload syntax.Expr
	if q.Value != nil {
		payload = q.Value
		if c, kind := aggregateCall(q.Value); c != nil {
			info.Aggregates = []string{kind.String()}
			payload = &syntax.Array{Elements: []syntax.Expr{partial(c, kind)}}
		}
		if len(q.GroupBy) == 0 {
			q.Value = payload
			return nil
		}
	} else {
		o := objectOf(q)
		for i, m := range o.Members {
			info.GroupByAliases = append(info.GroupByAliases, m.Name)
			info.GroupByAliasToAggregateType[m.Name] = nil
			if c, kind := aggregateCall(m.Expr); c != nil {
				of := kind.String()
				info.GroupByAliasToAggregateType[m.Name] = &of
				o.Members[i].Expr = partial(c, kind)
			}
		}
		payload = o
	}
	q.Value, q.Items = nil, nil
	if len(q.GroupBy) > 0 {
		q.Items = append(q.Items, syntax.Item{Expr: keys, Name: "groupByItems"})
	}
	q.Items = append(q.Items, syntax.Item{Expr: payload, Name: "payload"})
	return nil
}

// partial returns an aggregate over one range, with the values that a client needs to
// combine it with those of other ranges.
func partial(c *syntax.Call, kind value.Aggregate) syntax.Expr {
	of := func(member, name string) syntax.Item {
		return syntax.Item{Name: member, Expr: &syntax.Call{Name: name, Args: c.Args}}
	}
	count := of("count", "COUNT")
	switch kind {
	case value.Avg:
		return item(objectWith(of("sum", "SUM"), count))
	case value.Min:
		return objectWith(of("item", "MIN"), syntax.Item{Name: "item2", Expr: objectWith(of("min", "MIN"), count)})
	case value.Max:
		return objectWith(of("item", "MAX"), syntax.Item{Name: "item2", Expr: objectWith(of("max", "MAX"), count)})
	default:
	}
	return objectWith(of("item", strings.ToUpper(c.Name)))
}

// documentAlias returns the name of the document in expressions. It is empty if no
// name is certain to refer to the document.
func documentAlias(q *syntax.Select) string {
	from := q.From
	if from == nil || from.In || from.Subquery != nil {
		return ""
	}
	name, ok := from.Collection.(*syntax.Ident)
	if !ok {
		return ""
	}
	alias := from.Alias
	if alias == "" {
		alias = name.Name
	}
	for _, j := range from.Joins {
		if j.Alias == alias {
			return ""
		}
	}
	return alias
}
