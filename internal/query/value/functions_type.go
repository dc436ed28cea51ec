package value

// typeFunctions holds the functions of a value's type. They return true or false for
// every value, including undefined.
var typeFunctions = map[string]Function{
	"IS_ARRAY":         {class: classType, min: 1, max: 1, eval: isKind(Array)},
	"IS_BOOL":          {class: classType, min: 1, max: 1, eval: isKind(False, True)},
	"IS_BOOLEAN":       {class: classType, min: 1, max: 1, eval: isKind(False, True)}, // Java's SDK resumes a page with it
	"IS_DATETIME":      {class: classType, min: 1, max: 1, eval: isDateTime},
	"IS_DEFINED":       {class: classType, min: 1, max: 1, eval: isDefined},
	"IS_FINITE_NUMBER": {class: classType, min: 1, max: 1, eval: isFinite},
	"IS_INTEGER":       {class: classType, min: 1, max: 1, eval: isInteger},
	"IS_NULL":          {class: classType, min: 1, max: 1, eval: isKind(Null)},
	"IS_NUMBER":        {class: classType, min: 1, max: 1, eval: isKind(Number)},
	"IS_OBJECT":        {class: classType, min: 1, max: 1, eval: isKind(Object)},
	"IS_PRIMITIVE":     {class: classType, min: 1, max: 1, eval: isKind(Null, False, True, Number, String)},
	"IS_STRING":        {class: classType, min: 1, max: 1, eval: isKind(String)},
}

func isKind(kinds ...Kind) func([]Value) Value {
	var set uint16
	for _, k := range kinds {
		set |= 1 << k
	}
	return func(a []Value) Value { return OfBool(set&(1<<a[0].Kind) != 0) }
}

func isDefined(a []Value) Value { return OfBool(a[0].Kind != Undefined) }

func isFinite(a []Value) Value {
	return OfBool(a[0].Kind == Number && Finite(a[0].float).Kind == Number)
}

// isInteger evaluates IS_INTEGER: it reports whether a value is a 64-bit integer.
func isInteger(a []Value) Value {
	_, ok := a[0].Int()
	return OfBool(ok)
}

func isDateTime(a []Value) Value {
	if a[0].Kind != String {
		return OfBool(false)
	}
	_, ok := parseDateTime(a[0].Bytes)
	return OfBool(ok)
}

// conditionalFunctions holds the functions that choose a value.
var conditionalFunctions = map[string]Function{
	"IIF": {class: classConditional, min: 3, max: 3, eval: iif},
}

// iif evaluates IIF: it returns the second argument if the first is true, and the third
// otherwise.
func iif(a []Value) Value {
	if a[0].Kind == True {
		return a[1]
	}
	return a[2]
}
