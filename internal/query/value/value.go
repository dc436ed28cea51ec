// Package value holds the values of queries: their JSON, their order, and the functions
// and aggregates that depend on values alone. [Decode] parses the JSON of a [Value], and
// [Value.AppendJSON] writes it. [Compare], [Equal] and [AppendKey] define the order.
// [Functions] lists the built-in functions, and an [Accumulator] computes an aggregate.
package value

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/canonical"
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
	Kind Kind
	// float is the float64 that is nearest to a number.
	float float64
	// Bytes is the content of a string, or the JSON of an array or object. It may be a
	// part of the document and must not be changed. For a number, see OfInt.
	Bytes []byte
}

// OfString returns a string.
func OfString(s string) Value { return Value{Kind: String, Bytes: []byte(s)} }

// OfBool returns true or false.
func OfBool(b bool) Value {
	if b {
		return Value{Kind: True}
	}
	return Value{Kind: False}
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
	return parseNumber(raw)
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
		return appendNumber(dst, v)
	case String:
		return AppendString(dst, v.Bytes)
	case Array, Object:
		return canonical.AppendQueried(dst, v.Bytes)
	case Undefined:
	}
	return dst
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
		return equalNumbers(a, b)
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
		return compareNumbers(a, b)
	case String:
		return bytes.Compare(a.Bytes, b.Bytes), true
	case Undefined, Array, Object:
	}
	return 0, false
}

func ofBytes(b []byte) Value { return Value{Kind: String, Bytes: b} }

// Any returns the value as a Go value: nil for null, bool, float64 or string. An integer
// becomes the nearest float64. It must not
// be called for other values.
func (v Value) Any() any {
	switch v.Kind {
	case False, True:
		return v.Kind == True
	case Number:
		return v.Float()
	case String:
		return string(v.Bytes)
	case Undefined, Null, Array, Object:
	}
	return nil
}
