package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// A value that nobody looks at is passed here: most of every page. It is the same grammar as the scanner's, in one loop that calls nothing, so that its
// state stays in registers; strings with letters outside ASCII or with unusual escapes are the scanner's own. Where anything is wrong it gives up: the
// scanner then goes over the value again, and knows what it is.

// skipLevels is how deep a value may be nested here, one bit of a word each, and one for the end. What is deeper is the scanner's.
const skipLevels = 63

// finding is what is looked for in an object: the members with these names, which begin with the same byte and of which the longest has so many.
type finding struct {
	names   []string
	first   byte
	longest int
	// at gets the places of the values, of the last member of each name.
	at []int
}

// skip returns the place behind the value at b[i], or -1 if something is wrong with it. Objects and arrays may be nested up to room deep.
// f may be nil; else members of the outermost object are found.
func skip(b []byte, i, room int, f *finding) int {
	r := run{levels: 1, top: 1 << max(0, min(room, skipLevels))}
	if f != nil {
		r.watched, r.first, r.longest = 0b11, f.first, f.longest
	}
	for {
		switch i = r.pass(b, i); r.why {
		case complete:
			return i
		case incorrect, begin:
			return -1
		case oddText:
			if i = unusual(b, i); i < 0 {
				return -1
			}
		case watchedName:
			for k, name := range f.names {
				if string(b[r.from+1:i-1]) == name {
					f.at[k] = i // what is behind the colon is found when it is wanted
				}
			}
		}
	}
}

// run is how far a value was passed, and why no further.
type run struct {
	// levels tells of each level whether it is an object's, the one at hand in the lowest bit. Above is a bit for the end.
	levels uint64
	// top is more than levels may be, to go one deeper.
	top uint64
	// watched is what levels are in the object whose members are looked for, or 0. first and longest are of their names.
	watched uint64
	first   byte
	longest int

	why why
	// name tells that the string at hand is a member's name, and from where it begins.
	name bool
	from int
}

// why tells why a value was passed no further.
type why uint8

const (
	begin       why = iota // nothing was passed
	complete               // all of it was
	incorrect              // it is no JSON, or too deep
	oddText                // this string is the scanner's
	watchedName            // behind such a name
)

// pass goes on with a value, from behind what it stopped at.
//
//nolint:revive // function-length: in functions that call each other, the same takes a sixth more time
func (r *run) pass(b []byte, i int) int {
	levels, top, watched := r.levels, r.top, r.watched
	name, from := r.name, 0
	switch r.why {
	case oddText:
		if !name {
			goto passed
		}
		goto colon
	case watchedName:
		goto colon
	case begin, complete, incorrect:
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
		if i = skipSpace(b, i+1); uint(i) >= uint(len(b)) {
			goto wrong
		}
		if b[i] == c+2 { // the closing one
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
		if c == '-' {
			if i++; uint(i) >= uint(len(b)) {
				goto wrong
			}
			c = b[i]
		}
		if !IsDigit(c) {
			goto wrong
		}
		for i++; c != '0' && uint(i) < uint(len(b)) && IsDigit(b[i]); i++ { // a digit behind a zero is wrong wherever it is
		}
		if uint(i) < uint(len(b)) && b[i] == '.' {
			if i++; uint(i) >= uint(len(b)) || !IsDigit(b[i]) {
				goto wrong
			}
			for i++; uint(i) < uint(len(b)) && IsDigit(b[i]); i++ {
			}
		}
		if uint(i) < uint(len(b)) && b[i]|' ' == 'e' {
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
		r.why = complete
		return i
	}
	if i = skipSpace(b, i); uint(i) >= uint(len(b)) {
		goto wrong
	}
	switch b[i] {
	case ',':
		i = skipSpace(b, i+1)
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
		if len(b)-i < 8 { // as it is at the end of the text alone
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
		// A place that is chosen by a jump is guessed before m is known, and rightly where strings come again and again, as names do. Were it
		// computed, every string would have to wait for the one before it.
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
		if c == '\\' && uint(i) < uint(len(b)) && (b[i] == '"' || b[i] == '\\' || b[i] == 'n') { // the usual ones
			i++
			continue
		}
		goto odd
	}
	if !name {
		goto passed
	}
	if levels == watched && i-from-2 <= r.longest && b[from+1] == r.first {
		r.levels, r.name, r.from, r.why = levels, name, from, watchedName
		return i
	}

colon:
	if uint(i) < uint(len(b)) && b[i] != ':' {
		i = skipSpace(b, i)
	}
	if uint(i) >= uint(len(b)) || b[i] != ':' {
		goto wrong
	}
	i = skipSpace(b, i+1)
	goto value

odd:
	r.levels, r.name, r.why = levels, name, oddText
	return from

wrong:
	r.why = incorrect
	return i
}

// word is the eight bytes at b[i], which have to be there: the caller has compared with the length already, and a slice's own check
// would be made between one string and the next.
func word(b []byte, i int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))[:])
}

// special is a word that has the top bit of a byte set where something other than a plain character may be; see [ones].
func special(w uint64) uint64 {
	return (w | (w - spaces) | ((w ^ quotes) - ones) | ((w ^ slashes) - ones)) & tops
}

// unusual has the scanner pass a string.
func unusual(b []byte, i int) int {
	s := Scanner{b: b, i: i}
	if _, err := s.Text(); err != nil {
		return -1
	}
	return s.i
}

func skipSpace(b []byte, i int) int {
	for uint(i) < uint(len(b)) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
