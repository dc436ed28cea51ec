package query

// arrayFunctions are the functions of arrays.
var arrayFunctions = map[string]function{
	"ARRAY_AVG":          {class: classArray, min: 1, max: 1},
	"ARRAY_CONCAT":       {class: classArray, min: 2, max: many},
	"ARRAY_CONTAINS":     {class: classArray, min: 2, max: 3, eval: arrayContains},
	"ARRAY_CONTAINS_ALL": {class: classArray, min: 2, max: many},
	"ARRAY_CONTAINS_ANY": {class: classArray, min: 2, max: many},
	"ARRAY_LENGTH":       {class: classArray, min: 1, max: 1},
	"ARRAY_MAX":          {class: classArray, min: 1, max: 1},
	"ARRAY_MEDIAN":       {class: classArray, min: 1, max: 1},
	"ARRAY_MIN":          {class: classArray, min: 1, max: 1},
	"ARRAY_SLICE":        {class: classArray, min: 2, max: 3},
	"ARRAY_SUM":          {class: classArray, min: 1, max: 1},
	"CHOOSE":             {class: classArray, min: 2, max: many},
	"OBJECTTOARRAY":      {class: classArray, min: 1, max: 3},
	"SETDIFFERENCE":      {class: classArray, min: 2, max: 2},
	"SETEQUAL":           {class: classArray, min: 2, max: 2},
	"SETINTERSECT":       {class: classArray, min: 2, max: 2},
	"SETUNION":           {class: classArray, min: 2, max: 2},
}

// arrayContains looks for a value in an array. With a third argument of true an
// object is found in one that has its members and maybe others.
func arrayContains(a []value) value {
	partial := false
	if len(a) == 3 {
		switch {
		case a[2].isBool():
			partial = a[2].kind == kindTrue
		case a[2].kind != kindUndefined:
			return value{}
		}
	}
	if a[0].kind != kindArray || a[1].kind == kindUndefined {
		return value{}
	}
	found := false
	eachElement(a[0].b, func(_ int, raw []byte) bool {
		v := decode(raw)
		if partial && v.kind == kindObject && a[1].kind == kindObject {
			found = hasMembers(v.b, a[1].b)
		} else {
			found = equal(v, a[1])
		}
		return !found
	})
	return boolOf(found)
}

func hasMembers(object, wanted []byte) bool {
	all := true
	eachMember(wanted, func(name, raw []byte) bool {
		v := lookup(object, name)
		all = v.kind != kindUndefined && equal(v, decode(raw))
		return all
	})
	return all
}
