package query

import (
	"math"
	"unicode/utf8"
)

// The operators. Undefined with anything is undefined, but for ??, for false AND
// and for true OR.

// arithmetic are the operators on two numbers; anything else is undefined.
var arithmetic = map[string]func(a, b float64) float64{
	"+": func(a, b float64) float64 { return a + b },
	"-": func(a, b float64) float64 { return a - b },
	"*": func(a, b float64) float64 { return a * b },
	"/": func(a, b float64) float64 { return a / b },
	"%": math.Mod,
	"&": func(a, b float64) float64 { return float64(toInt32(a) & toInt32(b)) },
	"|": func(a, b float64) float64 { return float64(toInt32(a) | toInt32(b)) },
	"^": func(a, b float64) float64 { return float64(toInt32(a) ^ toInt32(b)) },

	// The low five bits of the right operand count, and >>> reads the left one without a sign.
	"<<":  func(a, b float64) float64 { return float64(toInt32(a) << (toInt32(b) & 31)) },
	">>":  func(a, b float64) float64 { return float64(toInt32(a) >> (toInt32(b) & 31)) },
	">>>": func(a, b float64) float64 { return float64(uint32(toInt32(a)) >> (toInt32(b) & 31)) }, //nolint:gosec // the bits, not the value
}

// toInt32 is JavaScript's: the fraction is cut, then the low 32 bits are kept.
func toInt32(f float64) int32 {
	f = math.Mod(math.Trunc(f), 1<<32)
	return int32(uint32(int64(f))) //nolint:gosec // the low bits are what is asked for
}

// comparisons are the operators on two values of one type.
var comparisons = map[string]func(order int) bool{
	"<":  func(c int) bool { return c < 0 },
	"<=": func(c int) bool { return c <= 0 },
	">":  func(c int) bool { return c > 0 },
	">=": func(c int) bool { return c >= 0 },
}

func (c *compiler) binary(e *binaryOp) (evaluator, bool) {
	l, constL := c.expr(e.l)
	r, constR := c.expr(e.r)
	both := constL && constR
	switch e.op {
	case "=":
		return equality(l, r, false), both
	case "!=":
		return equality(l, r, true), both
	case "??":
		return func(f *frame) value {
			if v := l(f); v.kind != kindUndefined {
				return v
			}
			return r(f)
		}, both
	case "||":
		return func(f *frame) value {
			a, b := l(f), r(f)
			if a.kind != kindString || b.kind != kindString || f.tooLarge(len(a.b)+len(b.b)) || !f.spendOn(a, b) {
				return value{}
			}
			return value{kind: kindString, b: append(append(make([]byte, 0, len(a.b)+len(b.b)), a.b...), b.b...)}
		}, both
	}
	if op := comparisons[e.op]; op != nil {
		return func(f *frame) value { return compared(l(f), r(f), op) }, both
	}
	op := arithmetic[e.op]
	return func(f *frame) value {
		a, b := l(f), r(f)
		if a.kind != kindNumber || b.kind != kindNumber {
			return value{}
		}
		return finite(op(a.num, b.num))
	}, both
}

// equality is = and !=. Values of different types differ; undefined is neither.
func equality(l, r evaluator, not bool) evaluator {
	return func(f *frame) value {
		a, b := l(f), r(f)
		if a.kind == kindUndefined || b.kind == kindUndefined || !f.spendOn(a, b) {
			return value{}
		}
		return boolOf(equal(a, b) != not)
	}
}

func compared(a, b value, op func(int) bool) value {
	c, ok := compare(a, b)
	if !ok {
		return value{}
	}
	return boolOf(op(c))
}

func (c *compiler) unary(e *unary) (evaluator, bool) {
	x, constant := c.expr(e.x)
	if e.op == "NOT" {
		return func(f *frame) value { return not(x(f)) }, constant
	}
	op := map[string]func(float64) float64{
		"-": func(a float64) float64 { return -a },
		"+": func(a float64) float64 { return a },
		"~": func(a float64) float64 { return float64(^toInt32(a)) },
	}[e.op]
	return func(f *frame) value {
		v := x(f)
		if v.kind != kindNumber {
			return value{}
		}
		return finite(op(v.num))
	}, constant
}

func not(v value) value {
	switch v.kind {
	case kindTrue:
		return value{kind: kindFalse}
	case kindFalse:
		return value{kind: kindTrue}
	default:
		return value{}
	}
}

// logical is AND and OR: one term decides, else all have to be boolean.
func (c *compiler) logical(e *logical) (evaluator, bool) {
	terms, constant := c.all(e.terms)
	decides, otherwise := kindFalse, kindTrue
	if e.op == "OR" {
		decides, otherwise = kindTrue, kindFalse
	}
	return func(f *frame) value {
		result := value{kind: otherwise}
		for _, t := range terms {
			switch v := t(f); v.kind {
			case decides:
				return v
			case otherwise:
			default:
				result = value{}
			}
		}
		return result
	}, constant
}

// between is x >= lo AND x <= hi.
func (c *compiler) between(e *between) (evaluator, bool) {
	evs, constant := c.all([]expr{e.x, e.lo, e.hi})
	return func(f *frame) value {
		x := evs[0](f)
		low := compared(x, evs[1](f), comparisons[">="])
		high := compared(x, evs[2](f), comparisons["<="])
		var v value
		switch {
		case low.kind == kindFalse || high.kind == kindFalse:
			v = boolOf(false)
		case low.kind == kindTrue && high.kind == kindTrue:
			v = boolOf(true)
		}
		if e.not {
			return not(v)
		}
		return v
	}, constant
}

// in says whether x equals one of the list; an undefined one equals nothing.
func (c *compiler) in(e *inList) (evaluator, bool) {
	x, constX := c.expr(e.x)
	list, constList := c.all(e.list)
	contains := func(f *frame, v value) bool {
		for _, item := range list {
			i := item(f)
			if !f.spendOn(v, i) {
				return false
			}
			if equal(v, i) {
				return true
			}
		}
		return false
	}
	if constList && len(list) >= longList {
		set := make(map[string]bool, len(list))
		for _, item := range list {
			set[string(appendKey(nil, item(nil)))] = true
		}
		contains = func(_ *frame, v value) bool {
			var short [64]byte
			return set[string(appendKey(short[:0], v))]
		}
	}
	return func(f *frame) value {
		v := x(f)
		if v.kind == kindUndefined {
			return value{}
		}
		return boolOf(contains(f, v) != e.not)
	}, constX && constList
}

// like compiles LIKE. What isn't a string is like nothing, and undefined.
func (c *compiler) like(e *like) (evaluator, bool) {
	x, constX := c.expr(e.x)
	pattern, constPattern := c.expr(e.pattern)
	escape := noEscape
	if e.hasEscape {
		escape, _ = utf8.DecodeRuneInString(e.escape)
	}
	matcher := func(v value) likePattern { return parseLike(v.b, escape) }
	if constPattern {
		p := matcher(pattern(&frame{}))
		matcher = func(value) likePattern { return p }
	}
	return func(f *frame) value {
		text, like := x(f), pattern(f)
		if text.kind != kindString || like.kind != kindString {
			return value{}
		}
		return boolOf(matcher(like).match(f, text.b) != e.not)
	}, constX && constPattern
}
