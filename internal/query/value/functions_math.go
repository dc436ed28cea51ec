package value

import (
	"math"
	"math/rand/v2"
)

// mathFunctions holds the functions of numbers. The result is undefined for an argument
// that is not a number, and for a result that is infinite or not a number.
var mathFunctions = map[string]Function{
	"ABS":       {class: classMath, min: 1, max: 1, eval: ofKind(Number, abs)},
	"ACOS":      {class: classMath, min: 1, max: 1, eval: onNumber(math.Acos)},
	"ASIN":      {class: classMath, min: 1, max: 1, eval: onNumber(math.Asin)},
	"ATAN":      {class: classMath, min: 1, max: 1, eval: onNumber(math.Atan)},
	"ATN2":      {class: classMath, min: 2, max: 2, eval: onNumbers(math.Atan2)},
	"CEILING":   {class: classMath, min: 1, max: 1, eval: rounded(math.Ceil)},
	"COS":       {class: classMath, min: 1, max: 1, eval: onNumber(math.Cos)},
	"COT":       {class: classMath, min: 1, max: 1, eval: onNumber(func(x float64) float64 { return 1 / math.Tan(x) })},
	"DEGREES":   {class: classMath, min: 1, max: 1, eval: onNumber(func(x float64) float64 { return 180 / math.Pi * x })},
	"EXP":       {class: classMath, min: 1, max: 1, eval: onNumber(math.Exp)},
	"FLOOR":     {class: classMath, min: 1, max: 1, eval: rounded(math.Floor)},
	"LOG":       {class: classMath, min: 1, max: 2, eval: logarithm},
	"LOG10":     {class: classMath, min: 1, max: 1, eval: onNumber(log10)},
	"NUMBERBIN": {class: classMath, min: 1, max: 2, eval: numberBin},
	"PI":        {class: classMath, min: 0, max: 0, eval: func([]Value) Value { return OfNumber(math.Pi) }},
	"POWER":     {class: classMath, min: 2, max: 2, eval: onNumbers(math.Pow)},
	"RADIANS":   {class: classMath, min: 1, max: 1, eval: onNumber(func(x float64) float64 { return math.Pi * x / 180 })},
	"RAND":      {class: classMath, min: 0, max: 0, Volatile: true, eval: func([]Value) Value { return OfNumber(rand.Float64()) }}, //nolint:gosec // not for secrets
	"ROUND":     {class: classMath, min: 1, max: 1, eval: rounded(math.Round)},                                                     // rounds halves away from 0
	"SIGN":      {class: classMath, min: 1, max: 1, eval: onNumber(sign)},
	"SIN":       {class: classMath, min: 1, max: 1, eval: onNumber(math.Sin)},
	"SQRT":      {class: classMath, min: 1, max: 1, eval: onNumber(math.Sqrt)},
	"SQUARE":    {class: classMath, min: 1, max: 1, eval: ofKind(Number, func(a []Value) Value { return finite(multiply(a[0], a[0])) })},
	"TAN":       {class: classMath, min: 1, max: 1, eval: onNumber(math.Tan)},
	"TRUNC":     {class: classMath, min: 1, max: 1, eval: rounded(math.Trunc)},

	"INTADD":           {class: classMath, min: 2, max: 2, eval: onIntegers(func(a, b int64) (int64, bool) { return a + b, true })},
	"INTBITAND":        {class: classMath, min: 2, max: 2, eval: onIntegers(func(a, b int64) (int64, bool) { return a & b, true })},
	"INTBITLEFTSHIFT":  {class: classMath, min: 2, max: 2, eval: onIntegers(func(a, b int64) (int64, bool) { return shifted(a, b, true) })},
	"INTBITNOT":        {class: classMath, min: 1, max: 1, eval: bitNot},
	"INTBITOR":         {class: classMath, min: 2, max: 2, eval: onIntegers(func(a, b int64) (int64, bool) { return a | b, true })},
	"INTBITRIGHTSHIFT": {class: classMath, min: 2, max: 2, eval: onIntegers(func(a, b int64) (int64, bool) { return shifted(a, b, false) })},
	"INTBITXOR":        {class: classMath, min: 2, max: 2, eval: onIntegers(func(a, b int64) (int64, bool) { return a ^ b, true })},
	"INTDIV":           {class: classMath, min: 2, max: 2, eval: onIntegers(divided)},
	"INTMOD":           {class: classMath, min: 2, max: 2, eval: onIntegers(remainder)},
	"INTMUL":           {class: classMath, min: 2, max: 2, eval: onIntegers(func(a, b int64) (int64, bool) { return a * b, true })},
	"INTSUB":           {class: classMath, min: 2, max: 2, eval: onIntegers(func(a, b int64) (int64, bool) { return a - b, true })},
}

