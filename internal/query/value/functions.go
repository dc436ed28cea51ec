package value

import (
	"fmt"
	"maps"
	"time"
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

// Function is a built-in function of its arguments' values. One with neither
// eval nor prepare is the service's and isn't evaluated here: it is refused by
// its name, which tells it from a misspelt one.
type Function struct {
	class    class
	min, max int // arguments
	// eval returns the value for one row. The arguments are only lent.
	eval func(args []Value) Value
	// prepare, instead of eval, does once per query what needn't be done per row:
	// it returns the eval of one call.
	prepare func(now time.Time) func(b Budget, args []Value) Value
	// pairs: beyond min, arguments come two at a time.
	pairs bool
	// Volatile marks a function whose value isn't made of its arguments alone.
	Volatile bool
}

// Functions are the built-in functions, by their names in upper case. The table
// in docs/queries.md is made of them.
var Functions = func() map[string]Function {
	all := map[string]Function{}
	for _, class := range []map[string]Function{
		arrayFunctions, conditionalFunctions, dateFunctions, itemFunctions, mathFunctions, stringFunctions, stringConversions,
		typeFunctions, refusedFunctions,
	} {
		maps.Copy(all, class)
	}
	return all
}()

// refusedFunctions need an index that isn't there.
var refusedFunctions = map[string]Function{
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

// ofKind returns a function that is undefined unless all of its arguments are of one kind.
func ofKind(k Kind, f func(args []Value) Value) func([]Value) Value {
	return func(args []Value) Value {
		for _, v := range args {
			if v.Kind != k {
				return Value{}
			}
		}
		return f(args)
	}
}

// Prepare returns the function of the arguments of one call, in a query that was bound now.
func (f Function) Prepare(now time.Time) func(b Budget, args []Value) Value {
	if f.prepare != nil {
		return f.prepare(now)
	}
	return func(_ Budget, args []Value) Value { return f.eval(args) }
}

// Evaluated says whether there is more of the function than its name.
func (f Function) Evaluated() bool { return f.eval != nil || f.prepare != nil }

// Takes says whether a call may have n arguments.
func (f Function) Takes(n int) bool {
	return n >= f.min && (f.max == many || n <= f.max) && (!f.pairs || (n-f.min)%2 == 0)
}

// Arity returns the number of arguments in words.
func (f Function) Arity() string {
	switch {
	case f.pairs:
		return fmt.Sprintf("%d or %d arguments", f.min, f.max)
	case f.max == many:
		return fmt.Sprintf("%d or more arguments", f.min)
	case f.min != f.max:
		return fmt.Sprintf("%d to %d arguments", f.min, f.max)
	case f.min == 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", f.min)
}

// Budget limits the work of an evaluation.
type Budget interface {
	// Spend counts one step, and those of going over so many bytes. It reports whether to go on.
	Spend(bytes int) bool
}

// maxMade is the longest string or array that a function makes, in bytes. The service bounds
// an answer by 4 MB and an item by 2 MB.
const maxMade = 4 << 20

// problem is what an eval returns when the query can't go on: undefined with a
// reason. No value of an expression is one.
func problem(reason string) Value { return Value{Bytes: []byte(reason)} }

// Problem returns the reason of a value that is a problem.
func (v Value) Problem() (reason string, ok bool) {
	if v.Kind != Undefined || v.Bytes == nil {
		return "", false
	}
	return string(v.Bytes), true
}

// tooLong is the problem of a result beyond maxMade.
func tooLong() Value { return problem(fmt.Sprintf("its result takes more than %d bytes", maxMade)) }
