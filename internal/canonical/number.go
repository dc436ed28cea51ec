package canonical

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// RangeError reports a number that is beyond the range of a double.
type RangeError struct {
	// Text is the number as it was written.
	Text string
}

func (e *RangeError) Error() string {
	const shown = 40
	if len(e.Text) > shown {
		return fmt.Sprintf("the number %s... is beyond the range of a double", e.Text[:shown])
	}
	return fmt.Sprintf("the number %s is beyond the range of a double", e.Text)
}

// appendNumber appends a number of a document, which is valid JSON, in canonical form.
func appendNumber(dst, text []byte) ([]byte, error) {
	if isInteger(text) {
		return append(dst, text...), nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return dst, &RangeError{string(text)}
	}
	from := len(dst)
	return widen(AppendFloat(dst, f), from), nil
}

// isInteger reports whether a number is an integer of 64 bits that keeps its digits.
func isInteger(text []byte) bool {
	const short = 18 // so many digits are in the range of 64 bits
	digits := bytes.TrimPrefix(text, []byte{'-'})
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	switch {
	case len(digits) <= short:
		return string(text) != "-0"
	case text[0] == '-':
		_, err := strconv.ParseInt(string(text), 10, 64)
		return err == nil
	}
	_, err := strconv.ParseUint(string(text), 10, 64)
	return err == nil
}

// AppendFloat appends a finite number as a query returns it. See the package's comment.
func AppendFloat(dst []byte, f float64) []byte {
	if f >= -1<<63 && f < 1<<63 && f == math.Trunc(f) {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', 15, 64)
	if again, err := strconv.ParseFloat(string(dst[from:]), 64); err == nil && again == f {
		return dst
	}
	return strconv.AppendFloat(dst[:from], f, 'g', 17, 64)
}

// widen gives the number b[from:], which AppendFloat wrote, an exponent of three digits.
func widen(b []byte, from int) []byte {
	sign := bytes.IndexByte(b[from:], 'e') + 1
	if at := from + sign + 1; sign > 0 && len(b)-at == 2 {
		return append(b[:at], '0', b[at], b[at+1])
	}
	return b
}

// AppendQueried appends the JSON of a stored value as queries return it: exponents of
// three digits have two if the first is 0. text is valid JSON.
func AppendQueried(dst, text []byte) []byte {
	if !HasLongExponent(text) {
		return append(dst, text...)
	}
	for from := 0; from < len(text); {
		end := from
		switch {
		case text[from] == '"':
			end = stringEnd(text, from)
		case isLongExponent(text, from):
			dst = append(dst, text[from])
			from, end = from+2, from+4
		default:
			end++
		}
		dst = append(dst, text[from:end]...)
		from = end
	}
	return dst
}

// HasLongExponent reports whether text has an exponent that AppendQueried changes, or
// something alike in a string. It is fast.
func HasLongExponent(text []byte) bool {
	for _, sign := range [...]byte{'+', '-'} {
		for at := 0; ; at++ {
			i := bytes.IndexByte(text[at:], sign)
			if i < 0 {
				break
			}
			if at += i; isLongExponent(text, at) {
				return true
			}
		}
	}
	return false
}

// isLongExponent reports whether text[i] is the sign of an exponent of three digits of which the
// first is 0.
func isLongExponent(text []byte, i int) bool {
	return (text[i] == '+' || text[i] == '-') && i > 0 && text[i-1] == 'e' && len(text)-i > 3 &&
		text[i+1] == '0' && isDigit(text[i+2]) && isDigit(text[i+3])
}

func isDigit(c byte) bool { return c-'0' <= 9 }
