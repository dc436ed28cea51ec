package query

import (
	"math"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// This file analyses a condition to find the partition keys and ids of the documents that
// can satisfy it. The result is a union of key ranges, and no document outside of them
// satisfies the condition. If the analysis does not support a term, it assumes that the
// term is always true, so that no document is missed. The caller then evaluates the
// condition for each document in the ranges.

// keyRange is a set of documents: the known values at their key paths, and an interval of
// ids.
type keyRange struct {
	// key has one value for each partition key path. anyValue matches every value. A
	// nil key means every value at all paths.
	key []any
	// from and to limit the ids: from <= id < to. An empty to means no upper limit.
	from, to string
}

// anyValue matches every value at a key path.
type anyValue struct{}

// keySet is a union of key ranges. It contains every document that may satisfy a
// condition.
type keySet struct {
	// all reports whether the set contains every document. Then ranges is empty.
	all bool
	// exact reports whether every document in the set satisfies the condition.
	exact  bool
	ranges []keyRange
}

// These are limits of the analysis. If a condition exceeds them, the result contains more
// documents than necessary, but is still correct.
const (
	// maxRanges is the largest number of ranges in a set. SDKs read a thousand items in
	// one query, each with a range of its own.
	maxRanges = 10_000
	// maxProduct is the largest number of pairs of ranges that are intersected for an
	// AND.
	maxProduct = 4096
)

// keySet returns the documents that may satisfy the condition.
func (b *Bound) keySet(paths [][]string) keySet {
	if b.q.Where == nil {
		return keySet{all: true, exact: true}
	}
	return keyAnalysis{params: b.params, paths: paths}.of(b.q.Where)
}

// keyAnalysis computes the key set of an expression and of its parts.
type keyAnalysis struct {
	params map[string]value.Value
	paths  [][]string
	// loose is true for documents that no store has checked, whose ids may have any type.
	loose bool
}

// idPath is the path of a document's id. In the store, an id is always a string.
var idPath = []string{"id"}

// of returns the set of documents that may satisfy an expression. The parser bounds the
// depth of the recursion.
func (a keyAnalysis) of(e syntax.Expr) keySet {
	if v, ok := constant(e, a.params); ok {
		return keySet{all: v.Kind == value.True, exact: true}
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
	return keySet{all: true}
}

func (a keyAnalysis) logical(e *syntax.Logical) keySet {
	if e.Op == "AND" {
		all := keySet{all: true, exact: true}
		for _, t := range e.Terms {
			all = intersection(all, a.of(t))
		}
		return all
	}
	some := keySet{exact: true}
	for _, t := range e.Terms {
		some = union(some, a.of(t))
	}
	return some
}

// mirrored maps an operator to the operator with the same result after its operands are
// swapped: a < b is b > a.
var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

func (a keyAnalysis) binary(e *syntax.Binary) keySet {
	op, ok := mirrored[e.Op]
	if !ok {
		return keySet{all: true}
	}
	if v, ok := constant(e.R, a.params); ok {
		return a.compared(e.L, e.Op, v)
	}
	if v, ok := constant(e.L, a.params); ok {
		return a.compared(e.R, op, v)
	}
	return keySet{all: true}
}

func (a keyAnalysis) compared(x syntax.Expr, op string, v value.Value) keySet {
	if op == "=" {
		return a.equal(x, v)
	}
	return a.ordered(x, op, v)
}

// equal returns the set of documents with value v at path x.
func (a keyAnalysis) equal(x syntax.Expr, v value.Value) keySet {
	r, understood := keySet{all: true, exact: true}, false
	if a.isPath(x, idPath) {
		switch {
		case v.Kind == value.String:
			id := string(v.Bytes)
			r.all, r.ranges = false, []keyRange{{from: id, to: id + "\x00"}}
			understood = true
		case !a.loose:
			return keySet{exact: true}
		}
	}
	for i, path := range a.paths {
		if !a.isPath(x, path) {
			continue
		}
		switch v.Kind {
		case value.Undefined: // equals nothing
			return keySet{exact: true}
		case value.Array, value.Object: // not valid as keys
			r.exact = false
			return r
		default:
			key := make([]any, len(a.paths))
			for j := range key {
				key[j] = anyValue{}
			}
			key[i] = v.Any()
			// A partition key is a float64, which several integers share from 2^53 on.
			const shared = 1 << 53
			r = intersection(r, keySet{exact: math.Abs(v.Float()) < shared, ranges: []keyRange{{key: key}}})
			understood = true
		}
	}
	r.exact = r.exact && understood
	return r
}

// isPath reports whether an expression is the given path of the document.
func (a keyAnalysis) isPath(e syntax.Expr, path []string) bool {
	binding, n, ok := boundTo(e, a.params)
	if !ok || binding != syntax.Document || n != len(path) {
		return false
	}
	for m, more := e.(*syntax.Member); more; m, more = m.Base.(*syntax.Member) {
		n--
		if s, _ := stepOf(m, a.params); s != (step{path[n], -1}) {
			return false
		}
	}
	return true
}

// ordered returns the set of documents whose path x compares with v by op. It supports
// ids only, because partition keys are hashed.
func (a keyAnalysis) ordered(x syntax.Expr, op string, v value.Value) keySet {
	if !a.isPath(x, idPath) {
		return keySet{all: true}
	}
	if v.Kind != value.String {
		return keySet{all: a.loose, exact: !a.loose} // no id compares with it
	}
	id := string(v.Bytes)
	var b keyRange
	switch op {
	case ">":
		b.from = id + "\x00"
	case ">=":
		b.from = id
	case "<":
		if b.to = id; id == "" {
			return keySet{exact: true}
		}
	case "<=":
		b.to = id + "\x00"
	}
	return keySet{exact: true, ranges: []keyRange{b}}
}

// anyOf returns the set of documents that have any of the values in list at path x.
func (a keyAnalysis) anyOf(x syntax.Expr, list []syntax.Expr) keySet {
	some := keySet{exact: true}
	for _, item := range list {
		v, ok := constant(item, a.params)
		if !ok {
			return keySet{all: true}
		}
		if some = union(some, a.equal(x, v)); some.all {
			return some
		}
	}
	return some
}

// call returns the set of documents for which a function is true. It supports
// STARTSWITH(path, constant) and ARRAY_CONTAINS(constant, path).
func (a keyAnalysis) call(e *syntax.Call) keySet {
	if e.Udf {
		return keySet{all: true}
	}
	if len(e.Args) == 3 {
		if v, ok := constant(e.Args[2], a.params); !ok || v.Kind != value.False {
			return keySet{all: true}
		}
	} else if len(e.Args) != 2 {
		return keySet{all: true}
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
		some := keySet{exact: true}
		value.EachElement(list.Bytes, func(_ int, raw []byte) bool {
			some = union(some, a.equal(e.Args[1], value.Decode(raw)))
			return !some.all
		})
		return some
	}
	return keySet{all: true}
}

// prefixed returns the set of documents whose path x begins with v.
func (a keyAnalysis) prefixed(x syntax.Expr, v value.Value) keySet {
	if !a.isPath(x, idPath) {
		return keySet{all: true}
	}
	if v.Kind != value.String {
		return keySet{exact: true}
	}
	return keySet{exact: true, ranges: []keyRange{{from: string(v.Bytes), to: prefixEnd(string(v.Bytes))}}}
}

// prefixEnd returns the first text after all texts that begin with a prefix. It returns
// "" if there is none.
func prefixEnd(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xFF {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}

// union returns the union of two sets.
func union(a, b keySet) keySet {
	if a.all || b.all {
		// One set contains all documents. The union is exact only if that set is.
		return keySet{all: true, exact: a.all && a.exact || b.all && b.exact}
	}
	if len(a.ranges)+len(b.ranges) > maxRanges {
		return keySet{all: true}
	}
	return keySet{exact: a.exact && b.exact, ranges: append(a.ranges, b.ranges...)}
}

// intersection returns the intersection of two sets. It may return a larger set, which is
// not exact.
func intersection(a, b keySet) keySet {
	switch {
	case a.all:
		b.exact = b.exact && a.exact
		return b
	case b.all:
		a.exact = a.exact && b.exact
		return a
	case len(a.ranges)*len(b.ranges) > maxProduct:
		if len(a.ranges) > len(b.ranges) {
			a = b
		}
		a.exact = false
		return a
	}
	both := keySet{exact: a.exact && b.exact}
	for _, x := range a.ranges {
		for _, y := range b.ranges {
			if z, ok := x.and(y); ok {
				both.ranges = append(both.ranges, z)
			}
		}
	}
	return both
}

// and returns the intersection of two ranges. ok is false if it is empty.
func (x keyRange) and(y keyRange) (z keyRange, ok bool) {
	z = keyRange{key: x.key, from: max(x.from, y.from), to: x.to}
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

// fullKey returns the key of the range if it has a definite value for every path, and nil
// otherwise.
func (x keyRange) fullKey() []any {
	if slices.Contains(x.key, any(anyValue{})) {
		return nil
	}
	return x.key
}
