package value

import (
	"bytes"
)

// Aggregate is an aggregate function over the rows of a group.
type Aggregate uint8

// The aggregates of the service. CountIf and those after it are not evaluated.
const (
	NoAggregate Aggregate = iota
	Count
	Sum
	Min
	Max
	Avg
	CountIf
	MakeList
	MakeSet
)

// Aggregates maps names in upper case to aggregates.
var Aggregates = map[string]Aggregate{
	"COUNT": Count, "SUM": Sum, "MIN": Min, "MAX": Max, "AVG": Avg,
	"COUNTIF": CountIf, "MAKELIST": MakeList, "MAKESET": MakeSet,
}

// Evaluated reports whether the aggregate is supported.
func (k Aggregate) Evaluated() bool { return k < CountIf }

// String returns the aggregate's name in a query plan.
func (k Aggregate) String() string {
	return [...]string{"", "Count", "Sum", "Min", "Max", "Average", "CountIf", "MakeList", "MakeSet"}[k]
}

// Accumulator computes an aggregate of the values that are added to it. A zero value with
// a Kind is ready to use.
//
// All aggregates ignore undefined values. COUNT counts all others, including null.
// Without values, SUM is 0, and AVG, MIN and MAX are undefined. SUM and AVG are undefined
// if a value is not a number. MIN and MAX are undefined if a value is an array or object.
// They order other values by type: null < false < true < numbers < strings.
type Accumulator struct {
	Kind    Aggregate
	invalid bool // a value makes the result undefined, regardless of later ones
	n       int64
	total   total
	best    Value
}

// Add adds the value of one row. It does not keep the memory of v.
func (a *Accumulator) Add(v Value) {
	if v.Kind == Undefined {
		return
	}
	a.n++
	if a.invalid {
		return
	}
	switch a.Kind {
	case Sum, Avg:
		if a.invalid = v.Kind != Number; !a.invalid {
			a.total.add(v)
		}
	case Min, Max:
		if v.Kind == Array || v.Kind == Object {
			a.invalid, a.best = true, Value{}
			return
		}
		if a.n > 1 && (typeOrder(v, a.best) < 0) != (a.Kind == Min) {
			return
		}
		v.Bytes = bytes.Clone(v.Bytes)
		a.best = v
	default:
	}
}

// Size returns the number of bytes that the accumulator holds.
func (a *Accumulator) Size() int { return len(a.best.Bytes) }

// Result returns the aggregate of the values added so far.
func (a *Accumulator) Result() Value {
	switch {
	case a.Kind == Count:
		return OfInt(a.n)
	case a.invalid:
		return Value{}
	case a.Kind == Sum:
		return a.total.value()
	case a.Kind == Avg && a.n > 0:
		return a.total.mean(a.n)
	case a.Kind == Min || a.Kind == Max:
		return a.best
	}
	return Value{}
}

// typeOrder compares two values as ORDER BY does, first by type. It does not compare the
// contents of arrays and objects.
func typeOrder(a, b Value) int {
	if a.Kind != b.Kind {
		return int(a.Kind) - int(b.Kind)
	}
	c, _ := Compare(a, b)
	return c
}
