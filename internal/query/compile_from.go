package query

import (
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// A document produces one row for every combination of the values of its sources. Nested
// loops enumerate the combinations and never hold them. So a join takes the memory of one
// row, regardless of the size of its product.
//
// A term of WHERE is evaluated as soon as all of its names have values. A term that names
// only the document is evaluated once, before any loop.

// inner holds the paths that a query reads from one source of FROM other than the
// document, and the slots for their values.
type inner struct {
	root  *node
	slots int
}

// loop is one source of FROM that has several values for a document.
type loop struct {
	at int // index into the frame's inner bindings
	in *inner
	// each calls visit for every value of the source until visit returns false. It
	// returns false if visit did.
	each func(f *frame, visit func(raw []byte) bool) bool
}

// from holds the compiled FROM and WHERE of a query: nested loops and conditions.
type from struct {
	loops []loop
	// filters holds the terms of WHERE. filters[n] are the terms that can be evaluated
	// inside the first n loops.
	filters [][]evaluator
}

// rows calls visit for every combination of source values that satisfies WHERE, until
// visit returns false. It returns false if visit did.
func (p *from) rows(f *frame, visit func() bool) bool { return p.step(f, 0, visit) }

func (p *from) step(f *frame, i int, visit func() bool) bool {
	if !f.Spend(0) {
		return false
	}
	for _, filter := range p.filters[i] {
		if filter(f).Kind != value.True {
			return f.err == nil
		}
	}
	if i == len(p.loops) {
		return visit() && f.err == nil
	}
	l := &p.loops[i]
	return l.each(f, func(raw []byte) bool {
		if len(raw) > longValue && !f.Spend(len(raw)) {
			return false
		}
		f.inner[l.at].extractAny(l.in.root, raw)
		return p.step(f, i+1, visit)
	})
}

// sourcesOf returns the sources of a FROM that need a loop.
func sourcesOf(q *syntax.Select) []*syntax.Source {
	if q.From == nil {
		return nil
	}
	return slices.DeleteFunc(append([]*syntax.Source{q.From}, q.From.Joins...), func(s *syntax.Source) bool { return !needsLoop(s) })
}

// needsLoop reports whether a source has several values, and is not just another name of
// a known source.
func needsLoop(s *syntax.Source) bool {
	_, name := s.Collection.(*syntax.Ident)
	return s.In || !name
}

// from compiles FROM with where as its condition.
func (c *compiler) from(q *syntax.Select, where syntax.Expr) *from {
	p := &from{}
	// depth is the number of nested loops inside which a binding has a value. It is 0 for
	// a binding that needs no loop.
	depth := map[int]int{}
	for _, s := range sourcesOf(q) {
		l := loop{at: s.Binding - 1, in: c.innerOf(s.Binding)}
		l.each = c.each(s)
		p.loops = append(p.loops, l)
		depth[s.Binding] = len(p.loops)
	}
	p.filters = make([][]evaluator, len(p.loops)+1)
	for _, term := range conjuncts(where, nil) {
		needs := 0
		for e := range syntax.All(term) {
			switch e := e.(type) {
			case *syntax.Ident:
				needs = max(needs, depth[e.Binding])
			case *syntax.Call:
				if value.Functions[strings.ToUpper(e.Name)].Volatile {
					needs = len(p.loops) // RAND() differs from row to row
				}
			}
		}
		ev, _ := c.expr(term)
		p.filters[needs] = append(p.filters[needs], ev)
	}
	return p
}

// conjuncts appends the terms of an AND, or where itself if it is not an AND.
func conjuncts(where syntax.Expr, terms []syntax.Expr) []syntax.Expr {
	l, ok := where.(*syntax.Logical)
	switch {
	case where == nil:
		return terms
	case !ok || l.Op != "AND":
		return append(terms, where)
	}
	for _, t := range l.Terms {
		terms = conjuncts(t, terms)
	}
	return terms
}

// each compiles a source. The function calls visit with the values of the source until
// visit returns false. Then the function returns false too.
func (c *compiler) each(s *syntax.Source) func(f *frame, visit func(raw []byte) bool) bool {
	values := c.values(s)
	if !s.In {
		return values
	}
	at := s.Binding - 1
	return func(f *frame, visit func(raw []byte) bool) bool {
		return values(f, func(raw []byte) bool { return f.inner[at].each(raw, visit) })
	}
}

// values compiles a source without IN: a path, or the rows of a subquery.
func (c *compiler) values(s *syntax.Source) func(f *frame, visit func(raw []byte) bool) bool {
	if s.Subquery != nil {
		return c.block(s.Subquery, s.Subquery.Where).each
	}
	binding, path, ok := boundPath(s.Collection, c.params)
	if !ok {
		return func(*frame, func([]byte) bool) bool { return true }
	}
	raw := c.raw(binding, path)
	return func(f *frame, visit func([]byte) bool) bool {
		if v := raw(f); v != nil {
			return visit(v)
		}
		return true
	}
}

// innerOf returns the nodes and slots of a binding. It creates them on first use.
func (c *compiler) innerOf(binding int) *inner {
	for len(c.inner) < binding {
		c.inner = append(c.inner, &inner{root: newNode()})
	}
	return c.inner[binding-1]
}

// raw compiles a path. The function returns the stored bytes, or nil if the document does
// not have the path.
func (c *compiler) raw(binding int, path []step) func(f *frame) []byte {
	if binding == syntax.Document {
		slot := c.slot(path)
		return func(f *frame) []byte { return f.slots[slot] }
	}
	in, at := c.innerOf(binding), binding-1
	n := in.root.at(path)
	if n.slot == noSlot {
		n.slot = in.slots
		in.slots++
	}
	slot := n.slot
	return func(f *frame) []byte { return f.inner[at].slots[slot] }
}
