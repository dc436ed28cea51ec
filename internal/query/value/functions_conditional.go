package value

// conditionalFunctions are the functions that choose.
var conditionalFunctions = map[string]Function{
	"IIF": {class: classConditional, min: 3, max: 3, eval: iif},
}

// iif takes its second argument when the first is true, and the third when it is
// anything else, undefined included.
func iif(a []Value) Value {
	if a[0].Kind == True {
		return a[1]
	}
	return a[2]
}
