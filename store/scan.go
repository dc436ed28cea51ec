package store

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON text (RFC 8259) and judges it, without making values of
// it. It accepts what encoding/json/jsontext does, nested up to MaxDepth: UTF-8
// is checked, and a surrogate escape needs its other half. Names that occur
// twice are the caller's concern.
//
// It is written by hand because every write passes through it: it looks at eight bytes
// of a string at a time and allocates nothing.
type scanner struct {
	b []byte
	i int // the next byte
}

func (s *scanner) fail(what string) error {
	if s.i >= len(s.b) {
		return badRequest(BadBody, "the JSON text ends in the middle: %s", what)
	}
	return badRequest(BadBody, "%s at byte %d", what, s.i)
}

// space skips white space.
func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek returns the next byte, and 0 at the end: a byte that may stand nowhere
// outside a string.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// value skips one value of any type. depth is the nesting of a container at
// this place.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); c {
	case '"':
		_, err := s.text()
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
		if c == '-' || isDigit(c) {
			return s.number()
		}
		return s.fail("a value is expected")
	}
}

// object skips an object in which no member is looked for.
func (s *scanner) object(depth int) error {
	if depth > MaxDepth {
		return badRequest(BadBody, "nested deeper than %d levels at byte %d", MaxDepth, s.i)
	}
	for more, err := s.open('}'); more || err != nil; more, err = s.next('}') {
		if err != nil {
			return err
		}
		if _, err := s.name(); err != nil {
			return err
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) array(depth int) error {
	if depth > MaxDepth {
		return badRequest(BadBody, "nested deeper than %d levels at byte %d", MaxDepth, s.i)
	}
	for more, err := s.open(']'); more || err != nil; more, err = s.next(']') {
		if err != nil {
			return err
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// open passes the bracket that opens an object or array and reports whether an element
// follows; if none does, it has passed the closing bracket too.
func (s *scanner) open(closing byte) (more bool, err error) {
	s.i++
	s.space()
	if s.peek() == closing {
		s.i++
		return false, nil
	}
	return true, nil
}

// next passes the comma behind an element and reports true, or passes the
// closing bracket.
func (s *scanner) next(closing byte) (more bool, err error) {
	s.space()
	switch s.peek() {
	case ',':
		s.i++
		s.space()
		return true, nil
	case closing:
		s.i++
		return false, nil
	}
	return false, s.fail("a comma or a closing bracket is expected")
}

// name passes a member's name and colon and stops at its value. raw is the text
// between the quotes; plain tells that it holds no escapes.
func (s *scanner) name() (n text, err error) {
	if s.peek() != '"' {
		return text{}, s.fail("a member's name is expected")
	}
	if n, err = s.text(); err != nil {
		return text{}, err
	}
	s.space()
	if s.peek() != ':' {
		return text{}, s.fail("a colon is expected")
	}
	s.i++
	s.space()
	return n, nil
}

func (s *scanner) literal(word string) error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return s.fail("a value is expected")
	}
	s.i += len(word)
	return nil
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func (s *scanner) digits() error {
	if !isDigit(s.peek()) {
		return s.fail("a digit is expected")
	}
	for isDigit(s.peek()) {
		s.i++
	}
	return nil
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if err := s.digits(); err != nil {
		return err
	}
	if s.peek() == '.' {
		s.i++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		return s.digits()
	}
	return nil
}

// text is a JSON string without its quotes, and whether there are escapes in it.
type text struct {
	raw     []byte
	escaped bool
}

// is reports whether the string's value is want.
func (t text) is(want string) bool {
	if t.escaped {
		return t.value() == want
	}
	return string(t.raw) == want
}

// value is the string's value. It allocates.
func (t text) value() string {
	if !t.escaped {
		return string(t.raw)
	}
	return string(unescape(t.raw))
}

// Eight bytes at a time: the top bit of a byte of m is set where something other
// than a plain character may be. A borrow can only set bits above a byte that
// is rightly set, so the lowest one is exact.
const (
	ones    = 0x0101010101010101
	tops    = 0x80 * ones
	spaces  = ' ' * ones
	quotes  = '"' * ones
	slashes = '\\' * ones
)

// text passes a string, whose opening quote is next.
func (s *scanner) text() (text, error) {
	b, i := s.b, s.i+1
	from, escaped := i, false
	for {
		for len(b)-i >= 8 {
			w := binary.LittleEndian.Uint64(b[i:])
			m := (w | (w - spaces) | ((w ^ quotes) - ones) | ((w ^ slashes) - ones)) & tops
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			s.i = i
			return text{}, s.fail("a string is not closed")
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return text{b[from:i], escaped}, nil
		case c == '\\':
			escaped = true
			s.i = i
			if err := s.escape(); err != nil {
				return text{}, err
			}
			i = s.i
		case c < ' ':
			s.i = i
			return text{}, s.fail("a control character in a string")
		case c < utf8.RuneSelf:
			i++
		default:
			for i < len(b) && b[i] >= utf8.RuneSelf {
				r, size := utf8.DecodeRune(b[i:])
				if r == utf8.RuneError && size == 1 {
					s.i = i
					return text{}, s.fail("invalid UTF-8")
				}
				i += size
			}
		}
	}
}

// escape passes one escape sequence; of a surrogate pair both.
func (s *scanner) escape() error {
	s.i++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return nil
	case 'u':
	default:
		return s.fail("an invalid escape")
	}
	r, ok := hex4(s.b[s.i+1:])
	if !ok {
		return s.fail(`\u needs four hexadecimal digits`)
	}
	if utf16.IsSurrogate(r) {
		rest := s.b[s.i+5:]
		if len(rest) < 2 || rest[0] != '\\' || rest[1] != 'u' {
			return s.fail("half of a surrogate pair")
		}
		low, ok := hex4(rest[2:])
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return s.fail("half of a surrogate pair")
		}
		s.i += 6
	}
	s.i += 5
	return nil
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape decodes the inside of a string that the scanner has accepted.
func unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		i++
		switch raw[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, _ := hex4(raw[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low, _ := hex4(raw[i+3:])
				r = utf16.DecodeRune(r, low)
				i += 6
			}
			out = utf8.AppendRune(out, r)
		default: // " \ /
			out = append(out, raw[i])
		}
	}
	return out
}
