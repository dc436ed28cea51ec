package query

import (
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Cost holds what the charge of a query depends on.
type Cost struct {
	// Lookups is the number of places in the service's index at which it begins to read: one
	// for each value that the condition compares a path with, one for each loop of FROM, and
	// two for a SELECT VALUE of a path and for aggregates. An unindexed condition has one, too.
	Lookups int
	// Unindexed reports whether the service must read documents to evaluate the condition,
	// because a part of it doesn't compare a path with a constant.
	Unindexed bool
	// Members is the number of items of the select list, or 0 for SELECT * and SELECT VALUE.
	Members int
}

// Cost returns what the charge of the query depends on, for a container that indexes every
// path.
func (b *Bound) Cost() Cost {
	c := Cost{Members: len(b.q.Items)}
	if b.q.Where != nil {
		n, ok := b.lookups(b.q.Where)
		c.Lookups, c.Unindexed = max(n, 1), !ok
	}
	if from := b.q.From; from != nil {
		c.Lookups += len(from.Joins)
		if from.In {
			c.Lookups++
		}
	}
	if _, ok := b.q.Value.(*syntax.Member); ok {
		c.Lookups += 2
	}
	if len(b.shape.Aggregates) > 0 {
		c.Lookups += 2
	}
	return c
}

// indexedFunctions are the functions of which a path is the first argument and that the service
// documents to use the index.
var indexedFunctions = map[string]bool{
	"STARTSWITH": true, "CONTAINS": true, "ENDSWITH": true, "STRINGEQUALS": true, "REGEXMATCH": true, "ARRAY_CONTAINS": true,
	"IS_DEFINED": true, "IS_NULL": true, "IS_BOOL": true, "IS_NUMBER": true, "IS_STRING": true, "IS_ARRAY": true, "IS_OBJECT": true,
	"IS_PRIMITIVE": true,
}

// lookups returns the number of index lookups of a condition. indexed reports whether the
// index answers all of it.
func (b *Bound) lookups(e syntax.Expr) (n int, indexed bool) {
	switch e := e.(type) {
	case *syntax.Literal, *syntax.Param:
		return 0, true
	case *syntax.Logical:
		indexed = true
		for _, t := range e.Terms {
			m, ok := b.lookups(t)
			n, indexed = n+m, indexed && ok
		}
		return n, indexed
	case *syntax.Unary:
		if e.Op == "NOT" {
			return b.lookups(e.X)
		}
	case *syntax.Binary:
		if mirrored[e.Op] != "" || e.Op == "!=" {
			return b.lookup(1, e.L, e.R)
		}
	case *syntax.In:
		return b.lookup(len(e.List), append([]syntax.Expr{e.X}, e.List...)...)
	case *syntax.Between:
		return b.lookup(1, e.X, e.Lo, e.Hi)
	case *syntax.Like:
		return b.lookup(1, e.X, e.Pattern)
	case *syntax.Call:
		return b.callLookups(e)
	case *syntax.Ident, *syntax.Member: // a path that must be true
		return b.lookup(1, e)
	}
	return 0, false
}

// lookup returns n lookups if one operand is a path of the document and the others are
// constant. Otherwise no index answers the expression.
func (b *Bound) lookup(n int, operands ...syntax.Expr) (lookups int, indexed bool) {
	paths := 0
	for _, x := range operands {
		if _, isParam := x.(*syntax.Param); isParam {
			continue // also an undefined one
		}
		if _, isConstant := constant(x, b.params); isConstant {
			continue
		}
		if binding, _, ok := boundTo(x, b.params); !ok || binding != syntax.Document {
			return 0, false
		}
		paths++
	}
	if paths != 1 {
		return 0, false
	}
	return n, true
}

func (b *Bound) callLookups(e *syntax.Call) (n int, indexed bool) {
	name := strings.ToUpper(e.Name)
	if e.Udf || !indexedFunctions[name] {
		return 0, false
	}
	if list, ok := constant(e.Args[0], b.params); ok && name == "ARRAY_CONTAINS" {
		value.EachElement(list.Bytes, func(int, []byte) bool {
			n++
			return true
		})
		return b.lookup(n, e.Args...)
	}
	return b.lookup(1, e.Args...)
}
