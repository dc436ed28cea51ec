package query

import "math"

// typeFunctions are the functions of a value's type.
var typeFunctions = map[string]function{
	"IS_ARRAY":         {class: classType, min: 1, max: 1, eval: isKind(kindArray)},
	"IS_BOOL":          {class: classType, min: 1, max: 1, eval: isKind(kindFalse, kindTrue)},
	"IS_BOOLEAN":       {class: classType, min: 1, max: 1, eval: isKind(kindFalse, kindTrue)},
	"IS_DATETIME":      {class: classType, min: 1, max: 1},
	"IS_DEFINED":       {class: classType, min: 1, max: 1, eval: func(a []value) value { return boolOf(a[0].kind != kindUndefined) }},
	"IS_FINITE_NUMBER": {class: classType, min: 1, max: 1, eval: isKind(kindNumber)},
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

func isInteger(a []value) value {
	return boolOf(a[0].kind == kindNumber && a[0].num == math.Trunc(a[0].num))
}
