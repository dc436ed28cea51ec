package value

import (
	"math"
	"math/bits"
)

// Arithmetic holds the operators on two numbers. They must not be called for other values.
//
// With integers, + - * and % are exact, and so is / unless there is a remainder. A result
// that leaves 64 bits is a float64. An infinite result or NaN is undefined, and
// [Value.NotFinite].
var Arithmetic = map[string]func(a, b Value) Value{
	"+": add,
	"-": subtract,
	"*": multiply,
	"/": divide,
	"%": modulo,
	"&": func(a, b Value) Value { return OfInt(int64(toInt32(a) & toInt32(b))) },
	"|": func(a, b Value) Value { return OfInt(int64(toInt32(a) | toInt32(b))) },
	"^": func(a, b Value) Value { return OfInt(int64(toInt32(a) ^ toInt32(b))) },

	// As in JavaScript, a shift uses only the low five bits of the right operand, and >>>
	// treats the left operand as unsigned.
	"<<":  func(a, b Value) Value { return OfInt(int64(toInt32(a) << (toInt32(b) & 31))) },
	">>":  func(a, b Value) Value { return OfInt(int64(toInt32(a) >> (toInt32(b) & 31))) },
	">>>": func(a, b Value) Value { return OfInt(int64(uint32(toInt32(a)) >> (toInt32(b) & 31))) }, //nolint:gosec // only the bits matter
}

// Signs holds the operators on one number. They must not be called for other values.
var Signs = map[string]func(a Value) Value{
	"-": func(a Value) Value { return finite(subtract(OfInt(0), a)) },
	"+": func(a Value) Value { return finite(add(OfInt(0), a)) },
	"~": func(a Value) Value { return OfInt(int64(^toInt32(a))) },
}

// finite returns the result of a sign or a function, which is undefined if it is infinite or
// NaN.
func finite(v Value) Value {
	if v.Kind == Undefined {
		return Value{}
	}
	return v
}

// toInt32 converts as JavaScript does: it truncates the fraction and keeps the low 32
// bits.
func toInt32(v Value) int32 {
	if v.Bytes != nil {
		return int32(v.digits()) //nolint:gosec // only the low bits are needed
	}
	return int32(uint32(int64(math.Mod(math.Trunc(v.float), 1<<32)))) //nolint:gosec // only the low bits are needed
}

// isSmall reports whether a result that was computed with float64 is exact if the
// operands and the exact result are integers.
func isSmall(f float64) bool { return f > -1<<53 && f < 1<<53 }

// ints returns the values of two numbers if both are integers.
func ints(a, b Value) (x, y int64, ok bool) {
	x, ok1 := a.Int()
	y, ok2 := b.Int()
	return x, y, ok1 && ok2
}

func add(a, b Value) Value {
	if f := a.float + b.float; isSmall(f) && a.Bytes == nil && b.Bytes == nil {
		return OfNumber(f)
	}
	if x, y, ok := ints(a, b); ok {
		if sum := x + y; (sum > x) == (y > 0) {
			return OfInt(sum)
		}
	}
	return outcome(a.float + b.float)
}

func subtract(a, b Value) Value {
	if f := a.float - b.float; isSmall(f) && a.Bytes == nil && b.Bytes == nil {
		return OfNumber(f)
	}
	if x, y, ok := ints(a, b); ok {
		if d := x - y; (d < x) == (y > 0) {
			return OfInt(d)
		}
	}
	return outcome(a.float - b.float)
}

func multiply(a, b Value) Value {
	if f := a.float * b.float; isSmall(f) && a.Bytes == nil && b.Bytes == nil {
		return OfNumber(f)
	}
	if x, y, ok := ints(a, b); ok {
		hi, lo := bits.Mul64(uint64(x), uint64(y))     //nolint:gosec // corrected for the signs below
		high := int64(hi) - x>>63&y - y>>63&x          //nolint:gosec // see above
		if product := int64(lo); high == product>>63 { //nolint:gosec // see above
			return OfInt(product)
		}
	}
	return outcome(a.float * b.float)
}

func divide(a, b Value) Value {
	if isSmall(a.float) {
		return outcome(a.float / b.float)
	}
	if x, y, ok := ints(a, b); ok && y != 0 && x%y == 0 && (x != math.MinInt64 || y != -1) {
		return OfInt(x / y)
	}
	return outcome(a.float / b.float)
}

func modulo(a, b Value) Value {
	if isSmall(a.float) && isSmall(b.float) {
		return outcome(math.Mod(a.float, b.float))
	}
	if x, y, ok := ints(a, b); ok && y != 0 {
		return OfInt(x % y)
	}
	return outcome(math.Mod(a.float, b.float))
}

// floorTo returns the greatest multiple of size that is at most x, or for a negative size
// the smallest multiple that is at least x. Both must be numbers.
func floorTo(x, size Value) Value {
	if n, s, ok := ints(x, size); ok && s != 0 {
		rest := n % s
		if rest != 0 && (rest < 0) != (s < 0) {
			rest += s
		}
		return finite(subtract(x, OfInt(rest)))
	}
	return Finite(math.Floor(x.float/size.float) * size.float)
}

// total is the sum of numbers. As long as all of them are integers, it is exact, so that
// it does not depend on their order.
type total struct {
	sum      float64
	fraction bool   // a number was not an integer; the total is sum
	hi, lo   uint64 // the exact total, in two's complement
}

func (t *total) add(v Value) {
	t.sum += v.float
	if t.fraction {
		return
	}
	n, ok := v.Int()
	if !ok {
		t.fraction = true
		return
	}
	var carry uint64
	t.lo, carry = bits.Add64(t.lo, uint64(n), 0)     //nolint:gosec // only the bits matter
	t.hi, _ = bits.Add64(t.hi, uint64(n>>63), carry) //nolint:gosec // only the bits matter
}

// value returns the total. If it is infinite, it is undefined, and [Value.NotFinite].
func (t *total) value() Value {
	switch {
	case t.fraction:
		return outcome(t.sum)
	case t.hi == uint64(int64(t.lo)>>63): //nolint:gosec // only the bits matter
		return OfInt(int64(t.lo)) //nolint:gosec // only the bits matter
	}
	return OfNumber(float64(int64(t.hi))*(1<<64) + float64(t.lo)) //nolint:gosec // only the bits matter
}

// mean returns the mean of the n numbers of the total. It is exact if it is an integer of
// which all numbers are.
func (t *total) mean(n int64) Value {
	if t.fraction {
		return outcome(t.sum / float64(n))
	}
	hi, lo, negative := t.hi, t.lo, int64(t.hi) < 0 //nolint:gosec // only the bits matter
	if negative {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	mean, rest := bits.Div64(hi, lo, uint64(n)) //nolint:gosec // n is positive, and hi is below it
	if negative {
		mean = -mean
	}
	if rest == 0 {
		return OfInt(int64(mean)) //nolint:gosec // the mean of integers of 64 bits has 64 bits
	}
	return OfNumber(t.value().float / float64(n))
}
