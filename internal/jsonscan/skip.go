package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// A value that nobody looks at is passed here: most of every page. It is the same grammar as the scanner's, in one loop whose state stays in
// registers; strings with escapes or letters outside ASCII, and numbers with exponents, are the scanner's own. Where anything is wrong it
// gives up: the scanner then goes over the value again, and knows what it is.

// skipLevels is how deep a value may be nested here. What is deeper is the scanner's.
const skipLevels = 256

// skip returns the place behind the value at b[i], or -1 if something is wrong with it. Objects and arrays may be nested up to room deep.
func skip(b []byte, i, room int) int {
	var (
		// outer tells of each level around the one at hand whether it is an object's.
		outer  [skipLevels / 64]uint64
		depth  int
		object bool // the level at hand is an object's
	)
	room = min(room, skipLevels)
value:
	if uint(i) >= uint(len(b)) {
		return -1
	}
	switch c := b[i]; c {
	case '"':
		i = skipString(b, i+1)
	case '{', '[':
		if depth >= room {
			return -1
		}
		if object {
			outer[depth>>6&3] |= 1 << (depth & 63)
		} else {
			outer[depth>>6&3] &^= 1 << (depth & 63)
		}
		depth++
		object = c == '{'
		if i = skipSpace(b, i+1); uint(i) >= uint(len(b)) {
			return -1
		}
		if b[i] == c+2 { // the closing one
			goto closed
		}
		if object {
			goto member
		}
		goto value
	case 't':
		i = skipWord(b, i, "true")
	case 'f':
		i = skipWord(b, i, "false")
	case 'n':
		i = skipWord(b, i, "null")
	default:
		i = skipNumber(b, i)
	}

passed: // a value, or -1
	if i < 0 || depth == 0 {
		return i
	}
	if i = skipSpace(b, i); uint(i) >= uint(len(b)) {
		return -1
	}
	switch b[i] {
	case ',':
		i = skipSpace(b, i+1)
		if object {
			goto member
		}
		goto value
	case '}':
		if object {
			goto closed
		}
	case ']':
		if !object {
			goto closed
		}
	}
	return -1

closed: // by the bracket at b[i]
	i++
	depth--
	object = outer[depth>>6&3]>>(depth&63)&1 != 0
	goto passed

member:
	if uint(i) >= uint(len(b)) || b[i] != '"' {
		return -1
	}
	if i = skipString(b, i+1); uint(i) < uint(len(b)) && b[i] != ':' {
		i = skipSpace(b, i)
	}
	if uint(i) >= uint(len(b)) || b[i] != ':' {
		return -1
	}
	i = skipSpace(b, i+1)
	goto value
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
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
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
