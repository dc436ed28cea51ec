package value

import (
	"bytes"
)

// Aggregate is an aggregate function over all rows of a group.
type Aggregate uint8

// The aggregates of the service. Those from countIf on are not evaluated.
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

// Aggregates are the aggregates by their names in upper case.
var Aggregates = map[string]Aggregate{
	"COUNT": Count, "SUM": Sum, "MIN": Min, "MAX": Max, "AVG": Avg,
	"COUNTIF": CountIf, "MAKELIST": MakeList, "MAKESET": MakeSet,
}

// Evaluated reports whether the aggregate is evaluated here.
func (k Aggregate) Evaluated() bool { return k < CountIf }

// String returns the aggregate's name in a query plan.
func (k Aggregate) String() string {
	return [...]string{"", "Count", "Sum", "Min", "Max", "Average", "CountIf", "MakeList", "MakeSet"}[k]
}

// Accumulator is an aggregate over the values that it was shown. The zero value
// with a kind is ready.
//
// Undefined values are ignored by all. COUNT counts the others, null included.
// SUM of none is 0, AVG, MIN and MAX of none are undefined. SUM and AVG of
// anything that is no number are undefined, and so are MIN and MAX of an array
// or object; among other values MIN and MAX go by the order of types, null <
// false < true < numbers < strings.
type Accumulator struct {
	Kind    Aggregate
	invalid bool // a value makes the result undefined, whatever else comes
	n       int64
	sum     float64
	best    Value
}

// Add shows the accumulator the value of one row. It keeps no memory of v's.
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
			a.sum += v.Number
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

// Size returns the bytes that the accumulator holds.
func (a *Accumulator) Size() int { return len(a.best.Bytes) }

// Result is the aggregate of what was added so far.
func (a *Accumulator) Result() Value {
	switch {
	case a.Kind == Count:
		return OfNumber(float64(a.n))
	case a.invalid:
		return Value{}
	case a.Kind == Sum:
		return Finite(a.sum)
	case a.Kind == Avg && a.n > 0:
		return Finite(a.sum / float64(a.n))
	case a.Kind == Min || a.Kind == Max:
		return a.best
	}
	return Value{}
}

// typeOrder compares two values as ORDER BY does, first by type. It doesn't look
// into arrays and objects.
func typeOrder(a, b Value) int {
	if a.Kind != b.Kind {
		return int(a.Kind) - int(b.Kind)
	}
	c, _ := Compare(a, b)
	return c
}
