package jsonscan

import (
	"fmt"
	"strconv"
)

// SyntaxError reports invalid JSON.
type SyntaxError struct {
	// Offset is the offset of the first wrong byte.
	Offset int
	// Truncated reports whether the text ends too early.
	Truncated bool
	// Problem describes the mistake.
	Problem string
}

func (e *SyntaxError) Error() string {
	if e.Truncated {
		return fmt.Sprintf("the JSON text ends in the middle, at byte %d: %s", e.Offset, e.Problem)
	}
	return fmt.Sprintf("%s at byte %d of the JSON text", e.Problem, e.Offset)
}

// Scanner scans one text. [New] returns a Scanner.
type Scanner struct {
	b []byte
	i int // the offset of the next byte
	// limit is the greatest depth of objects and arrays.
	limit int
	// halves reports whether halves of surrogate pairs are accepted.
	halves bool
	// loose is the result of Loose.
	loose bool
}

// New returns a scanner of b, which it does not change. Objects and arrays may be nested
// up to maxDepth.
func New(b []byte, maxDepth int) *Scanner { return &Scanner{b: b, limit: maxDepth} }

// AcceptHalves makes the scanner accept halves of surrogate pairs, such as "\ud800". They
// are decoded as U+FFFD.
func (s *Scanner) AcceptHalves() { s.halves = true }

// Loose reports whether the scanned text may differ from its canonical form, in which the
// service stores it (see package canonical). It has white space, half of a surrogate pair,
// or a number that is neither a short integer nor a short fraction.
func (s *Scanner) Loose() bool { return s.loose }

// Offset returns the offset of the next byte.
func (s *Scanner) Offset() int { return s.i }

// Back sets the offset of the next byte, to scan a part of the text again.
func (s *Scanner) Back(offset int) { s.i = offset }

// Slice returns the text from an offset to the next byte, without further capacity.
func (s *Scanner) Slice(from int) []byte { return s.b[from:s.i:s.i] }

// Fail returns a *[SyntaxError] at the next byte.
func (s *Scanner) Fail(problem string) error {
	return &SyntaxError{Offset: s.i, Truncated: s.i >= len(s.b), Problem: problem}
}

// Space skips white space.
func (s *Scanner) Space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
			s.loose = true
		default:
			return
		}
	}
}

// End skips white space. It returns an error if anything follows.
func (s *Scanner) End() error {
	s.Space()
	if s.i < len(s.b) {
		return s.Fail("something follows the value")
	}
	return nil
}

// Peek returns the next byte. At the end it returns 0, which JSON allows nowhere.
func (s *Scanner) Peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// Value skips one value of any type. depth is the depth of an object or array here: 1 for
// the outermost one.
func (s *Scanner) Value(depth int) error {
	if s.skip(s.limit-depth+1, nil) {
		return nil
	}
	return s.value(depth)
}

// Members skips an object like Value and finds members of it. It sets at[k] to the offset
// of the value of the last member named names[k], or to -1. It does not find names with
// escapes. All names begin with the same byte.
func (s *Scanner) Members(depth int, names []string, at []int) error {
	if s.Peek() != '{' {
		return s.Fail("{ is expected")
	}
	f := search{names: names, first: names[0][0], at: at}
	for k, name := range names {
		at[k] = -1
		f.longest = max(f.longest, len(name))
	}
	if !s.skip(s.limit-depth+1, &f) {
		return s.members(depth, names, at)
	}
	for k, i := range at {
		if i >= 0 { // after the name
			at[k] = skipSpace(s.b, skipSpace(s.b, i)+1)
		}
	}
	return nil
}

// members is the slow form of Members, which scans byte by byte.
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

// value is the slow form of Value, which scans byte by byte. Its errors have an offset.
func (s *Scanner) value(depth int) error {
	switch c := s.Peek(); c {
	case '"':
		_, err := s.Text()
		return err
	case '{':
		return s.members(depth, nil, nil)
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

// Object skips the bracket that opens an object, and reports whether a member follows. If
// not, it also skips the closing bracket.
func (s *Scanner) Object(depth int) (more bool, err error) { return s.open('{', '}', depth) }

// Array skips the bracket that opens an array, in the same way as Object.
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

// Next skips the comma after a member or an element, or the closing bracket. It reports
// whether another member or element follows.
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

// Name scans a member's name and skips the colon.
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

// Int scans a number and returns it as an int64. A fraction, an exponent or a larger
// number is an error.
func (s *Scanner) Int() (int64, error) {
	from := s.i
	if err := s.number(); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(s.b[from:s.i]), 10, 64)
	if err != nil {
		s.i = from
		return 0, s.Fail("a 64-bit integer is expected")
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

// shortInteger is the size of an integer that is canonical, whatever its digits are,
// unless it is -0.
const shortInteger = 18

// isShortFraction reports whether a number with a point and without an exponent is
// certainly canonical: it has at most 15 digits, no zero at its end, and is not too small
// to be written without an exponent.
func isShortFraction(number []byte) bool {
	if len(number) > 16 || number[len(number)-1] == '0' {
		return false
	}
	if number[0] == '-' {
		number = number[1:]
	}
	return len(number) < 6 || string(number[:6]) != "0.0000"
}

func (s *Scanner) number() error {
	from := s.i
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
		s.loose = s.loose || !isShortFraction(s.b[from:s.i])
	} else {
		s.loose = s.loose || s.i-from > shortInteger || string(s.b[from:s.i]) == "-0"
	}
	if c := s.Peek(); c == 'e' || c == 'E' {
		s.i++
		s.loose = true
		if c := s.Peek(); c == '+' || c == '-' {
			s.i++
		}
		return s.digits()
	}
	return nil
}
