package value

import (
	"fmt"
	"maps"
	"time"
)

// class is a category of functions in the service's documentation, such as "Array".
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

// many is the value of Function.max for a function that takes any number of arguments.
const many = -1

// Function describes a built-in function. If it has neither eval nor prepare, the service
// has the function, but this package does not support it. A call of it is refused with an
// error that names it.
type Function struct {
	class    class
	min, max int // number of arguments
	// eval returns the value of a call for one row. It must not keep or change the
	// arguments.
	eval func(args []Value) Value
	// prepare is set instead of eval if a part of the work is done only once for each
	// query. It is called with the time at which the query was bound. It returns the eval
	// function of one call.
	prepare func(now time.Time) func(b Budget, args []Value) Value
	// pairs reports whether arguments beyond min come in pairs.
	pairs bool
	// Volatile reports whether the value depends on more than the arguments, such as the
	// time or a random number.
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

// ofKind returns an eval function that calls f if all arguments have the kind k.
// Otherwise the result is undefined.
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

// Prepare returns the function that evaluates one call in a query. now is the time at
// which the query was bound.
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

// Arity returns the number of arguments in words, for error messages.
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

// Budget limits the work that the evaluation of a document may do.
type Budget interface {
	// Spend records one step of work, plus steps for processing the given number of
	// bytes. It returns false if the evaluation must end.
	Spend(bytes int) bool
}

// maxMade limits the string or array that a function returns, in bytes. The service
// limits an answer to 4 MB and an item to 2 MB.
const maxMade = 4 << 20

// problem returns a special value by which an eval function ends the query with an error.
// The value is undefined with the reason of the error. No expression can have this value.
func problem(reason string) Value { return Value{Bytes: []byte(reason)} }

// Problem returns the reason of the error if v was returned by problem. Otherwise ok is
// false.
func (v Value) Problem() (reason string, ok bool) {
	if v.Kind != Undefined || v.Bytes == nil {
		return "", false
	}
	return string(v.Bytes), true
}

// tooLong returns the problem of a function whose result would be longer than maxMade.
func tooLong() Value { return problem(fmt.Sprintf("its result takes more than %d bytes", maxMade)) }
