package query

import (
	"bytes"
	"slices"
)

// arrayFunctions are the functions of arrays. What isn't an array makes the
// result undefined.
var arrayFunctions = map[string]function{
	"ARRAY_AVG":          {class: classArray, min: 1, max: 1, eval: arrayAvg},
	"ARRAY_CONCAT":       {class: classArray, min: 2, max: many, eval: arrayConcat},
	"ARRAY_CONTAINS":     {class: classArray, min: 2, max: 3, eval: arrayContains},
	"ARRAY_CONTAINS_ALL": {class: classArray, min: 2, max: many, eval: func(a []value) value { return arrayContainsEach(a, kindFalse, kindTrue) }},
	"ARRAY_CONTAINS_ANY": {class: classArray, min: 2, max: many, eval: func(a []value) value { return arrayContainsEach(a, kindTrue, kindFalse) }},
	"ARRAY_LENGTH":       {class: classArray, min: 1, max: 1, eval: arrayLength},
	"ARRAY_MAX":          {class: classArray, min: 1, max: 1, eval: func(a []value) value { return arrayExtreme(a[0], 1) }},
	"ARRAY_MEDIAN":       {class: classArray, min: 1, max: 1, eval: arrayMedian},
	"ARRAY_MIN":          {class: classArray, min: 1, max: 1, eval: func(a []value) value { return arrayExtreme(a[0], -1) }},
	"ARRAY_SLICE":        {class: classArray, min: 2, max: 3, eval: arraySlice},
	"ARRAY_SUM":          {class: classArray, min: 1, max: 1, eval: arraySum},
	"CHOOSE":             {class: classArray, min: 2, max: many, eval: choose},
	"OBJECTTOARRAY":      {class: classArray, min: 1, max: 3, eval: objectToArray},
	"SETDIFFERENCE":      {class: classArray, min: 2, max: 2, eval: setDifference},
	"SETEQUAL":           {class: classArray, min: 2, max: 2, eval: setEqual},
	"SETINTERSECT":       {class: classArray, min: 2, max: 2, eval: setIntersect},
	"SETUNION":           {class: classArray, min: 2, max: 2, eval: setUnion},
}

// arrayBuilder writes an array. It stops at maxMade.
type arrayBuilder struct{ b []byte }

func (a *arrayBuilder) full() bool { return len(a.b) > maxMade }

// begin makes place for an element.
func (a *arrayBuilder) begin() {
	if len(a.b) == 0 {
		a.b = append(a.b, '[')
	} else {
		a.b = append(a.b, ',')
	}
}

// add appends a defined value.
func (a *arrayBuilder) add(v value) {
	a.begin()
	a.b = v.appendJSON(a.b)
}

// addRaw appends the JSON of one or more elements.
func (a *arrayBuilder) addRaw(raw []byte) {
	a.begin()
	a.b = append(a.b, raw...)
}

func (a *arrayBuilder) value() value {
	if a.full() {
		return tooLong()
	}
	if len(a.b) == 0 {
		a.b = append(a.b, '[')
	}
	return value{kind: kindArray, b: append(a.b, ']')}
}

func areArrays(a []value) bool {
	for _, v := range a {
		if v.kind != kindArray {
			return false
		}
	}
	return true
}

// arrayContains looks for a value in an array. With a third argument of true an
// object is found in one that has its members and maybe others.
func arrayContains(a []value) value {
	partial := false
	if len(a) == 3 {
		switch {
		case a[2].isBool():
			partial = a[2].kind == kindTrue
		case a[2].kind != kindUndefined:
			return value{}
		}
	}
	if a[0].kind != kindArray || a[1].kind == kindUndefined {
		return value{}
	}
	return boolOf(hasElement(a[0].b, a[1], partial))
}

func hasElement(array []byte, wanted value, partial bool) bool {
	is := equalTo(wanted)
	if partial && wanted.kind == kindObject {
		is = hasMembers(wanted.b)
	}
	found := false
	eachElement(array, func(_ int, raw []byte) bool {
		found = is(decode(raw))
		return !found
	})
	return found
}

// equalTo says of values whether they equal one. What is looked for is read once, however many it is
// compared with.
func equalTo(wanted value) func(v value) bool {
	if wanted.kind != kindArray && wanted.kind != kindObject {
		return func(v value) bool { return equal(v, wanted) }
	}
	key := appendKey(nil, wanted)
	var buf []byte
	return func(v value) bool {
		if v.kind != wanted.kind {
			return false
		}
		buf = appendKey(buf[:0], v)
		return bytes.Equal(buf, key)
	}
}

// hasMembers says of values whether they are objects that have the members of one,
// and maybe others. It reads each once.
func hasMembers(wanted []byte) func(v value) bool {
	type member struct {
		equals func(v value) bool
		seen   int // the object in which it was last met, counted from 1
	}
	members := map[string]*member{}
	eachMember(wanted, func(name, raw []byte) bool {
		if members[string(name)] == nil { // of two with one name the first
			members[string(name)] = &member{equals: equalTo(decode(raw))}
		}
		return true
	})
	objects := 0
	return func(v value) bool {
		if v.kind != kindObject {
			return false
		}
		objects++
		left := len(members)
		if left == 0 {
			return true
		}
		eachMember(v.b, func(name, raw []byte) bool {
			m := members[string(name)]
			if m == nil || m.seen == objects {
				return true
			}
			m.seen = objects
			if !m.equals(decode(raw)) {
				return false
			}
			left--
			return left > 0
		})
		return left == 0
	}
}

