package query

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The slow evaluator: over decoded values, without slots, folding or keys, each
// rule written as the language's description has it. It shares the parser with
// the fast one and nothing else.

type none struct{} // undefined

type slow struct {
	doc    any
	params map[string]any
}

// row returns what a query makes of the document; none{} for no row.
func (s slow) row(q *selectQuery) any {
	if q.where != nil && s.eval(q.where) != any(true) {
		return none{}
	}
	switch {
	case q.star:
		return s.doc
	case q.value != nil:
		return s.eval(q.value)
	}
	row := map[string]any{}
	for i, name := range outputNames(q.items) {
		if v := s.eval(q.items[i].e); v != any(none{}) {
			row[name] = v
		}
	}
	return row
}

func isUndefined(v any) bool { _, ok := v.(none); return ok }

func (s slow) eval(e expr) any {
	switch e := e.(type) {
	case *literal:
		return s.literal(e)
	case *param:
		return s.params[e.name]
	case *ident:
		return s.doc
	case *member:
		return s.member(e)
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
		"&": func() float64 { return float64(int32(int64(math.Mod(x, 1<<32))) & int32(int64(math.Mod(y, 1<<32)))) },
		"|": func() float64 { return float64(int32(int64(math.Mod(x, 1<<32))) | int32(int64(math.Mod(y, 1<<32)))) },
		"^": func() float64 { return float64(int32(int64(math.Mod(x, 1<<32))) ^ int32(int64(math.Mod(y, 1<<32)))) },
	}[e.op]()
	if math.IsInf(r, 0) || math.IsNaN(r) {
		return none{}
	}
	return r
}

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

func (s slow) call(e *call) any {
	args := make([]any, len(e.args))
	for i, a := range e.args {
		args[i] = s.eval(a)
	}
	rank := slowRank(args[0])
	switch name := strings.ToUpper(e.name); name {
	case "IS_DEFINED":
		return rank > 0
	case "IS_NULL":
		return rank == 1
	case "IS_BOOL", "IS_BOOLEAN":
		return rank == 2 || rank == 3
	case "IS_NUMBER", "IS_FINITE_NUMBER":
		return rank == 4
	case "IS_INTEGER":
		return rank == 4 && args[0] == math.Floor(args[0].(float64))
	case "IS_STRING":
		return rank == 5
	case "IS_ARRAY":
		return rank == 6
	case "IS_OBJECT":
		return rank == 7
	case "IS_PRIMITIVE":
		return rank >= 1 && rank <= 5
	case "ARRAY_CONTAINS":
		return slowArrayContains(args)
	default:
		a, ok1 := args[0].(string)
		b, ok2 := args[1].(string)
		if !ok1 || !ok2 {
			return none{}
		}
		if len(args) == 3 {
			ignore, ok := args[2].(bool)
			if !ok {
				return none{}
			}
			if ignore {
				a, b = strings.ToUpper(a), strings.ToUpper(b)
			}
		}
		return map[string]func(string, string) bool{
			"STARTSWITH": strings.HasPrefix, "ENDSWITH": strings.HasSuffix, "CONTAINS": strings.Contains,
		}[name](a, b)
	}
}

func slowArrayContains(args []any) any {
	list, ok := args[0].([]any)
	partial := false
	if len(args) == 3 && !isUndefined(args[2]) {
		b, isBool := args[2].(bool)
		partial, ok = b, ok && isBool
	}
	if !ok || isUndefined(args[1]) {
		return none{}
	}
	return slices.ContainsFunc(list, func(v any) bool {
		have, ok1 := v.(map[string]any)
		want, ok2 := args[1].(map[string]any)
		if !partial || !ok1 || !ok2 {
			return reflect.DeepEqual(v, args[1])
		}
		for name, x := range want {
			if y, ok := have[name]; !ok || !reflect.DeepEqual(x, y) {
				return false
			}
		}
		return true
	})
}

// agree compares the two evaluators on one query and one document, sort keys
// included.
func agree(t *testing.T, text string, q *Query, rows *Rows, params map[string]any, doc []byte) {
	t.Helper()
	s := slow{params: params}
	if err := json.Unmarshal(doc, &s.doc); err != nil {
		t.Fatal(err)
	}
	want := s.row(q.q)
	raw, ok, err := rows.Eval(doc)
	if err != nil {
		t.Fatalf("%s of %s: %v", text, doc, err)
	}
	got := any(none{})
	if ok {
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s of %s makes %q: %v", text, doc, raw, err)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nof %s\nis %v, want %v", text, doc, got, want)
	}
	if ok && len(q.q.orderBy) > 0 {
		key := rows.OrderKey(nil)
		var again []byte
		for _, o := range q.q.orderBy {
			again = append(again, slowKey(t, s.eval(o.e), o.desc)...)
		}
		if string(key) != string(again) {
			t.Fatalf("%s\nof %s\nhas the key %x, want %x", text, doc, key, again)
		}
	}
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
