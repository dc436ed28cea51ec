package query

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// The slow evaluator checks the results of the evaluator in this package. It works on
// decoded values, in the simplest way that follows the language's description. The two
// share only the parser.

// none is undefined. infinite reports that it is the infinite or NaN result of an operator.
type none struct{ infinite bool }

// slow evaluates expressions for one row: a document and the values of the names in FROM.
type slow struct {
	// doc is the decoded document. names holds the values of the names in FROM.
	doc    any
	names  map[string]any
	params map[string]any
	// group holds the rows of the current group, over which aggregates are computed. It
	// is valid only if grouped is true.
	group   []slow
	grouped bool
}

// slowInfinite is set when an operator has such a result.
var slowInfinite bool

func isUndefined(v any) bool { _, ok := v.(none); return ok }

func (s slow) eval(e syntax.Expr) any {
	switch e := e.(type) {
	case *syntax.Literal:
		return s.literal(e)
	case *syntax.Param:
		return s.params[e.Name]
	case *syntax.Ident:
		return s.names[e.Name]
	case *syntax.Member:
		return s.member(e)
	case *syntax.Like:
		return s.like(e)
	case *syntax.Subquery:
		return s.subquery(e)
	case *syntax.Unary:
		return s.unary(e)
	case *syntax.Binary:
		return s.binary(e)
	case *syntax.Logical:
		return s.logical(e)
	case *syntax.Between:
		both := s.logical(&syntax.Logical{Op: "AND", Terms: []syntax.Expr{&syntax.Binary{Op: ">=", L: e.X, R: e.Lo}, &syntax.Binary{Op: "<=", L: e.X, R: e.Hi}}})
		return negated(both, e.Not)
	case *syntax.In:
		x := s.eval(e.X)
		if isUndefined(x) {
			return none{}
		}
		return slices.ContainsFunc(e.List, func(item syntax.Expr) bool { return reflect.DeepEqual(x, s.eval(item)) }) != e.Not
	case *syntax.Conditional:
		if s.eval(e.Test) == any(true) {
			return s.eval(e.Then)
		}
		return s.eval(e.Otherwise)
	case *syntax.Array:
		list := []any{}
		for _, x := range e.Elements {
			if v := s.eval(x); !isUndefined(v) {
				list = append(list, v)
			}
		}
		return list
	case *syntax.Object:
		m := map[string]any{}
		for _, x := range e.Members {
			if v := s.eval(x.Expr); !isUndefined(v) {
				m[x.Name] = v
			}
		}
		return m
	case *syntax.Call:
		return s.call(e)
	}
	panic(fmt.Sprintf("%T", e))
}

func (s slow) literal(e *syntax.Literal) any {
	switch e.Value.Kind {
	case value.Undefined:
		return none{}
	case value.Null:
		return nil
	case value.Number:
		return e.Value.Float()
	case value.String:
		return string(e.Value.Bytes)
	default:
		return e.Value.Kind == value.True
	}
}

func (s slow) member(e *syntax.Member) any {
	base := s.eval(e.Base)
	index := any(e.Name)
	if e.Index != nil {
		index = s.eval(e.Index)
	}
	switch base := base.(type) {
	case map[string]any:
		if name, ok := index.(string); ok {
			if v, ok := base[name]; ok {
				return v
			}
		}
	case []any:
		if i, ok := index.(float64); ok && i >= 0 && i < float64(len(base)) && i == math.Floor(i) {
			return base[int(i)]
		}
	}
	return none{}
}

func negated(v any, not bool) any {
	if b, ok := v.(bool); ok && not {
		return !b
	}
	return v
}

func (s slow) unary(e *syntax.Unary) any {
	switch x := s.eval(e.X).(type) {
	case bool:
		if e.Op == "NOT" {
			return !x
		}
	case float64:
		switch e.Op {
		case "-":
			return -x
		case "+":
			return x
		case "~":
			return float64(^int32(int64(math.Mod(x, 1<<32))))
		}
	}
	return none{}
}

func (s slow) logical(e *syntax.Logical) any {
	decides := e.Op == "OR"
	all := true
	for _, t := range e.Terms {
		v := s.eval(t)
		if v == any(decides) {
			return decides
		}
		all = all && v == any(!decides)
	}
	if all {
		return !decides
	}
	return none{}
}

