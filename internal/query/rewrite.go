package query

import (
	"slices"
	"strconv"
	"strings"
)

// orderFilter is what a client that merges sorted rows puts its resume filter in
// the place of, or true.
const orderFilter = "({documentdb-formattableorderbyquery-filter})"

// rewrite says what a client does that merges the rows of several ranges, and
// which query it sends to each of them. The text is empty where it is the
// query's own.
func (b *Bound) rewrite(info *Info) error {
	q, s := *b.q, b.shape
	if c := b.prog.count; c != nil {
		info.DistinctType, info.DCountInfo, info.RewrittenQuery = "Unordered", &DCount{Alias: c.name}, b.q.String()
		return nil
	}
	info.Offset, info.Limit = s.Offset, s.Limit
	grouped := isGrouped(b.q)
	if s.Grouped {
		// Each range has to give all of its rows: which of them count is known when
		// they are merged.
		q.top, q.offset, q.limit = nil, nil, nil
	} else if s.Limit != nil {
		q.offset, q.limit = countOf(0), countOf(*s.Offset+*s.Limit)
	}
	if q.top != nil {
		q.top = countOf(*s.Top)
	}
	if s.Distinct {
		info.DistinctType = "Unordered"
	}
	var err error
	switch {
	case grouped:
		err = rewriteGroups(&q, info)
	case len(q.orderBy) > 0:
		rewriteOrder(&q, s, documentAlias(b.q), info)
	case s.Limit == nil && (s.Top == nil || !s.Distinct):
		return nil
	}
	if err != nil {
		return err
	}
	info.RewrittenQuery = q.String()
	// The text is deeper and longer than the query's own, and has to come back.
	_, err = parse(strings.ReplaceAll(info.RewrittenQuery, orderFilter, "true"))
	return err
}

func countOf(n int64) *count { return &count{n: n, tok: token{text: strconv.FormatInt(n, 10)}} }

// rewriteOrder makes rows of a document's rid, its sort keys, and what is asked for.
func rewriteOrder(q *selectQuery, s Shape, alias string, info *Info) {
	for _, o := range s.OrderBy {
		direction := "Ascending"
		if o.Descending {
			direction = "Descending"
		}
		info.OrderBy, info.OrderByExpressions = append(info.OrderBy, direction), append(info.OrderByExpressions, o.Path)
	}
	if q.distinct && orderedDistinct(q) {
		info.DistinctType = "Ordered"
	}
	q.distinct = false
	keys := &array{}
	for _, o := range q.orderBy {
		keys.elements = append(keys.elements, item(o.e))
	}
	filter := expr(&ident{name: orderFilter})
	if q.where != nil {
		filter = &logical{op: "AND", terms: []expr{q.where, filter}}
	}
	document := &ident{name: alias}
	payload := expr(document)
	switch {
	case q.value != nil:
		payload = q.value
		// A row without a payload has no place in a merge.
		filter = &logical{op: "AND", terms: []expr{filter, &call{name: "IS_DEFINED", args: []expr{q.value}}}}
	case !q.star:
		payload = namedItems(q.items, nil)
	}
	if q.where == nil && q.value == nil {
		filter = &ident{name: orderFilter}
	}
	q.star, q.value, q.where = false, nil, filter
	q.items = []selected{
		{e: &member{base: document, name: "_rid", dot: true}},
		{e: keys, name: "orderByItems"},
		{e: payload, name: "payload"},
	}
}

// orderedDistinct says whether equal rows come behind each other in the order: when
// what is selected are the sort keys, all of them.
func orderedDistinct(q *selectQuery) bool {
	list := selectList(q)
	return len(list) == len(q.orderBy) && !slices.ContainsFunc(q.orderBy, func(o orderItem) bool {
		return !slices.ContainsFunc(list, func(e expr) bool { return spelling(e) == spelling(o.e) })
	})
}

// item is the object that values are wrapped in, so that an undefined one has a place.
func item(e expr) *object { return objectWith(selected{name: "item", e: e}) }

func objectWith(members ...selected) *object { return &object{members: members} }

// namedItems is a select list as an object; change may replace values.
func namedItems(items []selected, change func(name string, e expr) expr) *object {
	o := &object{}
	for i, name := range outputNames(items) {
		e := items[i].e
		if change != nil {
			e = change(name, e)
		}
		o.members = append(o.members, selected{name: name, e: e})
	}
	return o
}

// rewriteGroups makes rows of partial aggregates, which the client puts together
// by the values of GROUP BY. It can't put together what is computed from aggregates.
func rewriteGroups(q *selectQuery, info *Info) error {
	for _, e := range selectList(q) {
		if c, _ := aggregateCall(e); c == nil && hasAggregate(e) {
			return &PlanError{Message: `{"Errors":["Compositions of aggregates and other expressions are not allowed."]}`}
		}
	}
	keys := &array{}
	for _, e := range q.groupBy {
		keys.elements = append(keys.elements, item(e))
		info.GroupByExpressions = append(info.GroupByExpressions, printExpr(e))
	}
	var payload expr
	if q.value != nil {
		payload = q.value
		if c, kind := aggregateCall(q.value); c != nil {
			info.Aggregates = []string{kind.String()}
			payload = &array{elements: []expr{partial(c, kind)}}
		}
		if len(q.groupBy) == 0 {
			q.value = payload
			return nil
		}
	} else {
		payload = namedItems(q.items, func(name string, e expr) expr {
			info.GroupByAliases = append(info.GroupByAliases, name)
			info.GroupByAliasToAggregateType[name] = nil
			c, kind := aggregateCall(e)
			if c == nil {
				return e
			}
			of := kind.String()
			info.GroupByAliasToAggregateType[name] = &of
			return partial(c, kind)
		})
	}
	q.value, q.items = nil, nil
	if len(q.groupBy) > 0 {
		q.items = append(q.items, selected{e: keys, name: "groupByItems"})
	}
	q.items = append(q.items, selected{e: payload, name: "payload"})
	return nil
}

// partial is an aggregate over one range, with what is needed to put those of
// several together.
func partial(c *call, kind aggregateKind) expr {
	of := func(member, name string) selected { return selected{name: member, e: &call{name: name, args: c.args}} }
	count := of("count", "COUNT")
	switch kind {
	case aggregateAvg:
		return item(objectWith(of("sum", "SUM"), count))
	case aggregateMin:
		return objectWith(of("item", "MIN"), selected{name: "item2", e: objectWith(of("min", "MIN"), count)})
	case aggregateMax:
		return objectWith(of("item", "MAX"), selected{name: "item2", e: objectWith(of("max", "MAX"), count)})
	default:
	}
	return objectWith(of("item", strings.ToUpper(c.name)))
}
