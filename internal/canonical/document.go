package canonical

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Append appends JSON in canonical form. text is a valid JSON text, or a list of an
// object's members, except that strings may have halves of surrogate pairs. The result
// may be longer than text, because 5e-324 becomes 4.94065645841247e-324.
//
// Append returns a *[RangeError] for a number such as 1e400.
func Append(dst, text []byte) ([]byte, error) {
	for from := 0; from < len(text); {
		end := from + 1
		switch c := text[from]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case c == '"':
			end = stringEnd(text, from)
			dst = appendString(dst, text[from:end])
		case c == '-' || isDigit(c):
			for end < len(text) && isNumeric(text[end]) {
				end++
			}
			var err error
			if dst, err = appendNumber(dst, text[from:end]); err != nil {
				return dst, err
			}
		default:
			dst = append(dst, c)
		}
		from = end
	}
	return dst, nil
}

func isNumeric(c byte) bool {
	return isDigit(c) || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}

// stringEnd returns the offset after the string whose opening quote is at text[i].
func stringEnd(text []byte, i int) int {
	for i++; ; i++ {
		quote := bytes.IndexByte(text[i:], '"')
		if quote < 0 {
			return len(text)
		}
		slashes := 0
		for at := i + quote - 1; at >= i && text[at] == '\\'; at-- {
			slashes++
		}
		if i += quote; slashes%2 == 0 {
			return i + 1
		}
	}
}

// appendString appends a string and replaces halves of surrogate pairs by U+FFFD, as
// encoding/json does.
func appendString(dst, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(dst, text...)
		}
		const escape, pair = len(`\u0000`), len(`\ud83d\ude00`)
		size := min(2, len(text)-i)
		r := codeUnit(text[i:])
		if r < 0 || !utf16.IsSurrogate(r) {
			dst = append(dst, text[:i+size]...)
			text = text[i+size:]
			continue
		}
		if rest := text[i+escape:]; utf16.DecodeRune(r, codeUnit(rest)) != utf8.RuneError {
			dst = append(dst, text[:i+pair]...)
			text = text[i+pair:]
			continue
		}
		dst = utf8.AppendRune(append(dst, text[:i]...), utf8.RuneError)
		text = text[i+escape:]
	}
}

// codeUnit returns the UTF-16 code unit that an escape such as \ud83d stands for, or -1 if
// text does not begin with such an escape.
func codeUnit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
