package value

import (
	"bytes"
	"slices"
)

// arrayFunctions holds the array functions. An argument that should be an array and is
// not makes the result undefined.
var arrayFunctions = map[string]Function{
	"ARRAY_AVG":          {class: classArray, min: 1, max: 1, eval: arrayAvg},
	"ARRAY_CONCAT":       {class: classArray, min: 2, max: many, eval: ofKind(Array, arrayConcat)},
	"ARRAY_CONTAINS":     {class: classArray, min: 2, max: 3, eval: arrayContains},
	"ARRAY_CONTAINS_ALL": {class: classArray, min: 2, max: many, eval: func(a []Value) Value { return arrayContainsEach(a, False, True) }},
	"ARRAY_CONTAINS_ANY": {class: classArray, min: 2, max: many, eval: func(a []Value) Value { return arrayContainsEach(a, True, False) }},
	"ARRAY_LENGTH":       {class: classArray, min: 1, max: 1, eval: ofKind(Array, arrayLength)},
	"ARRAY_MAX":          {class: classArray, min: 1, max: 1, eval: func(a []Value) Value { return arrayExtreme(a[0], 1) }},
	"ARRAY_MEDIAN":       {class: classArray, min: 1, max: 1, eval: arrayMedian},
	"ARRAY_MIN":          {class: classArray, min: 1, max: 1, eval: func(a []Value) Value { return arrayExtreme(a[0], -1) }},
	"ARRAY_SLICE":        {class: classArray, min: 2, max: 3, eval: arraySlice},
	"ARRAY_SUM":          {class: classArray, min: 1, max: 1, eval: arraySum},
	"CHOOSE":             {class: classArray, min: 2, max: many, eval: choose},
	"OBJECTTOARRAY":      {class: classArray, min: 1, max: 3, eval: objectToArray},
	"SETDIFFERENCE":      {class: classArray, min: 2, max: 2, eval: ofKind(Array, setDifference)},
	"SETEQUAL":           {class: classArray, min: 2, max: 2, eval: ofKind(Array, setEqual)},
	"SETINTERSECT":       {class: classArray, min: 2, max: 2, eval: ofKind(Array, setIntersect)},
	"SETUNION":           {class: classArray, min: 2, max: 2, eval: ofKind(Array, setUnion)},
}

// arrayBuilder builds the JSON of an array, up to about maxMade bytes.
type arrayBuilder struct{ b []byte }

func (a *arrayBuilder) full() bool { return len(a.b) > maxMade }

// begin writes the bracket or comma before the next element.
func (a *arrayBuilder) begin() {
	if len(a.b) == 0 {
		a.b = append(a.b, '[')
	} else {
		a.b = append(a.b, ',')
	}
}

// add appends a defined value.
func (a *arrayBuilder) add(v Value) {
	a.begin()
	a.b = v.AppendJSON(a.b)
}

// addRaw appends the JSON of one element, or of several with commas between them.
func (a *arrayBuilder) addRaw(raw []byte) {
	a.begin()
	a.b = append(a.b, raw...)
}

func (a *arrayBuilder) value() Value {
	if a.full() {
		return tooLong()
	}
	if len(a.b) == 0 {
		a.b = append(a.b, '[')
	}
	return Value{Kind: Array, Bytes: append(a.b, ']')}
}

// arrayContains searches an array for a value. If the third argument is true, an object
// matches any object that contains its members.
func arrayContains(a []Value) Value {
	partial := false
	if len(a) == 3 {
		switch {
		case a[2].isBool():
			partial = a[2].Kind == True
		case a[2].Kind != Undefined:
			return Value{}
		}
	}
	if a[0].Kind != Array || a[1].Kind == Undefined {
		return Value{}
	}
	return OfBool(hasElement(a[0].Bytes, a[1], partial))
}

func hasElement(array []byte, wanted Value, partial bool) bool {
	is := equalTo(wanted)
	if partial && wanted.Kind == Object {
		is = hasMembers(wanted.Bytes)
	}
	found := false
	EachElement(array, func(_ int, raw []byte) bool {
		found = is(Decode(raw))
		return !found
	})
	return found
}

// equalTo returns a function that reports whether a value equals wanted. It reads wanted
// once, regardless of the number of comparisons.
func equalTo(wanted Value) func(v Value) bool {
	if wanted.Kind != Array && wanted.Kind != Object {
		return func(v Value) bool { return Equal(v, wanted) }
	}
	key := AppendKey(nil, wanted)
	var buf []byte
	return func(v Value) bool {
		if v.Kind != wanted.Kind {
			return false
		}
		buf = AppendKey(buf[:0], v)
		return bytes.Equal(buf, key)
	}
}

// hasMembers returns a function that reports whether a value is an object that contains
// the members of wanted. It reads each object once.
func hasMembers(wanted []byte) func(v Value) bool {
	type member struct {
		equals func(v Value) bool
		seen   int // the last object with this member, counted from 1
	}
	members := map[string]*member{}
	eachMember(wanted, func(name, raw []byte) bool {
		if members[string(name)] == nil { // of members with the same name, the first counts
			members[string(name)] = &member{equals: equalTo(Decode(raw))}
		}
		return true
	})
	objects := 0
	return func(v Value) bool {
		if v.Kind != Object {
			return false
		}
		objects++
		left := len(members)
		if left == 0 {
			return true
		}
		eachMember(v.Bytes, func(name, raw []byte) bool {
			m := members[string(name)]
			if m == nil || m.seen == objects {
				return true
			}
			m.seen = objects
			if !m.equals(Decode(raw)) {
				return false
			}
			left--
			return left > 0
		})
		return left == 0
	}
}

