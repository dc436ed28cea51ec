package query

// Sets are arrays without order and without two equal elements. The functions
// keep the first of equal ones.

// setOf are the keys of an array's elements.
func setOf(array []byte) map[string]bool {
	set := map[string]bool{}
	var key []byte
	eachElement(array, func(_ int, raw []byte) bool {
		key = appendKey(key[:0], decode(raw))
		set[string(key)] = true
		return true
	})
	return set
}

// addWhere appends the elements of an array for whose keys take is true. take may
// not keep a key.
func (a *arrayBuilder) addWhere(array []byte, take func(key []byte) bool) {
	var key []byte
	eachElement(array, func(_ int, raw []byte) bool {
		if key = appendKey(key[:0], decode(raw)); take(key) {
			a.addRaw(raw)
		}
		return !a.full()
	})
}

// added says whether a key wasn't in a set, which has it now.
func added(set map[string]bool, key []byte) bool {
	if set[string(key)] {
		return false
	}
	set[string(key)] = true
	return true
}

func setUnion(a []value) value {
	if !areArrays(a) {
		return value{}
	}
	var out arrayBuilder
	seen := map[string]bool{}
	for _, v := range a {
		out.addWhere(v.b, func(key []byte) bool { return added(seen, key) })
	}
	return out.value()
}

// setIntersect is in the order of the second array, which is the service's.
func setIntersect(a []value) value {
	if !areArrays(a) {
		return value{}
	}
	var out arrayBuilder
	first := setOf(a[0].b)
	out.addWhere(a[1].b, func(key []byte) bool {
		found := first[string(key)]
		delete(first, string(key))
		return found
	})
	return out.value()
}

func setDifference(a []value) value {
	if !areArrays(a) {
		return value{}
	}
	var out arrayBuilder
	seen := setOf(a[1].b)
	out.addWhere(a[0].b, func(key []byte) bool { return added(seen, key) })
	return out.value()
}

func setEqual(a []value) value {
	if !areArrays(a) {
		return value{}
	}
	first, second := setOf(a[0].b), setOf(a[1].b)
	if len(first) != len(second) {
		return boolOf(false)
	}
	for key := range first {
		if !second[key] {
			return boolOf(false)
		}
	}
	return boolOf(true)
}
