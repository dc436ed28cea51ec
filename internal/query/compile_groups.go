package query

import (
	"bytes"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// grouping is a SELECT whose rows several documents make together: with GROUP BY,
// or with aggregates, which make one group of everything. It is compiled once;
// the groups themselves are in a [Groups].
//
// The select list is compiled over the groups instead of the documents: in it a
// call of an aggregate reads the group's accumulator, and what is written like
// an expression of GROUP BY reads the group's value of that. Nothing else of it
// sees a document, which check has made sure of.
type grouping struct {
	keys  []evaluator // GROUP BY, over a document
	names map[string]int
	depth map[int]bool // of the keys: only expressions of their depth can be one of them

	kinds []value.Aggregate
	args  []evaluator // of the aggregates, over a document
	calls map[string]int

	row emitter // over the frame's group
}

// group is what a frame's expressions over groups see.
type group struct {
	key    string
	keys   []value.Value
	totals []value.Accumulator
	row    []byte // of DISTINCT, instead of the rest
	size   int
}

// isGrouped says whether a SELECT's rows are those of groups.
func isGrouped(q *syntax.Select) bool {
	return len(q.GroupBy) > 0 || hasAggregate(syntax.SelectList(q)...)
}

// hasAggregate reports whether an aggregate is called in one of the expressions, not counting
// those of their subqueries.
func hasAggregate(list ...syntax.Expr) bool { return len(aggregateNames(list)) > 0 }

// aggregateNames returns the plan's names of all aggregates that are called.
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

// overGroup compiles what a SELECT of groups reads of its group; nil: e is
// compiled like any other, or none is being compiled.
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

// key returns which expression of GROUP BY another is.
func (g *grouping) key(e syntax.Expr) (i int, ok bool) {
	if !g.depth[e.Depth()] {
		return 0, false
	}
	i, ok = g.names[syntax.Spelling(e)]
	return i, ok
}

// newGroup returns a group that has seen no document yet.
func (g *grouping) newGroup(key string) *group {
	m := &group{key: key, totals: make([]value.Accumulator, len(g.kinds))}
	for i, kind := range g.kinds {
		m.totals[i].Kind = kind
	}
	m.size = groupOverhead + len(key) + len(m.totals)*accumulatorSize
	return m
}

// add shows a group the document of a frame.
func (g *grouping) add(m *group, f *frame) {
	for i, arg := range g.args {
		a := &m.totals[i]
		held := a.Size()
		a.Add(arg(f))
		m.size += a.Size() - held
	}
}

// keep gives a new group its values of GROUP BY, which are copied.
func (m *group) keep(keys []value.Value) {
	m.keys = make([]value.Value, len(keys))
	for i, v := range keys {
		v.Bytes = bytes.Clone(v.Bytes)
		m.keys[i] = v
		m.size += valueSize + len(v.Bytes)
	}
}

// What a group takes in memory beside its bytes, roughly.
const (
	groupOverhead   = 160
	accumulatorSize = 72
	valueSize       = 40
)

// aggregateCall says which aggregate an expression is a call of.
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

// keyOf fills in the values of GROUP BY for the document of a frame, and appends their key.
func (g *grouping) keyOf(f *frame, values []value.Value, dst []byte) []byte {
	for i, key := range g.keys {
		values[i] = key(f)
		dst = value.AppendKey(dst, values[i])
	}
	return dst
}
