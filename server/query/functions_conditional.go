package query

// conditionalFunctions are the functions that choose.
var conditionalFunctions = map[string]function{
	"IIF": {class: classConditional, min: 3, max: 3},
}
