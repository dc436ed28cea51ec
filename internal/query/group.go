package query

import (
	"bytes"
	"strings"
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

	kinds []aggregateKind
	args  []evaluator // of the aggregates, over a document
	calls map[string]int

	row emitter // over the frame's group
}

// group is what a frame's expressions over groups see.
type group struct {
	key    string
	keys   []value
	totals []accumulator
	row    []byte // of DISTINCT, instead of the rest
	size   int
}

// isGrouped says whether a SELECT's rows are those of groups.
func isGrouped(q *selectQuery) bool {
	return len(q.groupBy) > 0 || hasAggregate(selectList(q)...)
}

// hasAggregate says whether an aggregate is called in one of the expressions;
// those of their subqueries are none of theirs.
func hasAggregate(list ...expr) bool {
	for _, e := range list {
		if c, _ := aggregateCall(e); c != nil || hasAggregate(children(e)...) {
			return true
		}
	}
	return false
}

// aggregateNames appends the plan's names of all aggregates that are called.
func aggregateNames(names []string, list []expr) []string {
	for _, e := range list {
		if c, kind := aggregateCall(e); c != nil {
			names = append(names, kind.String())
			continue
		}
		names = aggregateNames(names, children(e))
	}
	return names
}

// grouping compiles a SELECT of groups.
func (c *compiler) grouping(q *selectQuery) *grouping {
	g := &grouping{names: map[string]int{}, depth: map[int]bool{}, calls: map[string]int{}}
	outer := c.group
	c.group = nil
	g.keys, _ = c.all(q.groupBy)
	for i, e := range q.groupBy {
		g.names[spelling(e)] = i
		g.depth[e.depth()] = true
	}
	c.group = g
	g.row = c.projection(q)
	c.group = outer
	return g
}

// overGroup compiles what a SELECT of groups reads of its group; nil: e is
// compiled like any other, or none is being compiled.
func (c *compiler) overGroup(e expr) evaluator {
	g := c.group
	if g == nil {
		return nil
	}
	if call, kind := aggregateCall(e); call != nil {
		name := spelling(e)
		i, have := g.calls[name]
		if !have {
			i = len(g.args)
			c.group = nil
			arg, _ := c.expr(call.args[0])
			c.group = g
			g.calls[name], g.args, g.kinds = i, append(g.args, arg), append(g.kinds, kind)
		}
		return func(f *frame) value { return f.group.totals[i].value() }
	}
	if i, ok := g.key(e); ok {
		return func(f *frame) value { return f.group.keys[i] }
	}
	return nil
}

// key returns which expression of GROUP BY another is.
func (g *grouping) key(e expr) (i int, ok bool) {
	if !g.depth[e.depth()] {
		return 0, false
	}
	i, ok = g.names[spelling(e)]
	return i, ok
}

// newGroup returns a group that has seen no document yet.
func (g *grouping) newGroup(key string) *group {
	m := &group{key: key, totals: make([]accumulator, len(g.kinds))}
	for i, kind := range g.kinds {
		m.totals[i].kind = kind
	}
	m.size = groupOverhead + len(key) + len(m.totals)*accumulatorSize
	return m
}

// add shows a group the document of a frame.
func (g *grouping) add(m *group, f *frame) {
	for i, arg := range g.args {
		a := &m.totals[i]
		held := a.size()
		a.add(arg(f))
		m.size += a.size() - held
	}
}

// keep gives a new group its values of GROUP BY, which are copied.
func (m *group) keep(keys []value) {
	m.keys = make([]value, len(keys))
	for i, v := range keys {
		v.b = bytes.Clone(v.b)
		m.keys[i] = v
		m.size += valueSize + len(v.b)
	}
}

// What a group takes in memory beside its bytes, roughly.
const (
	groupOverhead   = 160
	accumulatorSize = 72
	valueSize       = 40
)

// aggregateCall says which aggregate an expression is a call of.
func aggregateCall(e expr) (*call, aggregateKind) {
	c, ok := e.(*call)
	if !ok || c.udf {
		return nil, aggregateNone
	}
	kind := aggregateKinds[strings.ToUpper(c.name)]
	if kind == aggregateNone || !kind.evaluated() {
		return nil, aggregateNone
	}
	return c, kind
}
