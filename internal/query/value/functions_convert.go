package value

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// stringConversions are the functions between strings and other values. A string
// is read as the JSON of the wanted type, with white space around it; whatever
// isn't is undefined.
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
			if _, err := strconv.ParseFloat(string(raw), 64); err != nil {
				return Value{} // beyond all numbers
			}
		}
		return v
	}
}

// toString is JSON without white space; a string is itself.
func toString(a []Value) Value {
	switch v := a[0]; v.Kind {
	case Undefined, String:
		return v
	case Array, Object:
		text := jsontext.Value(bytes.Clone(v.Bytes))
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

// itemFunctions are the functions of whole documents.
var itemFunctions = map[string]Function{
	"DOCUMENTID": {class: classItem, min: 1, max: 1, eval: documentID},
}

// documentID is the number of a document in its container, which the last 8
// bytes of its _rid tell: the lowest first, as the service writes it, or 4 bytes
// from the highest to the lowest and the same 4 the other way round, as the
// embedded store does. Of anything else it is undefined.
func documentID(a []Value) Value {
	if a[0].Kind != Object {
		return Value{}
	}
	rid := Lookup(a[0].Bytes, []byte("_rid"))
	if rid.Kind != String {
		return Value{}
	}
	// A rid is base64 with - for /.
	text := bytes.ReplaceAll(rid.Bytes, []byte("-"), []byte("/"))
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(b) != 16 {
		return Value{}
	}
	if n := binary.BigEndian.Uint32(b[8:]); n == binary.LittleEndian.Uint32(b[12:]) {
		return OfNumber(float64(n))
	}
	return OfNumber(float64(binary.LittleEndian.Uint64(b[8:])))
}
