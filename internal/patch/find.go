package patch

import (
	"fmt"
	"strconv"
)

// maxIndex bounds the index of an element by its digits: no document has more elements than bytes.
const maxIndex = 9

// find looks for what a pointer leads to. The error tells that a parent isn't there, or that the last name can be none of it.
func find(doc []byte, p pointer) (target, error) {
	s := scanner{b: doc}
	s.space()
	for depth, name := range p {
		switch s.peek() {
		case '{', '[':
		case 0:
			return target{}, errDocument
		default:
			return target{}, fmt.Errorf("%s is neither an object nor an array", p[:depth])
		}
		t, err := s.child(name)
		if err != nil {
			return t, fmt.Errorf("%s: %w", p[:depth+1], err)
		}
		if depth == len(p)-1 {
			return t, nil
		}
		if !t.found {
			return t, fmt.Errorf("there is no %s", p[:depth+1])
		}
		s.i = t.value
	}
	return target{}, errDocument
}

// child looks for one name in the object or array that begins here.
func (s *scanner) child(name string) (target, error) {
	t := target{object: s.peek() == '{', name: name, open: s.i + 1, index: -1}
	if !t.object {
		var err error
		if t.index, err = parseIndex(name); err != nil {
			return t, err
		}
	}
	n := 0
	err := s.items(func(it item) bool {
		if t.found && t.after == 0 {
			t.after = it.from
		}
		if t.object && named(s.b[it.from:s.nameEnd(it)], name) || !t.object && n == t.index {
			// Of a name that is there twice the last one counts, as for most readers of JSON; a query takes the first.
			t.item, t.found, t.before, t.after = it, true, t.last, 0
		}
		t.last = it.end
		n++
		return true
	})
	if err != nil {
		return t, err
	}
	if !t.object && (t.index < 0 || t.index > n) {
		if t.index > n {
			return t, fmt.Errorf("the array has %d elements", n)
		}
		t.index = n
	}
	return t, nil
}

// nameEnd is where the name of a member ends.
func (s *scanner) nameEnd(it item) int {
	at := scanner{b: s.b, i: it.from}
	if err := at.text(); err != nil {
		return it.from + 2 // can't be: it was passed before
	}
	return at.i
}

// parseIndex reads the index of an element; -1: behind the last one.
func parseIndex(name string) (int, error) {
	if name == "-" {
		return -1, nil
	}
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil || len(name) > maxIndex || len(name) > 1 && name[0] == '0' {
		return 0, fmt.Errorf("the parent is an array, and %.40q is neither an index nor -", name)
	}
	return int(n), nil
}
