// Package value holds the values of queries: their JSON, their order, and the functions
// and aggregates that depend on values alone. [Decode] parses the JSON of a [Value], and
// [Value.AppendJSON] writes it. [Compare], [Equal] and [AppendKey] define the order.
// [Functions] lists the built-in functions, and an [Accumulator] computes an aggregate.
package value

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is the type of a value.
type Kind uint8

// The kinds, in the order of ORDER BY.
const (
	Undefined Kind = iota
	Null
	False
	True
	Number
	String
	Array
	Object
)

// Value is the value of an expression. The zero value is undefined.
type Value struct {
	Kind   Kind
	Number float64
	// Bytes is the content of a string, or the JSON of an array or object. It may be a
	// part of the document and must not be changed.
	Bytes []byte
}

// OfNumber returns a number.
func OfNumber(f float64) Value { return Value{Kind: Number, Number: f} }

// OfString returns a string.
func OfString(s string) Value { return Value{Kind: String, Bytes: []byte(s)} }

// OfBool returns true or false.
func OfBool(b bool) Value {
	if b {
		return Value{Kind: True}
	}
	return Value{Kind: False}
}

// Finite returns the result of a calculation. It is undefined for infinity and NaN, which
// neither JSON nor the service has.
func Finite(f float64) Value {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return Value{}
	}
	return OfNumber(f)
}

func (v Value) isBool() bool { return v.Kind == False || v.Kind == True }

// sameType reports whether two values have types that < can compare with each other.
func sameType(a, b Value) bool { return a.Kind == b.Kind || a.isBool() && b.isBool() }

// Decode decodes the JSON of a value. Arrays and objects stay encoded.
func Decode(raw []byte) Value {
	if len(raw) == 0 {
		return Value{}
	}
	switch raw[0] {
	case 'n':
		return Value{Kind: Null}
	case 't':
		return Value{Kind: True}
	case 'f':
		return Value{Kind: False}
	case '"':
		return Value{Kind: String, Bytes: Unquote(raw)}
	case '[':
		return Value{Kind: Array, Bytes: raw}
	case '{':
		return Value{Kind: Object, Bytes: raw}
	}
	return Value{Kind: Number, Number: parseNumber(raw)}
}

// parseNumber parses a JSON number. For a number outside the range of float64, it returns
// the largest float64 with the same sign. Comparisons with other numbers then have the
// correct result.
func parseNumber(raw []byte) float64 {
	// This is a fast path for short integers, which are the most frequent numbers.
	if n := len(raw); n > 0 && n < 16 && raw[0] != '-' {
		i := int64(0)
		for k, c := range raw {
			if c < '0' || c > '9' {
				break
			}
			i = i*10 + int64(c-'0')
			if k == n-1 {
				return float64(i)
			}
		}
	}
	// The string shares the memory of raw, which is safe because ParseFloat does not keep
	// it.
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(raw), len(raw)), 64)
	if err != nil {
		return max(-math.MaxFloat64, min(math.MaxFloat64, f))
	}
	return f
}

// Unquote returns the content of a JSON string. It is a part of raw if nothing is
// escaped.
func Unquote(raw []byte) []byte {
	if len(raw) < 2 {
		return nil
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil && s == nil {
		return []byte{}
	}
	return s
}

// AppendJSON appends a defined value as JSON. For undefined it appends nothing.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.Kind {
	case Null:
		return append(dst, "null"...)
	case False:
		return append(dst, "false"...)
	case True:
		return append(dst, "true"...)
	case Number:
		return AppendNumber(dst, v.Number)
	case String:
		return AppendString(dst, v.Bytes)
	case Array, Object:
		return append(dst, v.Bytes...)
	case Undefined:
	}
	return dst
}

// AppendNumber appends a number as JavaScript writes it. NaN and Infinity become strings,
// as the service's SDKs write them.
func AppendNumber(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 0):
		return append(dst, `"Infinity"`...) // no expression returns -Infinity
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 && (f != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	if a := math.Abs(f); f != 0 && (a < 1e-6 || a >= 1e21) {
		dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
		// e-09 becomes e-9.
		if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-2] == '0' {
			dst[n-2] = dst[n-1]
			dst = dst[:n-1]
		}
		return dst
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// AppendString appends a JSON string.
func AppendString(dst, s []byte) []byte {
	q, err := jsontext.AppendQuote(dst, s)
	if err != nil && q == nil {
		return append(dst, '"', '"')
	}
	return q
}

// Equal reports whether two defined values are equal. It compares all parts of arrays and
// objects.
func Equal(a, b Value) bool {
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case Number:
		return a.Number == b.Number
	case String:
		return bytes.Equal(a.Bytes, b.Bytes)
	case Array, Object:
		if bytes.Equal(a.Bytes, b.Bytes) {
			return true
		}
		return bytes.Equal(AppendKey(nil, a), AppendKey(nil, b))
	case Undefined, Null, False, True:
	}
	return true
}

// Compare compares two values of one type. For other values, and for arrays and objects,
// ok is false. Strings are compared by their UTF-8, which is the order of code points.
func Compare(a, b Value) (c int, ok bool) {
	if !sameType(a, b) {
		return 0, false
	}
	switch a.Kind {
	case Null, False, True:
		return int(a.Kind) - int(b.Kind), true
	case Number:
		switch {
		case a.Number < b.Number:
			return -1, true
		case a.Number > b.Number:
			return 1, true
		}
		return 0, a.Number == b.Number // NaN is not comparable
	case String:
		return bytes.Compare(a.Bytes, b.Bytes), true
	case Undefined, Array, Object:
	}
	return 0, false
}

// integer returns the value of an argument that must be a 64-bit integer. ok is false for
// any other value.
func integer(v Value) (n int64, ok bool) {
	if v.Kind != Number || v.Number != math.Trunc(v.Number) || math.Abs(v.Number) > 1<<63 {
		return 0, false
	}
	switch v.Number {
	case 1 << 63: // the float64 nearest to the largest int64
		return math.MaxInt64, true
	case -1 << 63:
		return math.MinInt64, true
	}
	return int64(v.Number), true
}

func ofBytes(b []byte) Value { return Value{Kind: String, Bytes: b} }

// Any returns the value as a Go value: nil for null, bool, float64 or string. It must not
// be called for other values.
func (v Value) Any() any {
	switch v.Kind {
	case False, True:
		return v.Kind == True
	case Number:
		return v.Number
	case String:
		return string(v.Bytes)
	case Undefined, Null, Array, Object:
	}
	return nil
}
