package value

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/changefeed-go/changefeed/internal/canonical"
)

// A number is an integer if its value is an integer of 64 bits, however it was written or
// computed: 3, 3.0 and 6 / 2 are the same integer. Every other number is a float64.
//
// Almost all integers are a float64 as well. The others have their digits in Bytes, which
// is nil for every other number. So each number has one representation.

// OfInt returns the integer n.
func OfInt(n int64) Value {
	f := float64(n)
	if isFloat(n, f) {
		return Value{Kind: Number, float: f}
	}
	return Value{Kind: Number, float: f, Bytes: strconv.AppendInt(nil, n, 10)}
}

// isFloat reports whether the integer n equals f, the nearest float64. 2^63 is a float64
// and no int64, so its conversion is undefined.
func isFloat(n int64, f float64) bool { return f != 1<<63 && int64(f) == n }

// OfNumber returns the number f.
func OfNumber(f float64) Value { return Value{Kind: Number, float: f + 0} } // 0 for -0

// Finite returns the result of a calculation. It is undefined for infinity and NaN, which
// neither JSON nor the service has.
func Finite(f float64) Value {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return Value{}
	}
	return OfNumber(f)
}

// outcome returns the result of an operator or an aggregate. Infinity and NaN are undefined, as
// in Finite, but the value remembers them, because the service refuses a row that contains one.
func outcome(f float64) Value {
	v := OfNumber(f)
	if math.IsInf(f, 0) || math.IsNaN(f) {
		v.Kind = Undefined
	}
	return v
}

// NotFinite reports whether v is undefined because it is the infinite or NaN result of an
// operator, such as 1/0, or of SUM or AVG.
func (v Value) NotFinite() bool { return v.Kind == Undefined && v.float != 0 }

// Int returns the value of an integer. ok is false for every other value.
func (v Value) Int() (n int64, ok bool) {
	switch {
	case v.Kind != Number:
		return 0, false
	case v.Bytes != nil:
		return v.digits(), true
	case !(v.float >= -1<<63 && v.float < 1<<63):
		return 0, false
	}
	n = int64(v.float)
	return n, float64(n) == v.float
}

// digits returns the integer in Bytes.
func (v Value) digits() int64 {
	n, _ := strconv.ParseInt(textOf(v.Bytes), 10, 64)
	return n
}

// textOf returns raw as a string that shares its memory, for parsers that do not keep it.
func textOf(raw []byte) string { return unsafe.String(unsafe.SliceData(raw), len(raw)) }

// Float returns the float64 that is nearest to a number.
func (v Value) Float() float64 { return v.float }

// parseNumber parses a JSON number. For a number outside the range of float64, it returns
// the largest float64 with the same sign. Comparisons with other numbers then have the
// correct result. The value may share the memory of raw.
func parseNumber(raw []byte) Value {
	// This is a fast path for short integers, which are the most frequent numbers.
	if n := len(raw); n > 0 && n < 16 && raw[0] != '-' {
		i := int64(0)
		for k, c := range raw {
			if c < '0' || c > '9' {
				break
			}
			i = i*10 + int64(c-'0')
			if k == n-1 {
				return Value{Kind: Number, float: float64(i)}
			}
		}
	}
	text := textOf(raw)
	if n, ok := longInteger(text); ok {
		if f := float64(n); !isFloat(n, f) {
			return Value{Kind: Number, float: f, Bytes: raw}
		}
		return Value{Kind: Number, float: float64(n)}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		f = max(-math.MaxFloat64, min(math.MaxFloat64, f))
	}
	return OfNumber(f)
}

// longInteger returns the value of a text of at least 16 digits that is an integer of 64
// bits. A float64 holds any shorter integer.
func longInteger(text string) (n int64, ok bool) {
	if len(text) < 16 || strings.IndexFunc(text, notInteger) >= 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// ParseNumber parses a decimal number. It returns an error for a number outside the range
// of float64.
func ParseNumber(text string) (Value, error) {
	if n, ok := longInteger(text); ok {
		return OfInt(n), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	return OfNumber(f), err
}

// notInteger reports whether a character of a number is neither a digit nor a minus sign.
func notInteger(c rune) bool { return c != '-' && (c < '0' || c > '9') }

// appendNumber appends a number. An integer has all of its digits, and a float64 the form
// that package canonical describes. NaN and Infinity become strings, as the service's SDKs
// write them.
func appendNumber(dst []byte, v Value) []byte {
	if v.Bytes != nil {
		return append(dst, v.Bytes...)
	}
	f := v.float
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 0):
		return append(dst, `"Infinity"`...) // no expression returns -Infinity
	}
	return canonical.AppendFloat(dst, f)
}

// AppendProjected appends the JSON of a value that a query selects from a document, which
// is the stored text. But an integer beyond 64 signed bits becomes a float64, as in the
// service. Unlike [Value.AppendJSON], it keeps the long exponents of stored numbers.
func AppendProjected(dst, raw []byte) []byte {
	const short = 18 // see parseNumber
	if len(raw) <= short || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return append(dst, raw...)
	}
	if bytes.IndexFunc(raw, notInteger) >= 0 {
		return append(dst, raw...)
	}
	return appendNumber(dst, parseNumber(raw))
}

func equalNumbers(a, b Value) bool {
	return a.float == b.float && (a.Bytes == nil && b.Bytes == nil || bytes.Equal(a.Bytes, b.Bytes))
}

// compareNumbers compares two numbers by their exact values. NaN is not comparable.
func compareNumbers(a, b Value) (c int, ok bool) {
	switch {
	case a.float < b.float:
		return -1, true
	case a.float > b.float:
		return 1, true
	case a.Bytes == nil && b.Bytes == nil:
		return 0, a.float == b.float
	}
	return cmp.Compare(a.distance(), b.distance()), true
}

// distance returns how much an integer exceeds its nearest float64.
func (v Value) distance() int64 {
	switch {
	case v.Bytes == nil:
		return 0
	case v.float == 1<<63:
		return v.digits() - math.MaxInt64 - 1
	}
	return v.digits() - int64(v.float)
}

// appendNumberKey appends the key of a number, whose first 8 bytes are the nearest
// float64. From 2^53 to 2^63, where several integers share a float64, two bytes follow
// with the distance from it.
func appendNumberKey(dst []byte, v Value) []byte {
	bits := math.Float64bits(v.float)
	if v.float < 0 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	dst = binary.BigEndian.AppendUint64(dst, bits)
	if a := math.Abs(v.float); a >= 1<<53 && a <= 1<<63 {
		dst = binary.BigEndian.AppendUint16(dst, uint16(v.distance()+1<<15)) //nolint:gosec // a distance is at most 512
	}
	return dst
}