// longArguments is the number of arguments above which ARRAY_CONTAINS_ANY and
// ARRAY_CONTAINS_ALL first build a set of the array's elements. The set makes each search
// faster.
const longArguments = 8

// arrayContainsEach evaluates ARRAY_CONTAINS_ANY or ARRAY_CONTAINS_ALL. It searches the
// array a[0] for each of the other arguments. If one search has the result decides, the
// call has it, too. Otherwise an undefined argument makes the result undefined.
func arrayContainsEach(a []Value, decides, otherwise Kind) Value {
	if a[0].Kind != Array {
		return Value{}
	}
	contains := func(v Value) bool { return hasElement(a[0].Bytes, v, false) }
	if len(a) > longArguments {
		set := setOf(a[0].Bytes)
		contains = func(v Value) bool {
			var short [64]byte
			return set[string(AppendKey(short[:0], v))]
		}
	}
	result := Value{Kind: otherwise}
	for _, wanted := range a[1:] {
		if wanted.Kind == Undefined {
			result = Value{}
		} else if v := OfBool(contains(wanted)); v.Kind == decides {
			return v
		}
	}
	return result
}

func arrayLength(a []Value) Value {
	return OfInt(countElements(a[0].Bytes))
}

func countElements(array []byte) int64 {
	n := int64(0)
	EachElement(array, func(int, []byte) bool {
		n++
		return true
	})
	return n
}

func arrayConcat(a []Value) Value {
	var out arrayBuilder
	for _, v := range a {
		if inner := trimBlanks(v.Bytes[1 : len(v.Bytes)-1]); len(inner) > 0 && !out.full() {
			out.addRaw(inner)
		}
	}
	return out.value()
}

// arraySlice evaluates ARRAY_SLICE. It takes the elements from the index in the second
// argument on, which counts from the end if it is negative. The third argument limits the
// number of elements.
func arraySlice(a []Value) Value {
	start, ok := a[1].Int()
	if a[0].Kind != Array || !ok {
		return Value{}
	}
	left := int64(1) << 62
	if len(a) == 3 {
		if left, ok = a[2].Int(); !ok {
			return Value{}
		}
	}
	if start < 0 {
		start = max(0, start+countElements(a[0].Bytes))
	}
	var out arrayBuilder
	if left <= 0 {
		return out.value()
	}
	EachElement(a[0].Bytes, func(i int, raw []byte) bool {
		if int64(i) < start {
			return true
		}
		out.addRaw(raw)
		left--
		return left > 0
	})
	return out.value()
}

// choose evaluates CHOOSE: the first argument is the number of the argument to return,
// counted from 1.
func choose(a []Value) Value {
	i, ok := a[0].Int()
	if !ok || i < 1 || i >= int64(len(a)) {
		return Value{}
	}
	return a[i]
}

// objectToArray evaluates OBJECTTOARRAY. It returns an array with one object for each
// member, which holds the member's name and value.
func objectToArray(a []Value) Value {
	if a[0].Kind != Object || !areStrings(a[1:]) {
		return Value{}
	}
	names := [2][]byte{[]byte("k"), []byte("v")}
	for i, v := range a[1:] {
		names[i] = v.Bytes
	}
	var out arrayBuilder
	eachMember(a[0].Bytes, func(name, raw []byte) bool {
		out.begin()
		out.b = AppendString(append(out.b, '{'), names[0])
		out.b = AppendString(append(out.b, ':'), name)
		out.b = AppendString(append(out.b, ','), names[1])
		out.b = append(append(out.b, ':'), raw...)
		out.b = append(out.b, '}')
		return !out.full()
	})
	return out.value()
}

// numbers returns the elements of an array of numbers. ok is false if v is not an array,
// or an element is not a number.
func numbers(v Value) (list []Value, ok bool) {
	if ok = v.Kind == Array; !ok {
		return nil, false
	}
	EachElement(v.Bytes, func(_ int, raw []byte) bool {
		e := Decode(raw)
		list = append(list, e)
		ok = e.Kind == Number
		return ok
	})
	return list, ok
}

// totalOf returns the total of numbers.
func totalOf(list []Value) *total {
	t := &total{}
	for _, n := range list {
		t.add(n)
	}
	return t
}

func arraySum(a []Value) Value {
	list, ok := numbers(a[0])
	if !ok {
		return Value{}
	}
	return finite(totalOf(list).value())
}

func arrayAvg(a []Value) Value {
	list, ok := numbers(a[0])
	if !ok || len(list) == 0 {
		return Value{}
	}
	return finite(totalOf(list).mean(int64(len(list))))
}

func arrayMedian(a []Value) Value {
	list, ok := numbers(a[0])
	if !ok || len(list) == 0 {
		return Value{}
	}
	slices.SortFunc(list, typeOrder)
	middle := len(list) / 2
	if len(list)%2 == 1 {
		return list[middle]
	}
	return finite(totalOf(list[middle-1 : middle+1]).mean(2))
}

// arrayExtreme returns the smallest element of an array, or the largest if direction is
// positive. Elements are ordered by type: null < booleans < numbers < strings. The result
// is undefined if an element is an array or object.
func arrayExtreme(v Value, direction int) Value {
	if v.Kind != Array {
		return Value{}
	}
	var best Value
	EachElement(v.Bytes, func(_ int, raw []byte) bool {
		e := Decode(raw)
		if e.Kind == Array || e.Kind == Object {
			best = Value{}
			return false
		}
		if best.Kind == Undefined || typeOrder(e, best)*direction > 0 {
			best = e
		}
		return true
	})
	return best
}