func (s slow) binary(e *syntax.Binary) any {
	a, b := s.eval(e.L), s.eval(e.R)
	switch e.Op {
	case "??":
		if isUndefined(a) {
			return b
		}
		return a
	case "=", "!=":
		if isUndefined(a) || isUndefined(b) {
			return none{}
		}
		return reflect.DeepEqual(a, b) == (e.Op == "=")
	case "<", "<=", ">", ">=":
		return slowCompared(a, b, e.Op)
	case "||":
		x, ok1 := a.(string)
		y, ok2 := b.(string)
		if ok1 && ok2 {
			return x + y
		}
		return none{}
	}
	x, ok1 := a.(float64)
	y, ok2 := b.(float64)
	if !ok1 || !ok2 {
		return none{}
	}
	r := map[string]func() float64{
		"+": func() float64 { return x + y }, "-": func() float64 { return x - y }, "*": func() float64 { return x * y },
		"/": func() float64 { return x / y }, "%": func() float64 { return math.Mod(x, y) },
		"&":   func() float64 { return float64(int32(int64(math.Mod(x, 1<<32))) & int32(int64(math.Mod(y, 1<<32)))) },
		"|":   func() float64 { return float64(int32(int64(math.Mod(x, 1<<32))) | int32(int64(math.Mod(y, 1<<32)))) },
		"^":   func() float64 { return float64(int32(int64(math.Mod(x, 1<<32))) ^ int32(int64(math.Mod(y, 1<<32)))) },
		"<<":  func() float64 { return float64(slowInt32(x) << (uint32(slowInt32(y)) % 32)) },
		">>":  func() float64 { return float64(slowInt32(x) >> (uint32(slowInt32(y)) % 32)) },
		">>>": func() float64 { return float64(uint32(slowInt32(x)) >> (uint32(slowInt32(y)) % 32)) },
	}[e.Op]()
	if math.IsInf(r, 0) || math.IsNaN(r) {
		slowInfinite = true
		return none{infinite: true}
	}
	return r
}

// slowInt32 returns the integer part of x, reduced to its low 32 bits.
func slowInt32(x float64) int32 { return int32(int64(math.Mod(x, 1<<32))) }

func slowCompared(a, b any, op string) any {
	if fmt.Sprintf("%T", a) != fmt.Sprintf("%T", b) {
		return none{}
	}
	switch a.(type) {
	case none, []any, map[string]any:
		return none{}
	}
	c := slowOrder(a, b)
	return map[string]bool{"<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[op]
}

func slowRank(v any) int {
	switch v := v.(type) {
	case none:
		return 0
	case nil:
		return 1
	case bool:
		if v {
			return 3
		}
		return 2
	case float64:
		return 4
	case string:
		return 5
	case []any:
		return 6
	}
	return 7
}

// slowOrder compares two values of any types, in the order of ORDER BY. The result is
// negative, zero or positive.
func slowOrder(a, b any) int {
	if c := cmp.Compare(slowRank(a), slowRank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case float64:
		return cmp.Compare(a+0, b.(float64)+0)
	case string:
		return cmp.Compare(a, b.(string))
	case []any:
		return slices.CompareFunc(a, b.([]any), slowOrder)
	case map[string]any:
		type pair struct {
			name string
			v    any
		}
		list := func(m map[string]any) (l []pair) {
			for k, v := range m {
				l = append(l, pair{k, v})
			}
			slices.SortFunc(l, func(x, y pair) int { return cmp.Compare(x.name, y.name) })
			return l
		}
		return slices.CompareFunc(list(a), list(b.(map[string]any)), func(x, y pair) int {
			return cmp.Or(cmp.Compare(x.name, y.name), slowOrder(x.v, y.v))
		})
	}
	return 0
}

// slowSortOrder compares two values as ORDER BY does. It has only the hashes of arrays and
// objects from the code under test.
func slowSortOrder(t *testing.T, a, b any) int {
	t.Helper()
	order := slowOrder(a, b)
	_, firstIsArray := a.([]any)
	_, secondIsArray := b.([]any)
	_, firstIsObject := a.(map[string]any)
	_, secondIsObject := b.(map[string]any)
	if order == 0 || !(firstIsArray && secondIsArray || firstIsObject && secondIsObject) {
		return order
	}
	return bytes.Compare(slowKey(t, a, false), slowKey(t, b, false))
}

// slowKey returns the sort key of a decoded value. It encodes the value as JSON and calls
// the code under test.
func slowKey(t *testing.T, v any, desc bool) []byte {
	t.Helper()
	var raw []byte
	if !isUndefined(v) {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	key := value.AppendOrderKey(nil, value.Decode(raw))
	if desc {
		for i := range key {
			key[i] = ^key[i]
		}
	}
	return key
}
