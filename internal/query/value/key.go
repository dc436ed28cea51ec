package value

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A key is an encoding of a value whose byte order is the order of values. It begins with
// the type. The rest is
//
//	number   8 bytes, big-endian, with the sign bit inverted (all bits of a
//	         negative number); see appendNumberKey for two more
//	string   its UTF-8, each 0x00 followed by 0xFF, then 0x00 0x00
//	array    the keys of its elements, then 0x00
//	object   for each member in the order of names: 0x01, the name as a string,
//	         the key of its value; then 0x00
//
// No key is a prefix of another. So keys can be concatenated, and inverted for a
// descending order. Equal values have equal keys, by which arrays and objects are
// compared.

// AppendKey appends the key of a value.
func AppendKey(dst []byte, v Value) []byte {
	switch v.Kind {
	case Number:
		return appendNumberKey(append(dst, byte(v.Kind)+1), v)
	case String:
		return appendStringKey(append(dst, byte(v.Kind)+1), v.Bytes)
	case Array, Object:
		key, _ := appendKeyFrom(dst, NewDecoder(v.Bytes))
		return key
	case Undefined, Null, False, True:
	}
	return append(dst, byte(v.Kind)+1)
}

func appendStringKey(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, 0)
		if i < 0 {
			dst = append(dst, s...)
			return append(dst, 0, 0)
		}
		dst = append(dst, s[:i+1]...)
		dst = append(dst, 0xFF)
		s = s[i+1:]
	}
}

// appendKeyFrom appends the key of the value that the decoder is at. If the JSON is
// invalid, ok is false and the key covers the valid part.
func appendKeyFrom(dst []byte, d *jsontext.Decoder) (key []byte, ok bool) {
	switch d.PeekKind() {
	case jsontext.KindBeginArray:
		return appendArrayKey(append(dst, byte(Array)+1), d)
	case jsontext.KindBeginObject:
		return appendObjectKey(append(dst, byte(Object)+1), d)
	default:
		raw, err := d.ReadValue()
		if err != nil {
			return dst, false
		}
		return AppendKey(dst, Decode(raw)), true
	}
}

func appendArrayKey(dst []byte, d *jsontext.Decoder) (key []byte, ok bool) {
	_, err := d.ReadToken()
	for ok = err == nil; ok && d.PeekKind() != jsontext.KindEndArray; {
		dst, ok = appendKeyFrom(dst, d)
	}
	if ok {
		_, err = d.ReadToken()
	}
	return append(dst, 0), ok && err == nil
}

func appendObjectKey(dst []byte, d *jsontext.Decoder) (key []byte, ok bool) {
	type entry struct{ name, value []byte }
	var entries []entry
	_, err := d.ReadToken()
	for ok = err == nil; ok && d.PeekKind() != jsontext.KindEndObject; {
		name, err := d.ReadValue()
		if err != nil {
			ok = false
			break
		}
		e := entry{name: appendStringKey(nil, Unquote(name))}
		e.value, ok = appendKeyFrom(nil, d)
		entries = append(entries, e)
	}
	if ok {
		_, err = d.ReadToken()
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return bytes.Compare(a.name, b.name) })
	for _, e := range entries {
		dst = append(dst, 1)
		dst = append(dst, e.name...)
		dst = append(dst, e.value...)
	}
	return append(dst, 0), ok && err == nil
}
