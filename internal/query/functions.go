package query

import (
	"fmt"
	"maps"
	"strings"
)

// class is one of the groups of the service's documentation of functions.
type class string

const (
	classAggregate   class = "aggregate"
	classArray       class = "array"
	classConditional class = "conditional"
	classDate        class = "date and time"
	classFullText    class = "full-text search"
	classItem        class = "item"
	classMath        class = "mathematical"
	classSpatial     class = "spatial"
	classString      class = "string"
	classType        class = "type checking"
	classVector      class = "vector"
)

// many is the greatest number of arguments of a function that takes any number.
const many = -1

// function is a built-in function of its arguments' values. One with neither
// eval nor prepare is the service's and isn't evaluated here: it is refused by
// its name, which tells it from a misspelt one.
type function struct {
	class    class
	min, max int // arguments
	// eval returns the value for one row. The arguments are only lent.
	eval func(args []value) value
	// prepare, instead of eval, does once per query what needn't be done per row:
	// it returns the eval of one call.
	prepare func(s site) func(f *frame, args []value) value
	// pairs: beyond min, arguments come two at a time.
	pairs bool
	// volatile marks a function whose value isn't made of its arguments alone.
	volatile bool
}

// functions are the built-in functions, by their names in upper case. The table
// in docs/queries.md is made of them.
var functions = func() map[string]function {
	all := map[string]function{}
	for _, class := range []map[string]function{
		arrayFunctions, conditionalFunctions, dateFunctions, itemFunctions, mathFunctions, stringFunctions, stringConversions,
		typeFunctions, refusedFunctions,
	} {
		maps.Copy(all, class)
	}
	return all
}()

// refusedFunctions need an index that isn't there.
var refusedFunctions = map[string]function{
	"FULLTEXTCONTAINS":    {class: classFullText, min: 2, max: 2},
	"FULLTEXTCONTAINSALL": {class: classFullText, min: 2, max: many},
	"FULLTEXTCONTAINSANY": {class: classFullText, min: 2, max: many},
	"FULLTEXTSCORE":       {class: classFullText, min: 2, max: many},
	"RRF":                 {class: classFullText, min: 2, max: many},
	"ST_AREA":             {class: classSpatial, min: 1, max: 1},
	"ST_DISTANCE":         {class: classSpatial, min: 2, max: 2},
	"ST_INTERSECTS":       {class: classSpatial, min: 2, max: 2},
	"ST_ISVALID":          {class: classSpatial, min: 1, max: 1},
	"ST_ISVALIDDETAILED":  {class: classSpatial, min: 1, max: 1},
	"ST_WITHIN":           {class: classSpatial, min: 2, max: 2},
	"VECTORDISTANCE":      {class: classVector, min: 2, max: 4},
}

// evaluated says whether there is more of the function than its name.
func (f function) evaluated() bool { return f.eval != nil || f.prepare != nil }

// takes says whether a call may have n arguments.
func (f function) takes(n int) bool {
	return n >= f.min && (f.max == many || n <= f.max) && (!f.pairs || (n-f.min)%2 == 0)
}

// checkCall finds the function of a call.
func (c *checker) checkCall(e *call) error {
	name := strings.ToUpper(e.name)
	switch f, ok := functions[name]; {
	case e.udf:
		return &UnsupportedError{What: "the user-defined function udf." + e.name}
	case ok && !f.evaluated():
		return &UnsupportedError{What: "the function " + name}
	case ok && !f.takes(len(e.args)):
		return c.fail(e.tok, CodeArguments, fmt.Sprintf("The %s function requires %s.", name, f.arity()))
	case ok:
		return nil
	case aggregateKinds[name] != aggregateNone:
		return c.aggregate(e)
	case aggregates[name] != "":
		return &UnsupportedError{What: "the aggregate function " + name}
	}
	return c.fail(e.tok, CodeFunction, fmt.Sprintf("'%s' is not a recognized built-in function name.", e.name))
}

// arity says how many arguments a function takes.
func (f function) arity() string {
	if f.pairs {
		return fmt.Sprintf("%d or %d arguments", f.min, f.max)
	}
	return arity(f.min, f.max)
}

func arity(low, high int) string {
	switch {
	case high == many:
		return fmt.Sprintf("%d or more arguments", low)
	case low != high:
		return fmt.Sprintf("%d to %d arguments", low, high)
	case low == 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", low)
}