func onNumber(f func(float64) float64) func([]Value) Value {
	return ofKind(Number, func(a []Value) Value { return Finite(f(a[0].float)) })
}

func onNumbers(f func(x, y float64) float64) func([]Value) Value {
	return ofKind(Number, func(a []Value) Value { return Finite(f(a[0].float, a[1].float)) })
}

// rounded returns the eval function of a function that returns an integer unchanged.
func rounded(f func(float64) float64) func([]Value) Value {
	return ofKind(Number, func(a []Value) Value {
		if _, ok := a[0].Int(); ok {
			return a[0]
		}
		return Finite(f(a[0].float))
	})
}

func abs(a []Value) Value {
	if c, _ := compareNumbers(a[0], OfInt(0)); c < 0 {
		return finite(subtract(OfInt(0), a[0]))
	}
	return finite(add(OfInt(0), a[0])) // NaN and infinity become undefined
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// logarithm evaluates LOG. The second argument is the base, without which it returns the
// natural logarithm.
func logarithm(a []Value) Value {
	if len(a) == 1 {
		return onNumber(ln)(a)
	}
	return onNumbers(func(x, base float64) float64 { return ln(x) / ln(base) })(a)
}

// ln returns the natural logarithm. math.Log is wrong for subnormal numbers on amd64.
func ln(x float64) float64 {
	if x < 0x1p-1022 {
		return math.Log(x*0x1p52) - 52*math.Ln2
	}
	return math.Log(x)
}

// log10 returns the decimal logarithm. For a power of ten the result is exact.
func log10(x float64) float64 {
	l := ln(x) / math.Ln10
	if n := math.Round(l); math.Pow10(int(n)) == x {
		return n
	}
	return l
}

// numberBin evaluates NUMBERBIN: it returns the greatest multiple of the bin size that is
// at most the number. The default size is 1. For a negative size, it returns the smallest
// multiple that is at least the number.
func numberBin(a []Value) Value {
	size := OfInt(1)
	if len(a) == 2 {
		size = a[1]
	}
	if a[0].Kind != Number || size.Kind != Number || equalNumbers(size, OfInt(0)) {
		return Value{}
	}
	return floorTo(a[0], size)
}

// onIntegers returns an eval function that calls f with two 64-bit integers. If an
// argument is not a 64-bit integer, the result is undefined. An overflow wraps around.
func onIntegers(f func(a, b int64) (int64, bool)) func([]Value) Value {
	return func(a []Value) Value {
		x, ok1 := a[0].Int()
		y, ok2 := a[1].Int()
		if !ok1 || !ok2 {
			return Value{}
		}
		n, ok := f(x, y)
		if !ok {
			return Value{}
		}
		return OfInt(n)
	}
}

func bitNot(a []Value) Value {
	n, ok := a[0].Int()
	if !ok {
		return Value{}
	}
	return OfInt(^n)
}

func divided(a, b int64) (int64, bool) {
	if b == 0 {
		return 0, false
	}
	return a / b, true
}

func remainder(a, b int64) (int64, bool) {
	if b == 0 {
		return 0, false
	}
	return a % b, true
}

// shifted shifts an integer by some bits. ok is false where C++ does not define the
// result, because the service uses the operator of C++.
func shifted(a, by int64, left bool) (int64, bool) {
	switch {
	case by < 0 || by > 63:
		return 0, false
	case left:
		return a << by, true
	}
	return a >> by, true
}
