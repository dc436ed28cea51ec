package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Most values of a page are skipped. This file skips them about as fast as memory allows.
// It has the scanner's grammar in one loop without calls, so that the state stays in
// registers. The scanner itself skips strings with characters outside ASCII or with rare
// escapes. On an error the loop ends, and the scanner scans the value again to describe
// the error.

// skipLevels is the greatest depth of a value that skip accepts. One 64-bit word has a
// bit for each level and a bit for the end. The scanner skips deeper values.
const skipLevels = 63

// search names the members to find in an object.
type search struct {
	names   []string
	first   byte // the first byte of every name
	longest int  // the length of the longest name
	// at receives the offset after the last member name that equals each name.
	at []int
}

// skip skips the value at the next byte and reports whether it is valid. Objects and
// arrays may be nested up to room. If f is not nil, skip finds members of the outermost
// object. If the value is not valid, the scanner scans it again.
func (s *Scanner) skip(room int, f *search) bool {
	b, i := s.b, s.i
	r := run{levels: 1, top: 1 << max(0, min(room, skipLevels))}
	if f != nil {
		r.watched, r.first, r.longest = 0b11, f.first, f.longest
	}
	for {
		switch i = r.pass(b, i); r.stop {
		case complete:
			s.i, s.loose = i, s.loose || r.loose
			return true
		case invalid, begin:
			return false
		case slowString:
			text := Scanner{b: b, i: i, halves: s.halves}
			if _, err := text.Text(); err != nil {
				return false
			}
			i, r.loose = text.i, r.loose || text.loose
		case watchedName:
			for k, name := range f.names {
				if string(b[r.from+1:i-1]) == name {
					f.at[k] = i // Members skips the colon
				}
			}
		}
	}
}

// run is the state of skipping a value.
type run struct {
	// levels has a bit for each open object or array: 1 for an object, 0 for an array.
	// The lowest bit is the innermost one. The highest set bit marks the end.
	levels uint64
	// top is the limit of levels: at top and above, no deeper level is allowed.
	top uint64
	// watched is the value of levels in the object whose members are searched, or 0.
	// first and longest describe the searched names.
	watched uint64
	first   byte
	longest int

	stop stop
	// name reports whether the current string is a member's name. It begins at from.
	name bool
	from int
	// loose is as in Scanner.
	loose bool
}

// stop is the reason why skipping stopped.
type stop uint8

const (
	begin       stop = iota // nothing was skipped yet
	complete                // the value was skipped
	invalid                 // the value is not valid, or too deep
	slowString              // the scanner must skip this string
	watchedName             // a name that may be searched was skipped
)

