package query

import (
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// An operator with an undefined operand returns undefined. The exceptions are ??, false
// AND, and true OR.

// comparisons holds the operators that compare two values of the same type. The argument
// is negative, zero or positive, like the result of cmp.Compare.
var comparisons = map[string]func(order int) bool{
	"<":  func(c int) bool { return c < 0 },
	"<=": func(c int) bool { return c <= 0 },
	">":  func(c int) bool { return c > 0 },
	">=": func(c int) bool { return c >= 0 },
}

func (c *compiler) binary(e *syntax.Binary) (evaluator, bool) {
	l, constL := c.expr(e.L)
	r, constR := c.expr(e.R)
	both := constL && constR
	switch e.Op {
	case "=":
		return equality(l, r, false), both
	case "!=":
		return equality(l, r, true), both
	case "??":
		return func(f *frame) value.Value {
			if v := l(f); v.Kind != value.Undefined {
				return v
			}
			return r(f)
		}, both
	case "||":
		return func(f *frame) value.Value {
			a, b := l(f), r(f)
			if a.Kind != value.String || b.Kind != value.String || f.tooLarge(len(a.Bytes)+len(b.Bytes)) || !f.spendOn(a, b) {
				return value.Value{}
			}
			return value.Value{Kind: value.String, Bytes: append(append(make([]byte, 0, len(a.Bytes)+len(b.Bytes)), a.Bytes...), b.Bytes...)}
		}, both
	}
	if op := comparisons[e.Op]; op != nil {
		return func(f *frame) value.Value { return compared(l(f), r(f), op) }, both
	}
	op := value.Arithmetic[e.Op]
	return func(f *frame) value.Value {
		a, b := l(f), r(f)
		if a.Kind != value.Number || b.Kind != value.Number {
			return value.Value{}
		}
		return op(a, b)
	}, both
}

// equality compiles = and !=. Values of different types differ. With an undefined operand
// the result is undefined.
func equality(l, r evaluator, not bool) evaluator {
	return func(f *frame) value.Value {
		a, b := l(f), r(f)
		if a.Kind == value.Undefined || b.Kind == value.Undefined || !f.spendOn(a, b) {
			return value.Value{}
		}
		return value.OfBool(value.Equal(a, b) != not)
	}
}

func compared(a, b value.Value, op func(int) bool) value.Value {
	c, ok := value.Compare(a, b)
	if !ok {
		return value.Value{}
	}
	return value.OfBool(op(c))
}

func (c *compiler) unary(e *syntax.Unary) (evaluator, bool) {
	x, constant := c.expr(e.X)
	if e.Op == "NOT" {
		return func(f *frame) value.Value { return not(x(f)) }, constant
	}
	op := value.Signs[e.Op]
	return func(f *frame) value.Value {
		v := x(f)
		if v.Kind != value.Number {
			return value.Value{}
		}
		return op(v)
	}, constant
}

func not(v value.Value) value.Value {
	switch v.Kind {
	case value.True:
		return value.Value{Kind: value.False}
	case value.False:
		return value.Value{Kind: value.True}
	default:
		return value.Value{}
	}
}

// logical compiles AND and OR. One false term makes AND false, and one true term makes OR
// true. Otherwise the result is undefined unless all terms are boolean.
func (c *compiler) logical(e *syntax.Logical) (evaluator, bool) {
	terms, constant := c.all(e.Terms)
	decides, otherwise := value.False, value.True
	if e.Op == "OR" {
		decides, otherwise = value.True, value.False
	}
	return func(f *frame) value.Value {
		result := value.Value{Kind: otherwise}
		for _, t := range terms {
			switch v := t(f); v.Kind {
			case decides:
				return v
			case otherwise:
			default:
				result = value.Value{}
			}
		}
		return result
	}, constant
}

// between compiles x >= lo AND x <= hi.
func (c *compiler) between(e *syntax.Between) (evaluator, bool) {
	evs, constant := c.all([]syntax.Expr{e.X, e.Lo, e.Hi})
	return func(f *frame) value.Value {
		x := evs[0](f)
		low := compared(x, evs[1](f), comparisons[">="])
		high := compared(x, evs[2](f), comparisons["<="])
		var v value.Value
		switch {
		case low.Kind == value.False || high.Kind == value.False:
			v = value.OfBool(false)
		case low.Kind == value.True && high.Kind == value.True:
			v = value.OfBool(true)
		}
		if e.Not {
			return not(v)
		}
		return v
	}, constant
}

// in compiles IN. An undefined element equals nothing.
func (c *compiler) in(e *syntax.In) (evaluator, bool) {
	x, constX := c.expr(e.X)
	list, constList := c.all(e.List)
	contains := func(f *frame, v value.Value) bool {
		for _, item := range list {
			i := item(f)
			if !f.spendOn(v, i) {
				return false
			}
			if value.Equal(v, i) {
				return true
			}
		}
		return false
	}
	if constList && len(list) >= longList {
		set := make(map[string]bool, len(list))
		for _, item := range list {
			set[string(value.AppendKey(nil, item(nil)))] = true
		}
		contains = func(_ *frame, v value.Value) bool {
			var short [64]byte
			return set[string(value.AppendKey(short[:0], v))]
		}
	}
	return func(f *frame) value.Value {
		v := x(f)
		if v.Kind == value.Undefined {
			return value.Value{}
		}
		return value.OfBool(contains(f, v) != e.Not)
	}, constX && constList
}

// like compiles LIKE. If an operand is not a string, the result is undefined.
func (c *compiler) like(e *syntax.Like) (evaluator, bool) {
	x, constX := c.expr(e.X)
	pattern, constPattern := c.expr(e.Pattern)
	escape := value.NoEscape
	if e.HasEscape {
		escape, _ = utf8.DecodeRuneInString(e.Escape)
	}
	matcher := func(v value.Value) value.LikePattern { return value.ParseLike(v.Bytes, escape) }
	if constPattern {
		p := matcher(pattern(&frame{}))
		matcher = func(value.Value) value.LikePattern { return p }
	}
	return func(f *frame) value.Value {
		text, like := x(f), pattern(f)
		if text.Kind != value.String || like.Kind != value.String {
			return value.Value{}
		}
		return value.OfBool(matcher(like).Match(f, text.Bytes) != e.Not)
	}, constX && constPattern
}
