package query

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// stringConversions are the functions between strings and other values. A string
// is read as the JSON of the wanted type, with white space around it; whatever
// isn't is undefined.
var stringConversions = map[string]function{
	"STRINGTOARRAY":   {class: classString, min: 1, max: 1, eval: stringTo(kindArray)},
	"STRINGTOBOOLEAN": {class: classString, min: 1, max: 1, eval: stringTo(kindTrue, kindFalse)},
	"STRINGTONULL":    {class: classString, min: 1, max: 1, eval: stringTo(kindNull)},
	"STRINGTONUMBER":  {class: classString, min: 1, max: 1, eval: stringTo(kindNumber)},
	"STRINGTOOBJECT":  {class: classString, min: 1, max: 1, eval: stringTo(kindObject)},
	"TOSTRING":        {class: classString, min: 1, max: 1, eval: toString},
}

func stringTo(kinds ...kind) func([]value) value {
	is := isKind(kinds...)
	return func(a []value) value {
		if a[0].kind != kindString {
			return value{}
		}
		raw := trimBlanks(a[0].b)
		if !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true)) {
			return value{}
		}
		v := decode(raw)
		if is([]value{v}).kind != kindTrue {
			return value{}
		}
		if v.kind == kindNumber {
			if _, err := strconv.ParseFloat(string(raw), 64); err != nil {
				return value{} // beyond all numbers
			}
		}
		return v
	}
}

// toString is JSON without white space; a string is itself.
func toString(a []value) value {
	switch v := a[0]; v.kind {
	case kindUndefined, kindString:
		return v
	case kindArray, kindObject:
		text := jsontext.Value(bytes.Clone(v.b))
		if err := text.Compact(lenient...); err != nil {
			return value{}
		}
		return stringValue(text)
	case kindNumber:
		return stringValue(bytes.Trim(v.appendJSON(nil), `"`))
	default:
		return stringValue(v.appendJSON(nil))
	}
}
