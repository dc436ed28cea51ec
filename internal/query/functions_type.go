package query

import "math"

// typeFunctions are the functions of a value's type. They are true or false of
// anything, undefined included.
var typeFunctions = map[string]function{
	"IS_ARRAY":         {class: classType, min: 1, max: 1, eval: isKind(kindArray)},
	"IS_BOOL":          {class: classType, min: 1, max: 1, eval: isKind(kindFalse, kindTrue)},
	"IS_BOOLEAN":       {class: classType, min: 1, max: 1, eval: isKind(kindFalse, kindTrue)}, // what Java's SDK resumes a page with
	"IS_DATETIME":      {class: classType, min: 1, max: 1, eval: isDateTime},
	"IS_DEFINED":       {class: classType, min: 1, max: 1, eval: isDefined},
	"IS_FINITE_NUMBER": {class: classType, min: 1, max: 1, eval: isFinite},
	"IS_INTEGER":       {class: classType, min: 1, max: 1, eval: isInteger},
	"IS_NULL":          {class: classType, min: 1, max: 1, eval: isKind(kindNull)},
	"IS_NUMBER":        {class: classType, min: 1, max: 1, eval: isKind(kindNumber)},
	"IS_OBJECT":        {class: classType, min: 1, max: 1, eval: isKind(kindObject)},
	"IS_PRIMITIVE":     {class: classType, min: 1, max: 1, eval: isKind(kindNull, kindFalse, kindTrue, kindNumber, kindString)},
	"IS_STRING":        {class: classType, min: 1, max: 1, eval: isKind(kindString)},
}

func isKind(kinds ...kind) func([]value) value {
	var set uint16
	for _, k := range kinds {
		set |= 1 << k
	}
	return func(a []value) value { return boolOf(set&(1<<a[0].kind) != 0) }
}

func isDefined(a []value) value { return boolOf(a[0].kind != kindUndefined) }

func isFinite(a []value) value {
	return boolOf(a[0].kind == kindNumber && finite(a[0].num).kind == kindNumber)
}

// isInteger is for integers of 64 bits. 2^63 counts, because the largest of them
// can't be told from it by a float64.
func isInteger(a []value) value {
	n := a[0].num
	return boolOf(a[0].kind == kindNumber && n == math.Trunc(n) && math.Abs(n) <= 1<<63)
}

func isDateTime(a []value) value {
	if a[0].kind != kindString {
		return boolOf(false)
	}
	_, ok := parseDateTime(a[0].b)
	return boolOf(ok)
}
