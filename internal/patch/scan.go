package patch

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// errDocument tells that a text isn't the JSON it was taken for. What the store gives to patches is.
var errDocument = errors.New("the document is no JSON object")

// item is a member of an object or an element of an array, by its places in the text.
type item struct {
	// from is where it begins: at the member's name, or the element.
	from int
	// value and end are where its value begins and ends.
	value, end int
}

// target is what a pointer leads to, by places in the text.
type target struct {
	item
	found bool
	// object tells that the parent is an object, else it is an array.
	object bool
	// name is the last of the pointer's; index the element's place, which may be the number of elements: behind
	// the last one.
	name  string
	index int
	// open is behind the parent's bracket; last where its last item ends, 0: it is empty.
	open, last int
	// before is where the item in front ends, after where the next one begins; 0: there is none.
	before, after int
}

// scanner goes over a text that is valid JSON. It never leaves the text, whatever it holds.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\n' || s.b[s.i] == '\r') {
		s.i++
	}
}

// peek is the next byte; 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// text passes a string, quotes included.
func (s *scanner) text() error {
	if s.peek() != '"' {
		return errDocument
	}
	for s.i++; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			return nil
		}
	}
	return errDocument
}

// value passes a value of any kind. Nested ones are counted, not descended into.
func (s *scanner) value() error {
	depth := 0
	for {
		s.space()
		switch s.peek() {
		case 0:
			return errDocument
		case '"':
			if err := s.text(); err != nil {
				return err
			}
		case '{', '[':
			depth++
			s.i++
			continue
		case '}', ']':
			depth--
			s.i++
		case ',', ':':
			if depth == 0 {
				return errDocument
			}
			s.i++
			continue
		default:
			s.atom()
		}
		if depth < 0 {
			return errDocument
		}
		if depth == 0 {
			return nil
		}
	}
}

// atom passes a number, true, false or null: everything up to what can't belong to it, and one byte at least.
func (s *scanner) atom() {
	for s.i++; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\n', '\r':
			return
		}
	}
}

// items calls visit for each item of the object or array that begins here, until it says no.
func (s *scanner) items(visit func(item) (more bool)) error {
	object := s.peek() == '{'
	s.i++
	for s.space(); s.peek() != '}' && s.peek() != ']'; s.space() {
		it := item{from: s.i}
		if object {
			if err := s.text(); err != nil {
				return err
			}
			if s.space(); s.peek() != ':' {
				return errDocument
			}
			s.i++
			s.space()
		}
		it.value = s.i
		if err := s.value(); err != nil {
			return err
		}
		it.end = s.i
		if !visit(it) {
			return nil
		}
		s.space()
		if s.peek() == ',' {
			s.i++
		} else if s.peek() != '}' && s.peek() != ']' {
			return errDocument
		}
	}
	return nil
}

// named reports whether a member has a name. name is its text with quotes.
func named(text []byte, name string) bool {
	inner := text[1 : len(text)-1]
	for _, c := range inner {
		if c == '\\' {
			decoded, err := jsontext.AppendUnquote(nil, text)
			return err == nil && string(decoded) == name
		}
	}
	return string(inner) == name
}