// pass skips the rest of a value, from the point where it stopped.
//
//nolint:revive // function-length: functions that call each other take a sixth more time
func (r *run) pass(b []byte, i int) int {
	levels, top, watched := r.levels, r.top, r.watched
	name, from := r.name, 0
	switch r.stop {
	case slowString:
		if !name {
			goto passed
		}
		goto colon
	case watchedName:
		goto colon
	case begin, complete, invalid:
	}
value:
	if uint(i) >= uint(len(b)) {
		goto wrong
	}
	switch c := b[i]; c {
	case '"':
		name = false
		goto text
	case '{', '[':
		if levels >= top {
			goto wrong
		}
		levels = levels<<1 | uint64(c>>5&1) // 0x7B or 0x5B
		if i++; uint(i) < uint(len(b)) && b[i] <= ' ' {
			i = r.space(b, i)
		}
		if uint(i) >= uint(len(b)) {
			goto wrong
		}
		if b[i] == c+2 { // the closing bracket
			goto closed
		}
		if levels&1 != 0 {
			goto member
		}
		goto value
	case 't':
		if len(b)-i < 4 || b[i+1] != 'r' || b[i+2] != 'u' || b[i+3] != 'e' {
			goto wrong
		}
		i += 4
	case 'f':
		if len(b)-i < 5 || b[i+1] != 'a' || b[i+2] != 'l' || b[i+3] != 's' || b[i+4] != 'e' {
			goto wrong
		}
		i += 5
	case 'n':
		if len(b)-i < 4 || b[i+1] != 'u' || b[i+2] != 'l' || b[i+3] != 'l' {
			goto wrong
		}
		i += 4
	default:
		from = i
		if c == '-' {
			if i++; uint(i) >= uint(len(b)) {
				goto wrong
			}
			c = b[i]
		}
		if !IsDigit(c) {
			goto wrong
		}
		for i++; c != '0' && uint(i) < uint(len(b)) && IsDigit(b[i]); i++ { // a digit after a leading zero fails below
		}
		if uint(i) < uint(len(b)) && b[i] == '.' {
			if i++; uint(i) >= uint(len(b)) || !IsDigit(b[i]) {
				goto wrong
			}
			for i++; uint(i) < uint(len(b)) && IsDigit(b[i]); i++ {
			}
			if !isShortFraction(b[from:i]) {
				r.loose = true
			}
		} else if i-from > shortInteger || c == '0' && i-from == len("-0") {
			r.loose = true
		}
		if uint(i) < uint(len(b)) && b[i]|' ' == 'e' {
			r.loose = true
			if i++; uint(i) < uint(len(b)) && (b[i] == '+' || b[i] == '-') {
				i++
			}
			if uint(i) >= uint(len(b)) || !IsDigit(b[i]) {
				goto wrong
			}
			for i++; uint(i) < uint(len(b)) && IsDigit(b[i]); i++ {
			}
		}
	}

passed: // a value
	if levels == 1 {
		r.stop = complete
		return i
	}
	if uint(i) < uint(len(b)) && b[i] <= ' ' {
		i = r.space(b, i)
	}
	if uint(i) >= uint(len(b)) {
		goto wrong
	}
	switch b[i] {
	case ',':
		if i++; uint(i) < uint(len(b)) && b[i] <= ' ' {
			i = r.space(b, i)
		}
		if levels&1 != 0 {
			goto member
		}
		goto value
	case '}':
		if levels&1 != 0 {
			goto closed
		}
	case ']':
		if levels&1 == 0 {
			goto closed
		}
	}
	goto wrong

closed: // by the bracket at b[i]
	i++
	levels >>= 1
	goto passed

member:
	if uint(i) >= uint(len(b)) || b[i] != '"' {
		goto wrong
	}
	name = true

text: // at the opening quote
	from = i
	i++
	for {
		if len(b)-i < 8 { // at the end of the text
			if uint(i) >= uint(len(b)) {
				goto wrong
			}
			if c := b[i]; c == '\\' || c < ' ' || c >= 0x80 {
				goto odd
			} else if i++; c == '"' {
				break
			}
			continue
		}
		m := special(word(b, i))
		if m == 0 {
			i += 8
			continue
		}
		// Without this switch, i would be computed from m. The processor could not begin
		// the next string before it knows m. With the switch, it predicts the jump before
		// it knows m. It predicts well, because names recur.
		switch bits.TrailingZeros64(m) >> 3 & 7 {
		case 0:
		case 1:
			i++
		case 2:
			i += 2
		case 3:
			i += 3
		case 4:
			i += 4
		case 5:
			i += 5
		case 6:
			i += 6
		case 7:
			i += 7
		}
		c := b[i]
		if i++; c == '"' {
			break
		}
		if c == '\\' && uint(i) < uint(len(b)) && (b[i] == '"' || b[i] == '\\' || b[i] == 'n') { // the common escapes
			i++
			continue
		}
		goto odd
	}
	if !name {
		goto passed
	}
	if levels == watched && i-from-2 <= r.longest && b[from+1] == r.first {
		r.levels, r.name, r.from, r.stop = levels, name, from, watchedName
		return i
	}

colon:
	if uint(i) < uint(len(b)) && b[i] <= ' ' {
		i = r.space(b, i)
	}
	if uint(i) >= uint(len(b)) || b[i] != ':' {
		goto wrong
	}
	if i++; uint(i) < uint(len(b)) && b[i] <= ' ' {
		i = r.space(b, i)
	}
	goto value

odd:
	r.levels, r.name, r.stop = levels, name, slowString
	return from

wrong:
	r.stop = invalid
	return i
}

// word returns the eight bytes at b[i], which must exist. A bounds check would cost time
// between one string and the next, and the caller has compared the length already.
func word(b []byte, i int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))[:])
}

// special returns a word that has the top bit set for each byte of w that may not be a
// plain character. A borrow can set further bits, but only above a byte that is not
// plain. So the lowest set bit is exact.
func special(w uint64) uint64 {
	return (w | (w - spaces) | ((w ^ quotes) - ones) | ((w ^ slashes) - ones)) & tops
}

// space skips white space, which is at b[i] or not. Only callers that have seen white
// space or a control character call it.
//
//go:noinline
func (r *run) space(b []byte, i int) int {
	r.loose = true
	return skipSpace(b, i)
}

func skipSpace(b []byte, i int) int {
	for uint(i) < uint(len(b)) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
