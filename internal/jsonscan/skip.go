package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// A value that nobody looks at is passed here: most of every page. It is the same grammar as the scanner's, on values that stay in registers; strings with
// escapes or letters outside ASCII, and numbers with exponents, are the scanner's own. Where anything is wrong it gives up: the
// scanner then goes over the value again, and knows what it is.

// skip returns the place behind the value at b[i], or -1 if something is wrong with it. Objects and arrays may be nested up to room deep.
func skip(b []byte, i, room int) int {
	if i >= len(b) {
		return -1
	}
	switch c := b[i]; c {
	case '"':
		return skipString(b, i+1)
	case '{':
		return skipObject(b, i+1, room-1)
	case '[':
		return skipArray(b, i+1, room-1)
	case 't':
		return skipWord(b, i, "true")
	case 'f':
		return skipWord(b, i, "false")
	case 'n':
		return skipWord(b, i, "null")
	default:
		return skipNumber(b, i)
	}
}

// skipObject is behind the opening bracket.
func skipObject(b []byte, i, room int) int {
	if i = skipSpace(b, i); room < 0 || i >= len(b) {
		return -1
	}
	if b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return -1
		}
		if i = skipString(b, i+1); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = skip(b, skipSpace(b, i+1), room); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case '}':
			return i + 1
		default:
			return -1
		}
	}
}

// skipArray is behind the opening bracket.
func skipArray(b []byte, i, room int) int {
	if i = skipSpace(b, i); room < 0 || i >= len(b) {
		return -1
	}
	if b[i] == ']' {
		return i + 1
	}
	for {
		if i = skip(b, i, room); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case ']':
			return i + 1
		default:
			return -1
		}
	}
}

// skipString is behind the opening quote.
func skipString(b []byte, i int) int {
	from := i - 1
	for len(b)-i >= 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		m := (w | (w - spaces) | ((w ^ quotes) - ones) | ((w ^ slashes) - ones)) & tops
		if m == 0 {
			i += 8
			continue
		}
		if i += bits.TrailingZeros64(m) >> 3; b[i] == '"' {
			return i + 1
		}
		return unusual(b, from, '"')
	}
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\' || c < ' ' || c >= 0x80:
			return unusual(b, from, '"')
		}
	}
	return -1
}

// unusual has the scanner pass a string, or else a number.
func unusual(b []byte, i int, kind byte) int {
	s := Scanner{b: b, i: i}
	var err error
	if kind == '"' {
		_, err = s.Text()
	} else {
		err = s.number()
	}
	if err != nil {
		return -1
	}
	return s.i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

func skipWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func skipNumber(b []byte, i int) int {
	begin := i
	if i < len(b) && b[i] == '-' {
		i++
	}
	from := i
	for i < len(b) && IsDigit(b[i]) {
		i++
	}
	if i == from || b[from] == '0' && i > from+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		i++
		from = i
		for i < len(b) && IsDigit(b[i]) {
			i++
		}
		if i == from {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		return unusual(b, begin, '0')
	}
	return i
}
