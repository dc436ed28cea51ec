package query

// conditionalFunctions are the functions that choose.
var conditionalFunctions = map[string]function{
	"IIF": {class: classConditional, min: 3, max: 3, eval: iif},
}

// iif takes its second argument when the first is true, and the third when it is
// anything else, undefined included.
func iif(a []value) value {
	if a[0].kind == kindTrue {
		return a[1]
	}
	return a[2]
}
