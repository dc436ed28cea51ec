package value

import "maps"

// A set is an array without order and without equal elements. The functions keep the
// first of equal elements.

// setOf returns the set of the keys of an array's elements.
func setOf(array []byte) map[string]bool {
	set := map[string]bool{}
	var key []byte
	EachElement(array, func(_ int, raw []byte) bool {
		key = AppendKey(key[:0], Decode(raw))
		set[string(key)] = true
		return true
	})
	return set
}

// addWhere appends the elements of array for which take returns true. The argument of
// take is the element's key, which take must not keep.
func (a *arrayBuilder) addWhere(array []byte, take func(key []byte) bool) {
	var key []byte
	EachElement(array, func(_ int, raw []byte) bool {
		if key = AppendKey(key[:0], Decode(raw)); take(key) {
			a.addRaw(raw)
		}
		return !a.full()
	})
}

// added adds a key to a set, and reports whether the set did not contain it before.
func added(set map[string]bool, key []byte) bool {
	if set[string(key)] {
		return false
	}
	set[string(key)] = true
	return true
}

func setUnion(a []Value) Value {
	var out arrayBuilder
	seen := map[string]bool{}
	for _, v := range a {
		out.addWhere(v.Bytes, func(key []byte) bool { return added(seen, key) })
	}
	return out.value()
}

// setIntersect evaluates SETINTERSECT. The result has the order of the second array, as
// in the service.
func setIntersect(a []Value) Value {
	var out arrayBuilder
	first := setOf(a[0].Bytes)
	out.addWhere(a[1].Bytes, func(key []byte) bool {
		found := first[string(key)]
		delete(first, string(key))
		return found
	})
	return out.value()
}

func setDifference(a []Value) Value {
	var out arrayBuilder
	seen := setOf(a[1].Bytes)
	out.addWhere(a[0].Bytes, func(key []byte) bool { return added(seen, key) })
	return out.value()
}

func setEqual(a []Value) Value {
	return OfBool(maps.Equal(setOf(a[0].Bytes), setOf(a[1].Bytes)))
}
