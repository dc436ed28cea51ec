package jsonscan

import "fmt"

// SyntaxError tells where a text is no JSON, and why.
type SyntaxError struct {
	// Offset is the byte at which it is wrong; the text's length if it ends too early.
	Offset int
	// Truncated tells that the text ends in the middle.
	Truncated bool
	// What is wrong, or was expected.
	What string
}

func (e *SyntaxError) Error() string {
	if e.Truncated {
		return fmt.Sprintf("the JSON text ends in the middle, at byte %d: %s", e.Offset, e.What)
	}
	return fmt.Sprintf("%s at byte %d of the JSON text", e.What, e.Offset)
}

// Scanner is a place in a text.
type Scanner struct {
	b []byte
	i int // the next byte
	// limit is how deep objects and arrays may be nested.
	limit int
}

// New returns a scanner at the beginning of b, which it reads and never writes. Objects and arrays may be nested up to maxDepth.
func New(b []byte, maxDepth int) *Scanner { return &Scanner{b: b, limit: maxDepth} }

// Offset is the place of the next byte.
func (s *Scanner) Offset() int { return s.i }

// Back goes back to an offset, to read what is there once more.
func (s *Scanner) Back(offset int) { s.i = offset }

// Slice is the text from an offset up to the place, with no room behind it.
func (s *Scanner) Slice(from int) []byte { return s.b[from:s.i:s.i] }

// Fail makes an error of the place.
func (s *Scanner) Fail(what string) error {
	return &SyntaxError{Offset: s.i, Truncated: s.i >= len(s.b), What: what}
}

// Space skips white space.
func (s *Scanner) Space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// End passes white space, and fails if anything follows it.
func (s *Scanner) End() error {
	s.Space()
	if s.i < len(s.b) {
		return s.Fail("something follows the value")
	}
	return nil
}

// Peek returns the next byte, and 0 at the end: a byte that may stand nowhere outside a string.
func (s *Scanner) Peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// Value skips one value of any type. depth is the nesting that an object or array has at this place, 1 for the outermost.
func (s *Scanner) Value(depth int) error {
	if end := skip(s.b, s.i, s.limit-depth+1, nil); end >= 0 {
		s.i = end
		return nil
	}
	return s.value(depth)
}

// Members is Value for an object, and finds members of it: at[k] becomes the offset of the value of the last one that is called names[k], written without
// escapes, or -1. All names begin with the same byte.
func (s *Scanner) Members(depth int, names []string, at []int) error {
	if s.Peek() != '{' {
		return s.Fail("{ is expected")
	}
	f := finding{names: names, first: names[0][0], at: at}
	for k, name := range names {
		at[k] = -1
		f.longest = max(f.longest, len(name))
	}
	end := skip(s.b, s.i, s.limit-depth+1, &f)
	if end < 0 {
		return s.members(depth, names, at)
	}
	for k, i := range at {
		if i >= 0 { // behind the name
			at[k] = skipSpace(s.b, skipSpace(s.b, i)+1)
		}
	}
	s.i = end
	return nil
}

// members is Members, byte by byte.
func (s *Scanner) members(depth int, names []string, at []int) error {
	for more, err := s.Object(depth); more || err != nil; more, err = s.Next('}') {
		if err != nil {
			return err
		}
		name, err := s.Name()
		if err != nil {
			return err
		}
		for k := range names {
			if !name.escaped && string(name.raw) == names[k] {
				at[k] = s.i
			}
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// value is Value, byte by byte: it knows what is wrong, and where.
func (s *Scanner) value(depth int) error {
	switch c := s.Peek(); c {
	case '"':
		_, err := s.Text()
		return err
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || IsDigit(c) {
			return s.number()
		}
		return s.Fail("a value is expected")
	}
}

func (s *Scanner) object(depth int) error {
	for more, err := s.Object(depth); more || err != nil; more, err = s.Next('}') {
		if err != nil {
			return err
		}
		if _, err := s.Name(); err != nil {
			return err
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scanner) array(depth int) error {
	for more, err := s.Array(depth); more || err != nil; more, err = s.Next(']') {
		if err != nil {
			return err
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// Object passes the bracket that opens an object, and reports whether a member follows; if none does, it has passed the closing
// bracket too.
func (s *Scanner) Object(depth int) (more bool, err error) { return s.open('{', '}', depth) }

// Array is Object for arrays.
func (s *Scanner) Array(depth int) (more bool, err error) { return s.open('[', ']', depth) }

func (s *Scanner) open(opening, closing byte, depth int) (more bool, err error) {
	if s.Peek() != opening {
		return false, s.Fail(string(opening) + " is expected")
	}
	if depth > s.limit {
		return false, s.Fail(fmt.Sprintf("nested deeper than %d levels", s.limit))
	}
	s.i++
	s.Space()
	if s.Peek() == closing {
		s.i++
		return false, nil
	}
	return true, nil
}

// Next passes the comma behind an element and reports true, or passes the closing bracket.
func (s *Scanner) Next(closing byte) (more bool, err error) {
	s.Space()
	switch s.Peek() {
	case ',':
		s.i++
		s.Space()
		return true, nil
	case closing:
		s.i++
		return false, nil
	}
	return false, s.Fail("a comma or a closing bracket is expected")
}

// Name passes a member's name and colon, and stops at its value.
func (s *Scanner) Name() (Text, error) {
	if s.Peek() != '"' {
		return Text{}, s.Fail("a member's name is expected")
	}
	n, err := s.Text()
	if err != nil {
		return Text{}, err
	}
	s.Space()
	if s.Peek() != ':' {
		return Text{}, s.Fail("a colon is expected")
	}
	s.i++
	s.Space()
	return n, nil
}

func (s *Scanner) literal(word string) error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return s.Fail("a value is expected")
	}
	s.i += len(word)
	return nil
}

// Int passes a number that has to be a whole one, without fraction and exponent, and returns it.
func (s *Scanner) Int() (int64, error) {
	from := s.i
	if err := s.number(); err != nil {
		return 0, err
	}
	text := s.b[from:s.i]
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	var n int64
	for _, c := range text {
		if !IsDigit(c) || n > (1<<63-1-9)/10 {
			s.i = from
			return 0, s.Fail("a whole number of 64 bits is expected")
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, nil
}

// IsDigit reports whether a byte is a decimal digit.
func IsDigit(c byte) bool { return c-'0' <= 9 }

func (s *Scanner) digits() error {
	if !IsDigit(s.Peek()) {
		return s.Fail("a digit is expected")
	}
	for IsDigit(s.Peek()) {
		s.i++
	}
	return nil
}

func (s *Scanner) number() error {
	if s.Peek() == '-' {
		s.i++
	}
	if s.Peek() == '0' {
		s.i++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.Peek() == '.' {
		s.i++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if c := s.Peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.Peek(); c == '+' || c == '-' {
			s.i++
		}
		return s.digits()
	}
	return nil
}
