package query

import (
	"bytes"
)

// aggregateKind is an aggregate function over all rows of a group.
type aggregateKind uint8

// The aggregates of the service. Those from countIf on are not evaluated.
const (
	aggregateNone aggregateKind = iota
	aggregateCount
	aggregateSum
	aggregateMin
	aggregateMax
	aggregateAvg
	aggregateCountIf
	aggregateMakeList
	aggregateMakeSet
)

// aggregateKinds are the aggregates by their names in upper case.
var aggregateKinds = map[string]aggregateKind{
	"COUNT": aggregateCount, "SUM": aggregateSum, "MIN": aggregateMin, "MAX": aggregateMax, "AVG": aggregateAvg,
	"COUNTIF": aggregateCountIf, "MAKELIST": aggregateMakeList, "MAKESET": aggregateMakeSet,
}

// evaluated reports whether the aggregate is evaluated here.
func (k aggregateKind) evaluated() bool { return k < aggregateCountIf }

// String returns the aggregate's name in a query plan.
func (k aggregateKind) String() string {
	return [...]string{"", "Count", "Sum", "Min", "Max", "Average", "CountIf", "MakeList", "MakeSet"}[k]
}

// accumulator is an aggregate over the values that it was shown. The zero value
// with a kind is ready.
//
// Undefined values are ignored by all. COUNT counts the others, null included.
// SUM of none is 0, AVG, MIN and MAX of none are undefined. SUM and AVG of
// anything that is no number are undefined, and so are MIN and MAX of an array
// or object; among other values MIN and MAX go by the order of types, null <
// false < true < numbers < strings.
type accumulator struct {
	kind    aggregateKind
	invalid bool // a value makes the result undefined, whatever else comes
	n       int64
	sum     float64
	best    value
}

// add shows the accumulator the value of one row. It keeps no memory of v's.
func (a *accumulator) add(v value) {
	if v.kind == kindUndefined {
		return
	}
	a.n++
	if a.invalid {
		return
	}
	switch a.kind {
	case aggregateSum, aggregateAvg:
		if a.invalid = v.kind != kindNumber; !a.invalid {
			a.sum += v.num
		}
	case aggregateMin, aggregateMax:
		if v.kind == kindArray || v.kind == kindObject {
			a.invalid, a.best = true, value{}
			return
		}
		if a.n > 1 && (typeOrder(v, a.best) < 0) != (a.kind == aggregateMin) {
			return
		}
		v.b = bytes.Clone(v.b)
		a.best = v
	default:
	}
}

// size returns the bytes that the accumulator holds.
func (a *accumulator) size() int { return len(a.best.b) }

// value is the aggregate of what was added so far.
func (a *accumulator) value() value {
	switch {
	case a.kind == aggregateCount:
		return numberOf(float64(a.n))
	case a.invalid:
		return value{}
	case a.kind == aggregateSum:
		return finite(a.sum)
	case a.kind == aggregateAvg && a.n > 0:
		return finite(a.sum / float64(a.n))
	case a.kind == aggregateMin || a.kind == aggregateMax:
		return a.best
	}
	return value{}
}

// typeOrder compares two values as ORDER BY does, first by type. It doesn't look
// into arrays and objects.
func typeOrder(a, b value) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	c, _ := compare(a, b)
	return c
}
