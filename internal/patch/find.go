package patch

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// maxIndex is the largest number of digits in an element's index. No document is large
// enough for a longer index.
const maxIndex = 9

// errDocument reports that a document is not a JSON object. Every document of the store
// is one.
var errDocument = errors.New("the document is not a JSON object")

// target is the location that a pointer leads to, as offsets in the text.
type target struct {
	found bool
	// object reports whether the parent is an object. If not, it is an array.
	object bool
	// name is the last name of the pointer.
	name string
	// from is the offset of the member's name, or of the element. value and end are the
	// bounds of its value.
	from, value, end int
	// open is the offset after the parent's bracket. last is the end of its last item, or
	// 0 if it is empty.
	open, last int
	// before is the end of the item before the target, and after the start of the next
	// item. 0 means that there is no such item.
	before, after int
}

// find returns the target of a pointer. It returns an error if the parent does not exist,
// or if the parent is an array and the last name is not an index of it.
func find(doc []byte, p pointer) (target, error) {
	s := jsonscan.New(doc, math.MaxInt32)
	s.Space()
	for depth, name := range p {
		switch s.Peek() {
		case '{', '[':
		case 0:
			return target{}, errDocument
		default:
			return target{}, fmt.Errorf("%s is neither an object nor an array", p[:depth])
		}
		t, err := child(s, name)
		if err != nil {
			return t, fmt.Errorf("%s: %w", p[:depth+1], err)
		}
		if depth == len(p)-1 {
			return t, nil
		}
		if !t.found {
			return t, fmt.Errorf("there is no %s", p[:depth+1])
		}
		s.Back(t.value)
	}
	return target{}, errDocument
}

// child returns the target of one name in the object or array that is next.
func child(s *jsonscan.Scanner, name string) (t target, err error) {
	t = target{object: s.Peek() == '{', name: name, open: s.Offset() + 1}
	open, closing, index := s.Object, byte('}'), -1
	if !t.object {
		open, closing = s.Array, ']'
		if index, err = parseIndex(name); err != nil {
			return t, err
		}
	}
	n := 0
	more, err := open(1)
	for ; more && err == nil; more, err = s.Next(closing) {
		from, matches := s.Offset(), n == index
		if t.object {
			text, err := s.Name()
			if err != nil {
				return t, err
			}
			matches = text.Is(name)
		}
		value := s.Offset()
		if err := s.Value(1); err != nil {
			return t, err
		}
		if t.found && t.after == 0 {
			t.after = from
		}
		if matches {
			// The last member of a name counts, as for most readers of JSON. A query
			// takes the first.
			t.from, t.value, t.end = from, value, s.Offset()
			t.found, t.before, t.after = true, t.last, 0
		}
		t.last = s.Offset()
		n++
	}
	if err == nil && index > n {
		err = fmt.Errorf("the array has %d elements", n)
	}
	return t, err
}

// parseIndex returns the index of an element. "-", the index after the last one, is -1.
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
