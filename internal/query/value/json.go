package value

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// EachElement calls f with the elements of an array until f returns false.
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

// eachMember calls f with the members of an object until f returns false.
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

// Lookup returns the member of an object with the given name. Of several, it returns the
// first.
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

// Lenient holds the options of decoders. Documents were checked when they were stored, so
// duplicate names and invalid UTF-8 are not checked again.
var Lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// NewDecoder returns a decoder that reads raw in place. It copies nothing, so its results
// are parts of raw.
func NewDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), Lenient...)
}

// trimBlanks removes the white space of JSON at both ends.
func trimBlanks(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }
