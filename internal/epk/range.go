package epk

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// Min and Max are the borders of the key space in hexadecimal. Every point is at or above
// Min and below Max.
const (
	Min = ""
	Max = "FF"
)

// ErrSplit reports that a range is too narrow to be divided.
var ErrSplit = errors.New("the range of keys is too narrow to split")

// Hex returns a binary point in upper-case hexadecimal.
func Hex(point []byte) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 2*len(point))
	for i, c := range point {
		b[2*i], b[2*i+1] = digits[c>>4], digits[c&15]
	}
	return string(b)
}

// ParseHex returns the binary form of a point or border in hexadecimal of either case.
func ParseHex(s string) ([]byte, error) {
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("effective partition key %q is not hexadecimal: %w", s, err)
	}
	return b, nil
}

// Prefix returns the range, in hexadecimal, of the points that begin with the hash of a
// prefix of a hierarchical key. For a complete key, and for V1 and V2, the range holds
// one EPK.
func (h Hash) Prefix(key []Component) (min, max string) {
	p := Hex(h.Append(nil, key))
	return p, p + Max
}
