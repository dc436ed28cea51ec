package jsonscan

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a valid JSON string that is not decoded yet. It is a slice of the scanned text.
type Text struct {
	raw     []byte
	escaped bool
}

// Is reports whether the string's value is want.
func (t Text) Is(want string) bool {
	if t.escaped {
		return t.String() == want
	}
	return string(t.raw) == want
}

// Plain returns the string's value as a slice of the scanned text, if it has no escapes.
func (t Text) Plain() (value []byte, ok bool) { return t.raw, !t.escaped }

// Decoded returns the same string without escapes. It returns t itself if t has no
// escapes. Otherwise it decodes the string into new memory.
func (t Text) Decoded() Text {
	if !t.escaped {
		return t
	}
	return Text{raw: []byte(unescape(t.raw))}
}

// String returns the string's value. It allocates.
func (t Text) String() string {
	if !t.escaped {
		return string(t.raw)
	}
	return unescape(t.raw)
}

// The words that special uses. In each, all eight bytes are the same.
const (
	ones    = 0x0101010101010101
	tops    = 0x80 * ones
	spaces  = ' ' * ones
	quotes  = '"' * ones
	slashes = '\\' * ones
)

// Text scans a string without decoding it.
func (s *Scanner) Text() (Text, error) {
	if s.Peek() != '"' {
		return Text{}, s.Fail("a string is expected")
	}
	b, i := s.b, s.i+1
	from, escaped := i, false
	for {
		for len(b)-i >= 8 {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			s.i = i
			return Text{}, s.Fail("a string is not closed")
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return Text{b[from:i:i], escaped}, nil
		case c == '\\':
			escaped = true
			s.i = i
			if err := s.escape(); err != nil {
				return Text{}, err
			}
			i = s.i
		case c < ' ':
			s.i = i
			return Text{}, s.Fail("a control character in a string")
		case c < utf8.RuneSelf:
			i++
		default:
			for i < len(b) && b[i] >= utf8.RuneSelf {
				r, size := utf8.DecodeRune(b[i:])
				if r == utf8.RuneError && size == 1 {
					s.i = i
					return Text{}, s.Fail("invalid UTF-8")
				}
				i += size
			}
		}
	}
}

// escape skips one escape sequence, or two if they are the halves of a surrogate pair.
// Half of a pair alone is an error unless the scanner accepts it.
func (s *Scanner) escape() error {
	s.i++
	switch s.Peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return nil
	case 'u':
	default:
		return s.Fail("an invalid escape")
	}
	r, ok := hex4(s.b[s.i+1:])
	if !ok {
		return s.Fail(`\u needs four hexadecimal digits`)
	}
	if utf16.IsSurrogate(r) {
		rest := s.b[s.i+5:]
		low := rune(-1)
		if len(rest) >= 2 && rest[0] == '\\' && rest[1] == 'u' {
			low, _ = hex4(rest[2:])
		}
		switch {
		case utf16.DecodeRune(r, low) != utf8.RuneError:
			s.i += 6
		case s.halves:
			s.loose = true
		default:
			return s.Fail("half of a surrogate pair")
		}
	}
	s.i += 5
	return nil
}

// hex4 returns the value of four hexadecimal digits.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case IsDigit(c):
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

// unescape returns the value of a valid JSON string. raw is its text without the quotes.
func unescape(raw []byte) string {
	var decoded string
	if err := json.Unmarshal(slices.Concat([]byte{'"'}, raw, []byte{'"'}), &decoded); err != nil {
		panic(err) // Text has checked raw
	}
	return decoded
}
