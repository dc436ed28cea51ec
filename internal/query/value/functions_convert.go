package value

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"

	"github.com/go-json-experiment/json/jsontext"
)

// stringConversions holds the conversions between strings and other values. A string is
// parsed as JSON of the wanted type, with optional white space around it. Anything else
// is undefined.
var stringConversions = map[string]Function{
	"STRINGTOARRAY":   {class: classString, min: 1, max: 1, eval: stringTo(Array)},
	"STRINGTOBOOLEAN": {class: classString, min: 1, max: 1, eval: stringTo(True, False)},
	"STRINGTONULL":    {class: classString, min: 1, max: 1, eval: stringTo(Null)},
	"STRINGTONUMBER":  {class: classString, min: 1, max: 1, eval: stringTo(Number)},
	"STRINGTOOBJECT":  {class: classString, min: 1, max: 1, eval: stringTo(Object)},
	"TOSTRING":        {class: classString, min: 1, max: 1, eval: toString},
}

func stringTo(kinds ...Kind) func([]Value) Value {
	is := isKind(kinds...)
	return func(a []Value) Value {
		if a[0].Kind != String {
			return Value{}
		}
		raw := trimBlanks(a[0].Bytes)
		if !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true)) {
			return Value{}
		}
		v := Decode(raw)
		if is([]Value{v}).Kind != True {
			return Value{}
		}
		if v.Kind == Number {
			if _, err := ParseNumber(string(raw)); err != nil {
				return Value{} // outside the range of float64
			}
		}
		return v
	}
}

// toString evaluates TOSTRING: it returns the JSON of a value without white space. A
// string is returned unchanged.
func toString(a []Value) Value {
	switch v := a[0]; v.Kind {
	case Undefined, String:
		return v
	case Array, Object:
		text := jsontext.Value(v.AppendJSON(nil))
		if err := text.Compact(Lenient...); err != nil {
			return Value{}
		}
		return ofBytes(text)
	case Number:
		return ofBytes(bytes.Trim(v.AppendJSON(nil), `"`))
	default:
		return ofBytes(v.AppendJSON(nil))
	}
}

// itemFunctions holds the functions whose argument is a whole document.
var itemFunctions = map[string]Function{
	"DOCUMENTID": {class: classItem, min: 1, max: 1, eval: documentID},
}

// documentID returns a document's number. The last 8 bytes of the document's _rid contain
// it in one of two layouts. In the service's layout the lowest byte is first. In the
// embedded store's layout the first 4 bytes contain it, highest first, and the last 4
// bytes repeat them in reverse order. For any other value the result is undefined.
func documentID(a []Value) Value {
	if a[0].Kind != Object {
		return Value{}
	}
	rid := Lookup(a[0].Bytes, []byte("_rid"))
	if rid.Kind != String {
		return Value{}
	}
	// A rid is base64 with - instead of /.
	text := bytes.ReplaceAll(rid.Bytes, []byte("-"), []byte("/"))
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(b) != 16 {
		return Value{}
	}
	if n := binary.BigEndian.Uint32(b[8:]); n == binary.LittleEndian.Uint32(b[12:]) {
		return OfInt(int64(n))
	}
	return OfNumber(float64(binary.LittleEndian.Uint64(b[8:])))
}
