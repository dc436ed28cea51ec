package value

import (
	"fmt"
	"maps"
	"time"
)

// class is a group of functions in the service's documentation.
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

// many is the maximum number of arguments of a function that takes any number.
const many = -1

// Function is a built-in function of the values of its arguments. A function with neither
// eval nor prepare exists in the service but is not supported here. The error for it
// names it, unlike that for a misspelled name.
type Function struct {
	class    class
	min, max int // number of arguments
	// eval returns the value for one row. It must not keep or change the arguments.
	eval func(args []Value) Value
	// prepare replaces eval if work can be done once per query. It returns the eval of
	// one call.
	prepare func(now time.Time) func(b Budget, args []Value) Value
	// pairs reports whether arguments beyond min come in pairs.
	pairs bool
	// Volatile reports whether the value depends on more than the arguments.
	Volatile bool
}

// Functions maps names in upper case to the built-in functions. The table in
// docs/queries.md is generated from it.
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

// refusedFunctions holds the functions that need an index, which the store does not have.
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

// ofKind returns a function that is undefined unless all of its arguments have kind k.
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

// Prepare returns the function for one call in a query that was bound at now.
func (f Function) Prepare(now time.Time) func(b Budget, args []Value) Value {
	if f.prepare != nil {
		return f.prepare(now)
	}
	return func(_ Budget, args []Value) Value { return f.eval(args) }
}

// Evaluated reports whether the function is supported.
func (f Function) Evaluated() bool { return f.eval != nil || f.prepare != nil }

// Takes reports whether a call may have n arguments.
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
	// Spend counts one step, plus the steps of processing that many bytes. It reports
	// whether to continue.
	Spend(bytes int) bool
}

// maxMade is the longest string or array that a function returns, in bytes. The service
// limits an answer to 4 MB and an item to 2 MB.
const maxMade = 4 << 20

// problem returns the result of an eval that ends the query with an error: undefined with
// a reason. Expressions never have this value.
func problem(reason string) Value { return Value{Bytes: []byte(reason)} }

// Problem returns the reason of a value from problem. For other values, ok is false.
func (v Value) Problem() (reason string, ok bool) {
	if v.Kind != Undefined || v.Bytes == nil {
		return "", false
	}
	return string(v.Bytes), true
}

// tooLong returns the problem of a result that is longer than maxMade.
func tooLong() Value { return problem(fmt.Sprintf("its result takes more than %d bytes", maxMade)) }
