package query

import "bytes"

// stringFunctions are the functions of strings.
var stringFunctions = map[string]function{
	"CONCAT":          {class: classString, min: 2, max: many},
	"CONTAINS":        {class: classString, min: 2, max: 3, eval: onStrings(bytes.Contains)},
	"CONTAINS_ALL_CI": {class: classString, min: 2, max: many},
	"CONTAINS_ALL_CS": {class: classString, min: 2, max: many},
	"CONTAINS_ANY_CI": {class: classString, min: 2, max: many},
	"CONTAINS_ANY_CS": {class: classString, min: 2, max: many},
	"ENDSWITH":        {class: classString, min: 2, max: 3, eval: onStrings(bytes.HasSuffix)},
	"INDEX_OF":        {class: classString, min: 2, max: 3},
	"LASTINDEXOF":     {class: classString, min: 2, max: 3},
	"LEFT":            {class: classString, min: 2, max: 2},
	"LENGTH":          {class: classString, min: 1, max: 1},
	"LOWER":           {class: classString, min: 1, max: 1},
	"LTRIM":           {class: classString, min: 1, max: 2},
	"REGEXMATCH":      {class: classString, min: 2, max: 3},
	"REPLACE":         {class: classString, min: 3, max: 3},
	"REPLICATE":       {class: classString, min: 2, max: 2},
	"REVERSE":         {class: classString, min: 1, max: 1},
	"RIGHT":           {class: classString, min: 2, max: 2},
	"RTRIM":           {class: classString, min: 1, max: 2},
	"STARTSWITH":      {class: classString, min: 2, max: 3, eval: onStrings(bytes.HasPrefix)},
	"STRINGEQUALS":    {class: classString, min: 2, max: 3},
	"STRINGJOIN":      {class: classString, min: 2, max: 2},
	"STRINGSPLIT":     {class: classString, min: 2, max: 2},
	"SUBSTRING":       {class: classString, min: 3, max: 3},
	"TRIM":            {class: classString, min: 1, max: 2},
	"UPPER":           {class: classString, min: 1, max: 1},
}

// onStrings is a function of two strings; a third argument of true ignores case.
func onStrings(f func(s, sub []byte) bool) func([]value) value {
	return func(a []value) value {
		if a[0].kind != kindString || a[1].kind != kindString {
			return value{}
		}
		if len(a) == 3 {
			switch a[2].kind {
			case kindTrue:
				return boolOf(f(bytes.ToUpper(a[0].b), bytes.ToUpper(a[1].b)))
			case kindFalse:
			default:
				return value{}
			}
		}
		return boolOf(f(a[0].b, a[1].b))
	}
}
