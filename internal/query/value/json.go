package value

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// EachElement calls f with the elements of an array until it returns false.
func EachElement(raw []byte, f func(i int, element []byte) bool) {
	d := NewDecoder(raw)
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for i := 0; d.PeekKind() != jsontext.KindEndArray; i++ {
		v, err := d.ReadValue()
		if err != nil || !f(i, v) {
			return
		}
	}
}

// eachMember calls f with the members of an object until it returns false.
func eachMember(raw []byte, f func(name, v []byte) bool) {
	d := NewDecoder(raw)
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadValue()
		if err != nil {
			return
		}
		key := Unquote(name)
		v, err := d.ReadValue()
		if err != nil || !f(key, v) {
			return
		}
	}
}

// Lookup returns the member of an object; of two with one name the first.
func Lookup(object, name []byte) Value {
	var found Value
	eachMember(object, func(n, raw []byte) bool {
		if !bytes.Equal(n, name) {
			return true
		}
		found = Decode(raw)
		return false
	})
	return found
}

// Lenient are the options of decoders. Documents were checked when they were stored, so names aren't compared and
// UTF-8 isn't checked again.
var Lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// NewDecoder reads raw in place: a decoder over a bytes.Buffer copies nothing, so
// what it returns is part of raw.
func NewDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), Lenient...)
}

// trimBlanks takes away the white space of JSON.
func trimBlanks(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }
