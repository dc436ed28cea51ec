package query

import (
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// What a condition says of partition keys and ids. It is said as a union of
// boxes, outside of which the condition isn't true of any document: undefined
// counts as not true. Whatever isn't understood is true everywhere, so that
// nothing is missed; the documents found are still held against the condition.

// box is a set of documents: the values at their key paths, as far as they are
// known, and an interval of ids.
type box struct {
	// key has anyValue where every value will do; nil: at all paths.
	key []any
	// from <= id < to; an empty to is no bound.
	from, to string
}

// anyValue stands for all values at a key path.
type anyValue struct{}

// region is a union of boxes.
type region struct {
	// all: every document, and there are no boxes.
	all bool
	// exact: the condition is true of all of the region.
	exact bool
	boxes []box
}

// Bounds of the analysis. Past them a condition narrows less.
const (
	// maxBoxes is how many places a query looks at one by one. SDKs read a thousand
	// items at once.
	maxBoxes = 10_000
	// maxProduct is how many combinations of two terms of an AND are made.
	maxProduct = 4096
)

// region is that of the condition.
func (b *Bound) region(paths [][]string) region {
	if b.q.Where == nil {
		return region{all: true, exact: true}
	}
	return regions{params: b.params, paths: paths}.of(b.q.Where)
}

// regions finds the regions of expressions.
type regions struct {
	params map[string]value.Value
	paths  [][]string
	// loose: an id may be anything, as in documents that no store has checked.
	loose bool
}

// idPath is where a document has its id, a string.
var idPath = []string{"id"}

// of returns where an expression may be true. Its depth is bounded by the parser.
func (a regions) of(e syntax.Expr) region {
	if v, ok := constant(e, a.params); ok {
		return region{all: v.Kind == value.True, exact: true}
	}
	switch e := e.(type) {
	case *syntax.Logical:
		return a.logical(e)
	case *syntax.Binary:
		return a.binary(e)
	case *syntax.Between:
		if lo, ok := constant(e.Lo, a.params); ok && !e.Not {
			if hi, ok := constant(e.Hi, a.params); ok {
				return intersection(a.ordered(e.X, ">=", lo), a.ordered(e.X, "<=", hi))
			}
		}
	case *syntax.In:
		if !e.Not {
			return a.anyOf(e.X, e.List)
		}
	case *syntax.Call:
		return a.call(e)
	}
	return region{all: true}
}

func (a regions) logical(e *syntax.Logical) region {
	if e.Op == "AND" {
		all := region{all: true, exact: true}
		for _, t := range e.Terms {
			all = intersection(all, a.of(t))
		}
		return all
	}
	some := region{exact: true}
	for _, t := range e.Terms {
		some = union(some, a.of(t))
	}
	return some
}

// mirrored are the operators with their operands exchanged.
var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

func (a regions) binary(e *syntax.Binary) region {
	op, ok := mirrored[e.Op]
	if !ok {
		return region{all: true}
	}
	if v, ok := constant(e.R, a.params); ok {
		return a.compared(e.L, e.Op, v)
	}
	if v, ok := constant(e.L, a.params); ok {
		return a.compared(e.R, op, v)
	}
	return region{all: true}
}

func (a regions) compared(x syntax.Expr, op string, v value.Value) region {
	if op == "=" {
		return a.equal(x, v)
	}
	return a.ordered(x, op, v)
}

// equal is where a path has a value.
func (a regions) equal(x syntax.Expr, v value.Value) region {
	r, understood := region{all: true, exact: true}, false
	if a.isPath(x, idPath) {
		switch {
		case v.Kind == value.String:
			id := string(v.Bytes)
			r.all, r.boxes = false, []box{{from: id, to: id + "\x00"}}
			understood = true
		case !a.loose:
			return region{exact: true}
		}
	}
	for i, path := range a.paths {
		if !a.isPath(x, path) {
			continue
		}
		switch v.Kind {
		case value.Undefined: // equals nothing
			return region{exact: true}
		case value.Array, value.Object: // which are no keys
			r.exact = false
			return r
		default:
			key := make([]any, len(a.paths))
			for j := range key {
				key[j] = anyValue{}
			}
			key[i] = v.Any()
			r = intersection(r, region{exact: true, boxes: []box{{key: key}}})
			understood = true
		}
	}
	r.exact = r.exact && understood
	return r
}

// isPath reports whether an expression is a path of members of the document.
func (a regions) isPath(e syntax.Expr, path []string) bool {
	binding, steps, ok := boundPath(e, a.params)
	return ok && binding == syntax.Document && slices.EqualFunc(steps, path, func(s step, name string) bool {
		return s.name != nil && string(s.name) == name
	})
}

// ordered is where a path compares so with a value. Only ids are ordered: keys
// are hashed.
func (a regions) ordered(x syntax.Expr, op string, v value.Value) region {
	if !a.isPath(x, idPath) {
		return region{all: true}
	}
	if v.Kind != value.String {
		return region{all: a.loose, exact: !a.loose} // no id compares with it
	}
	id := string(v.Bytes)
	var b box
	switch op {
	case ">":
		b.from = id + "\x00"
	case ">=":
		b.from = id
	case "<":
		if b.to = id; id == "" {
			return region{exact: true}
		}
	case "<=":
		b.to = id + "\x00"
	}
	return region{exact: true, boxes: []box{b}}
}

// anyOf is where a path has one of several values.
func (a regions) anyOf(x syntax.Expr, list []syntax.Expr) region {
	some := region{exact: true}
	for _, item := range list {
		v, ok := constant(item, a.params)
		if !ok {
			return region{all: true}
		}
		if some = union(some, a.equal(x, v)); some.all {
			return some
		}
	}
	return some
}

// call is where a function is true: STARTSWITH(path, constant), and
// ARRAY_CONTAINS(constant, path).
func (a regions) call(e *syntax.Call) region {
	if e.Udf {
		return region{all: true}
	}
	if len(e.Args) == 3 {
		if v, ok := constant(e.Args[2], a.params); !ok || v.Kind != value.False {
			return region{all: true}
		}
	} else if len(e.Args) != 2 {
		return region{all: true}
	}
	switch {
	case strings.EqualFold(e.Name, "STARTSWITH"):
		if v, ok := constant(e.Args[1], a.params); ok {
			return a.prefixed(e.Args[0], v)
		}
	case strings.EqualFold(e.Name, "ARRAY_CONTAINS"):
		list, ok := constant(e.Args[0], a.params)
		if !ok || list.Kind != value.Array {
			break
		}
		some := region{exact: true}
		value.EachElement(list.Bytes, func(_ int, raw []byte) bool {
			some = union(some, a.equal(e.Args[1], value.Decode(raw)))
			return !some.all
		})
		return some
	}
	return region{all: true}
}

// prefixed is where a path begins with a text.
func (a regions) prefixed(x syntax.Expr, v value.Value) region {
	if !a.isPath(x, idPath) {
		return region{all: true}
	}
	if v.Kind != value.String {
		return region{exact: true}
	}
	return region{exact: true, boxes: []box{{from: string(v.Bytes), to: behind(string(v.Bytes))}}}
}

// behind is the first text behind all that begin with a prefix; empty: none is.
func behind(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xFF {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}

// union is where either is.
func union(a, b region) region {
	if a.all || b.all {
		// What one of them is exactly true of doesn't tell of what the other adds.
		return region{all: true, exact: a.all && a.exact || b.all && b.exact}
	}
	if len(a.boxes)+len(b.boxes) > maxBoxes {
		return region{all: true}
	}
	return region{exact: a.exact && b.exact, boxes: append(a.boxes, b.boxes...)}
}

// intersection is where both are.
func intersection(a, b region) region {
	switch {
	case a.all:
		b.exact = b.exact && a.exact
		return b
	case b.all:
		a.exact = a.exact && b.exact
		return a
	case len(a.boxes)*len(b.boxes) > maxProduct:
		if len(a.boxes) > len(b.boxes) {
			a = b
		}
		a.exact = false
		return a
	}
	both := region{exact: a.exact && b.exact}
	for _, x := range a.boxes {
		for _, y := range b.boxes {
			if z, ok := x.and(y); ok {
				both.boxes = append(both.boxes, z)
			}
		}
	}
	return both
}

// and is the intersection of two boxes; ok is false when it is empty.
func (x box) and(y box) (z box, ok bool) {
	z = box{key: x.key, from: max(x.from, y.from), to: x.to}
	if y.to != "" && (z.to == "" || y.to < z.to) {
		z.to = y.to
	}
	if z.to != "" && z.from >= z.to {
		return z, false
	}
	if x.key == nil || y.key == nil {
		if x.key == nil {
			z.key = y.key
		}
		return z, true
	}
	z.key = slices.Clone(x.key)
	for i, v := range y.key {
		switch {
		case z.key[i] == any(anyValue{}):
			z.key[i] = v
		case v != any(anyValue{}) && v != z.key[i]:
			return z, false
		}
	}
	return z, true
}

// fullKey is the box's key if all of it is known.
func (x box) fullKey() []any {
	if slices.Contains(x.key, any(anyValue{})) {
		return nil
	}
	return x.key
}
