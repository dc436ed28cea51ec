package query

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// kind is the type of a value. The order of the kinds is that of ORDER BY.
type kind uint8

const (
	kindUndefined kind = iota
	kindNull
	kindFalse
	kindTrue
	kindNumber
	kindString
	kindArray
	kindObject
)

// value is what an expression evaluates to. The zero value is undefined.
type value struct {
	kind kind
	num  float64
	// b is what a string says, or the JSON of an array or object. It may be part
	// of the document, and is never written to.
	b []byte
}

func numberOf(f float64) value { return value{kind: kindNumber, num: f} }
func stringOf(s string) value  { return value{kind: kindString, b: []byte(s)} }

func boolOf(b bool) value {
	if b {
		return value{kind: kindTrue}
	}
	return value{kind: kindFalse}
}

// finite is the value of a calculation: JSON has no infinity, and the service
// has none either.
func finite(f float64) value {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return value{}
	}
	return numberOf(f)
}

func (v value) isBool() bool { return v.kind == kindFalse || v.kind == kindTrue }

// sameType says whether < and = look into two values.
func sameType(a, b value) bool { return a.kind == b.kind || a.isBool() && b.isBool() }

// decode reads the JSON of a value. Arrays and objects stay as they are.
func decode(raw []byte) value {
	if len(raw) == 0 {
		return value{}
	}
	switch raw[0] {
	case 'n':
		return value{kind: kindNull}
	case 't':
		return value{kind: kindTrue}
	case 'f':
		return value{kind: kindFalse}
	case '"':
		return value{kind: kindString, b: unquote(raw)}
	case '[':
		return value{kind: kindArray, b: raw}
	case '{':
		return value{kind: kindObject, b: raw}
	}
	return value{kind: kindNumber, num: parseNumber(raw)}
}

// parseNumber reads a JSON number. Beyond the range of a float64 it is the
// largest one, as far as a comparison can tell.
func parseNumber(raw []byte) float64 {
	// Short integers are most numbers.
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
	// The string lives for the call only.
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(raw), len(raw)), 64)
	if err != nil {
		return max(-math.MaxFloat64, min(math.MaxFloat64, f))
	}
	return f
}

// unquote returns what a JSON string says, as part of raw when nothing in it is
// escaped.
func unquote(raw []byte) []byte {
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

// appendJSON writes a defined value.
func (v value) appendJSON(dst []byte) []byte {
	switch v.kind {
	case kindNull:
		return append(dst, "null"...)
	case kindFalse:
		return append(dst, "false"...)
	case kindTrue:
		return append(dst, "true"...)
	case kindNumber:
		return appendNumber(dst, v.num)
	case kindString:
		return appendString(dst, v.b)
	case kindArray, kindObject:
		return append(dst, v.b...)
	case kindUndefined:
	}
	return dst
}

// appendNumber writes a number as JavaScript does. Those that JSON hasn't become
// strings, as the service's SDKs write them.
func appendNumber(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 0):
		return append(dst, `"Infinity"`...) // there is no way to -Infinity
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

func appendString(dst, s []byte) []byte {
	q, err := jsontext.AppendQuote(dst, s)
	if err != nil && q == nil {
		return append(dst, '"', '"')
	}
	return q
}

// equal compares two defined values, arrays and objects in depth.
func equal(a, b value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case kindNumber:
		return a.num == b.num
	case kindString:
		return bytes.Equal(a.b, b.b)
	case kindArray, kindObject:
		if bytes.Equal(a.b, b.b) {
			return true
		}
		return bytes.Equal(appendKey(nil, a), appendKey(nil, b))
	case kindUndefined, kindNull, kindFalse, kindTrue:
	}
	return true
}

// compare orders two values of one type; ok is false for others, and for arrays
// and objects. Strings compare by their UTF-8, which is the order of code points.
func compare(a, b value) (c int, ok bool) {
	if !sameType(a, b) {
		return 0, false
	}
	switch a.kind {
	case kindNull, kindFalse, kindTrue:
		return int(a.kind) - int(b.kind), true
	case kindNumber:
		switch {
		case a.num < b.num:
			return -1, true
		case a.num > b.num:
			return 1, true
		}
		return 0, a.num == b.num // NaN isn't before, behind or beside anything
	case kindString:
		return bytes.Compare(a.b, b.b), true
	case kindUndefined, kindArray, kindObject:
	}
	return 0, false
}

// integer is the value of an argument that has to be an integer of 64 bits.
func integer(v value) (n int64, ok bool) {
	if v.kind != kindNumber || v.num != math.Trunc(v.num) || math.Abs(v.num) > 1<<63 {
		return 0, false
	}
	switch v.num {
	case 1 << 63: // as near as a float64 comes to the largest
		return math.MaxInt64, true
	case -1 << 63:
		return math.MinInt64, true
	}
	return int64(v.num), true
}

func stringValue(b []byte) value { return value{kind: kindString, b: b} }

// plain is a scalar as callers have it.
func (v value) plain() any {
	switch v.kind {
	case kindFalse, kindTrue:
		return v.kind == kindTrue
	case kindNumber:
		return v.num
	case kindString:
		return string(v.b)
	case kindUndefined, kindNull, kindArray, kindObject:
	}
	return nil
}
