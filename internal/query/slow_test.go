package query

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
)

// The slow evaluator: over decoded values, without slots, folding or keys, each
// rule written as the language's description has it. It shares the parser with
// the fast one and nothing else.

type none struct{} // undefined

// slow evaluates expressions for one row.
type slow struct {
	// doc is the document, and names what FROM gives names to.
	doc    any
	names  map[string]any
	params map[string]any
	// group are the rows that the SELECT under evaluation makes one of; only with them grouped is set.
	group   []slow
	grouped bool
}

func isUndefined(v any) bool { _, ok := v.(none); return ok }

func (s slow) eval(e expr) any {
	switch e := e.(type) {
	case *literal:
		return s.literal(e)
	case *param:
		return s.params[e.name]
	case *ident:
		return s.names[e.name]
	case *member:
		return s.member(e)
	case *like:
		return s.like(e)
	case *subquery:
		return s.subquery(e)
	case *unary:
		return s.unary(e)
	case *binaryOp:
		return s.binary(e)
	case *logical:
		return s.logical(e)
	case *between:
		both := s.logical(&logical{op: "AND", terms: []expr{&binaryOp{op: ">=", l: e.x, r: e.lo}, &binaryOp{op: "<=", l: e.x, r: e.hi}}})
		return negated(both, e.not)
	case *inList:
		x := s.eval(e.x)
		if isUndefined(x) {
			return none{}
		}
		return slices.ContainsFunc(e.list, func(item expr) bool { return reflect.DeepEqual(x, s.eval(item)) }) != e.not
	case *conditional:
		if s.eval(e.test) == any(true) {
			return s.eval(e.then)
		}
		return s.eval(e.otherwise)
	case *array:
		list := []any{}
		for _, x := range e.elements {
			if v := s.eval(x); !isUndefined(v) {
				list = append(list, v)
			}
		}
		return list
	case *object:
		m := map[string]any{}
		for _, x := range e.members {
			if v := s.eval(x.e); !isUndefined(v) {
				m[x.name] = v
			}
		}
		return m
	case *call:
		return s.call(e)
	}
	panic(fmt.Sprintf("%T", e))
}

func (s slow) literal(e *literal) any {
	switch e.v.kind {
	case kindUndefined:
		return none{}
	case kindNull:
		return nil
	case kindNumber:
		return e.v.num
	case kindString:
		return string(e.v.b)
	default:
		return e.v.kind == kindTrue
	}
}

func (s slow) member(e *member) any {
	base := s.eval(e.base)
	index := any(e.name)
	if e.index != nil {
		index = s.eval(e.index)
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

func (s slow) unary(e *unary) any {
	switch x := s.eval(e.x).(type) {
	case bool:
		if e.op == "NOT" {
			return !x
		}
	case float64:
		switch e.op {
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

func (s slow) logical(e *logical) any {
	decides := e.op == "OR"
	all := true
	for _, t := range e.terms {
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

func (s slow) binary(e *binaryOp) any {
	a, b := s.eval(e.l), s.eval(e.r)
	switch e.op {
	case "??":
		if isUndefined(a) {
			return b
		}
		return a
	case "=", "!=":
		if isUndefined(a) || isUndefined(b) {
			return none{}
		}
		return reflect.DeepEqual(a, b) == (e.op == "=")
	case "<", "<=", ">", ">=":
		return slowCompared(a, b, e.op)
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
	}[e.op]()
	if math.IsInf(r, 0) || math.IsNaN(r) {
		return none{}
	}
	return r
}

// slowInt32 is a number's low 32 bits.
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

// slowOrder is the order of ORDER BY, over all types.
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

// slowKey is the key of a decoded value, written as JSON once more.
func slowKey(t *testing.T, v any, desc bool) []byte {
	t.Helper()
	var raw []byte
	if !isUndefined(v) {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	key := appendKey(nil, decode(raw))
	if desc {
		for i := range key {
			key[i] = ^key[i]
		}
	}
	return key
}
