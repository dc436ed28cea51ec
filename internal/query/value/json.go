package value

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// EachElement calls f with the index and the JSON of each element of an array, until f
// returns false.
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

// eachMember calls f with the name and the JSON of each member of an object, until f
// returns false.
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

// Lookup returns the value of the member of an object with the given name. If several
// members have the name, it returns the first. If none has, it returns undefined.
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

// Lenient holds the options of JSON decoders for stored documents. Names and UTF-8 were
// checked when the documents were stored, so they are not checked again.
var Lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// NewDecoder returns a decoder that reads raw in place. It copies nothing, so its results
// are parts of raw.
func NewDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), Lenient...)
}

// trimBlanks removes the white space of JSON at both ends.
func trimBlanks(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }
