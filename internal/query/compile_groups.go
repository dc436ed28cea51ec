package query

import (
	"bytes"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// grouping is a compiled SELECT whose rows several documents produce together. It has
// GROUP BY, or aggregates, which form one group of all documents. A [Groups] holds the
// groups themselves.
//
// The select list is compiled over groups instead of documents. A call of an aggregate
// reads the group's accumulator. An expression that equals an expression of GROUP BY
// reads that expression's value from the group. The checker ensures that nothing else in
// the list reads a document.
type grouping struct {
	keys  []evaluator // GROUP BY, over a document
	names map[string]int
	depth map[int]bool // depths of the keys; only expressions of such a depth can be a key

	kinds []value.Aggregate
	args  []evaluator // of the aggregates, over a document
	calls map[string]int

	row emitter // over the frame's group
}

// group holds the values of one group: its key and the accumulators of its aggregates.
type group struct {
	key    string
	keys   []value.Value
	totals []value.Accumulator
	row    []byte // of DISTINCT; the other fields are unused then
	size   int
}

// isGrouped reports whether the rows of a SELECT are groups.
func isGrouped(q *syntax.Select) bool {
	return len(q.GroupBy) > 0 || hasAggregate(syntax.SelectList(q)...)
}

// hasAggregate reports whether one of the expressions calls an aggregate. Calls in
// subqueries do not count.
func hasAggregate(list ...syntax.Expr) bool { return len(aggregateNames(list)) > 0 }

// aggregateNames returns the names of all aggregates that the expressions call, in the
// spelling of a plan.
func aggregateNames(list []syntax.Expr) (names []string) {
	for e := range syntax.Outer(list...) {
		if c, kind := aggregateCall(e); c != nil {
			names = append(names, kind.String())
		}
	}
	return names
}

// grouping compiles a SELECT of groups.
func (c *compiler) grouping(q *syntax.Select) *grouping {
	g := &grouping{names: map[string]int{}, depth: map[int]bool{}, calls: map[string]int{}}
	outer := c.group
	c.group = nil
	g.keys, _ = c.all(q.GroupBy)
	for i, e := range q.GroupBy {
		g.names[syntax.Spelling(e)] = i
		g.depth[e.Depth()] = true
	}
	c.group = g
	g.row = c.projection(q)
	c.group = outer
	return g
}

// overGroup compiles an expression that is evaluated once for a group: an aggregate or an
// expression of GROUP BY. It returns nil for any other expression, and if the query has
// no groups.
func (c *compiler) overGroup(e syntax.Expr) evaluator {
	g := c.group
	if g == nil {
		return nil
	}
	if call, kind := aggregateCall(e); call != nil {
		name := syntax.Spelling(e)
		i, have := g.calls[name]
		if !have {
			i = len(g.args)
			c.group = nil
			arg, _ := c.expr(call.Args[0])
			c.group = g
			g.calls[name], g.args, g.kinds = i, append(g.args, arg), append(g.kinds, kind)
		}
		return func(f *frame) value.Value { return f.group.totals[i].Result() }
	}
	if i, ok := g.key(e); ok {
		return func(f *frame) value.Value { return f.group.keys[i] }
	}
	return nil
}

// key returns the index of the GROUP BY expression that is equal to e. ok is false if
// there is none.
func (g *grouping) key(e syntax.Expr) (i int, ok bool) {
	if !g.depth[e.Depth()] {
		return 0, false
	}
	i, ok = g.names[syntax.Spelling(e)]
	return i, ok
}

// newGroup returns an empty group.
func (g *grouping) newGroup(key string) *group {
	m := &group{key: key, totals: make([]value.Accumulator, len(g.kinds))}
	for i, kind := range g.kinds {
		m.totals[i].Kind = kind
	}
	m.size = groupOverhead + len(key) + len(m.totals)*accumulatorSize
	return m
}

// add adds the document in the frame f to the aggregates of the group m.
func (g *grouping) add(m *group, f *frame) {
	for i, arg := range g.args {
		a := &m.totals[i]
		held := a.Size()
		a.Add(arg(f))
		m.size += a.Size() - held
	}
}

// keep copies the values of the GROUP BY expressions into the new group m.
func (m *group) keep(keys []value.Value) {
	m.keys = make([]value.Value, len(keys))
	for i, v := range keys {
		v.Bytes = bytes.Clone(v.Bytes)
		m.keys[i] = v
		m.size += valueSize + len(v.Bytes)
	}
}

// These are the approximate sizes in bytes of a group, an accumulator and a value in
// memory, without their data.
const (
	groupOverhead   = 160
	accumulatorSize = 96
	valueSize       = 40
)

// aggregateCall returns the call and its aggregate if e is the call of an aggregate.
// Otherwise it returns nil.
func aggregateCall(e syntax.Expr) (*syntax.Call, value.Aggregate) {
	c, ok := e.(*syntax.Call)
	if !ok || c.Udf {
		return nil, value.NoAggregate
	}
	kind := value.Aggregates[strings.ToUpper(c.Name)]
	if kind == value.NoAggregate || !kind.Evaluated() {
		return nil, value.NoAggregate
	}
	return c, kind
}

// keyOf evaluates the GROUP BY expressions for the document in the frame f and stores
// their values in values. It appends the key of the group to dst.
func (g *grouping) keyOf(f *frame, values []value.Value, dst []byte) []byte {
	for i, key := range g.keys {
		values[i] = key(f)
		dst = value.AppendKey(dst, values[i])
	}
	return dst
}