// longArguments is from how many arguments on a set of the elements is made.
const longArguments = 8

// arrayContainsEach is ARRAY_CONTAINS of each further argument, joined by AND or
// OR: one that decides does, else an undefined one makes the result undefined.
func arrayContainsEach(a []value, decides, otherwise kind) value {
	if a[0].kind != kindArray {
		return value{}
	}
	contains := func(v value) bool { return hasElement(a[0].b, v, false) }
	if len(a) > longArguments {
		set := setOf(a[0].b)
		contains = func(v value) bool {
			var short [64]byte
			return set[string(appendKey(short[:0], v))]
		}
	}
	result := value{kind: otherwise}
	for _, wanted := range a[1:] {
		if wanted.kind == kindUndefined {
			result = value{}
		} else if v := boolOf(contains(wanted)); v.kind == decides {
			return v
		}
	}
	return result
}

func arrayLength(a []value) value {
	if !areArrays(a) {
		return value{}
	}
	return numberOf(float64(countElements(a[0].b)))
}

func countElements(array []byte) int64 {
	n := int64(0)
	eachElement(array, func(int, []byte) bool {
		n++
		return true
	})
	return n
}

func arrayConcat(a []value) value {
	if !areArrays(a) {
		return value{}
	}
	var out arrayBuilder
	for _, v := range a {
		if inner := trimBlanks(v.b[1 : len(v.b)-1]); len(inner) > 0 && !out.full() {
			out.addRaw(inner)
		}
	}
	return out.value()
}

// arraySlice begins at a place, or at one counted from the end when it is
// negative, and takes the rest or as many as the third argument says.
func arraySlice(a []value) value {
	start, ok := integer(a[1])
	if a[0].kind != kindArray || !ok {
		return value{}
	}
	left := int64(1) << 62
	if len(a) == 3 {
		if left, ok = integer(a[2]); !ok {
			return value{}
		}
	}
	if start < 0 {
		start = max(0, start+countElements(a[0].b))
	}
	var out arrayBuilder
	if left <= 0 {
		return out.value()
	}
	eachElement(a[0].b, func(i int, raw []byte) bool {
		if int64(i) < start {
			return true
		}
		out.addRaw(raw)
		left--
		return left > 0
	})
	return out.value()
}

// choose counts from 1.
func choose(a []value) value {
	i, ok := integer(a[0])
	if !ok || i < 1 || i >= int64(len(a)) {
		return value{}
	}
	return a[i]
}

// objectToArray makes an object of each member, with its name and its value.
func objectToArray(a []value) value {
	if a[0].kind != kindObject || !areStrings(a[1:]) {
		return value{}
	}
	names := [2][]byte{[]byte("k"), []byte("v")}
	for i, v := range a[1:] {
		names[i] = v.b
	}
	var out arrayBuilder
	eachMember(a[0].b, func(name, raw []byte) bool {
		out.begin()
		out.b = appendString(append(out.b, '{'), names[0])
		out.b = appendString(append(out.b, ':'), name)
		out.b = appendString(append(out.b, ','), names[1])
		out.b = append(append(out.b, ':'), raw...)
		out.b = append(out.b, '}')
		return !out.full()
	})
	return out.value()
}

// numbers are an array's; ok is false when anything else is in it.
func numbers(v value) (list []float64, ok bool) {
	if ok = v.kind == kindArray; !ok {
		return nil, false
	}
	eachElement(v.b, func(_ int, raw []byte) bool {
		e := decode(raw)
		list = append(list, e.num)
		ok = e.kind == kindNumber
		return ok
	})
	return list, ok
}

func arraySum(a []value) value {
	list, ok := numbers(a[0])
	if !ok {
		return value{}
	}
	sum := 0.0
	for _, n := range list {
		sum += n
	}
	return finite(sum)
}

func arrayAvg(a []value) value {
	list, ok := numbers(a[0])
	if !ok || len(list) == 0 {
		return value{}
	}
	return finite(arraySum(a).num / float64(len(list)))
}

func arrayMedian(a []value) value {
	list, ok := numbers(a[0])
	if !ok || len(list) == 0 {
		return value{}
	}
	slices.Sort(list)
	middle := len(list) / 2
	if len(list)%2 == 1 {
		return numberOf(list[middle])
	}
	return finite((list[middle-1] + list[middle]) / 2)
}

// arrayExtreme is the first of an array's values in the order of types, null <
// booleans < numbers < strings, or the last when direction is positive. An array
// or object in it makes it undefined.
func arrayExtreme(v value, direction int) value {
	if v.kind != kindArray {
		return value{}
	}
	var best value
	eachElement(v.b, func(_ int, raw []byte) bool {
		e := decode(raw)
		if e.kind == kindArray || e.kind == kindObject {
			best = value{}
			return false
		}
		c, ok := compare(e, best)
		if !ok {
			c = int(e.kind) - int(best.kind)
		}
		if best.kind == kindUndefined || c*direction > 0 {
			best = e
		}
		return true
	})
	return best
}
