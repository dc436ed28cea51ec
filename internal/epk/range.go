package epk

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Min and Max are the borders of the key space in hexadecimal: every point is
// at or above Min and below Max.
const (
	Min = ""
	Max = "FF"
)

// ErrSplit tells that a range is too narrow to be halved.
var ErrSplit = errors.New("the range of keys is too narrow to split")

const maxV1 = 1<<32 - 1 // the largest hash of V1

// maxV2 is the largest hash of V2.
var maxV2 = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 126), big.NewInt(1))

// Hex writes a binary point in upper-case hexadecimal.
func Hex(point []byte) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 2*len(point))
	for i, c := range point {
		b[2*i], b[2*i+1] = digits[c>>4], digits[c&15]
	}
	return string(b)
}

// ParseHex reads a point or a range border in hexadecimal, of either case.
func ParseHex(s string) ([]byte, error) {
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("effective partition key %q is not hexadecimal: %w", s, err)
	}
	return b, nil
}

// Bounds returns the n-1 inner borders, in hexadecimal, that divide the key
// space into n equal ranges: multiples of a whole width, floor(max/n), so that
// they are the ones the service makes. n is at least 1.
func (h Hash) Bounds(n int) []string {
	bounds := make([]string, 0, max(n-1, 0))
	if h == V1 {
		width := maxV1 / uint64(n)
		for i := 1; i < n; i++ {
			bounds = append(bounds, Hex(appendV1Number(nil, float64(width*uint64(i)))))
		}
		return bounds
	}
	width := new(big.Int).Quo(maxV2, big.NewInt(int64(n)))
	for i := 1; i < n; i++ {
		bounds = append(bounds, hexInt(new(big.Int).Mul(width, big.NewInt(int64(i))), 1))
	}
	return bounds
}

// Prefix returns the range of the points that begin with the hash of a prefix
// of a hierarchical key, in hexadecimal. For a whole key, and for V1 and V2,
// which have no prefixes, it holds the one point alone.
func (h Hash) Prefix(key []Component) (min, max string) {
	p := Hex(h.Append(nil, key))
	return p, p + Max
}

// Midpoint returns the border, in hexadecimal, that halves the range from min
// to max: the integer in the middle of the two, rounded down.
//
//   - V2: of their 126-bit hashes, with "" as 0 and "FF" as the largest one.
//   - MultiHash: of the first level's hashes; where these are the same or
//     neighbours (one large tenant), of the first two levels, and so on to the
//     third, so that a single first component can be divided too.
//   - V1: of the 32-bit hashes that the borders begin with, encoded as a number.
//     Keys of equal hash are never divided.
//
// [ErrSplit] tells that nothing lies between.
func (h Hash) Midpoint(min, max string) (string, error) {
	lo, err := ParseHex(min)
	if err != nil {
		return "", err
	}
	hi, err := ParseHex(max)
	if err != nil {
		return "", err
	}
	var mid string
	switch h {
	case V1:
		mid, err = midpointV1(lo, hi)
	case MultiHash:
		mid, err = midpoint(lo, hi, 3)
	case V2:
		mid, err = midpoint(lo, hi, 1)
	default:
		err = fmt.Errorf("midpoint: no such %s", h)
	}
	if err != nil {
		return "", err
	}
	if mid <= strings.ToUpper(min) || mid >= strings.ToUpper(max) {
		return "", ErrSplit
	}
	return mid, nil
}

// midpoint halves in the space of the first level, or of as many levels as are
// needed, up to levels.
func midpoint(lo, hi []byte, levels int) (string, error) {
	for n := 1; n <= levels; n++ {
		a, b := levelsInt(lo, n), levelsInt(hi, n)
		d := new(big.Int).Sub(b, a)
		if d.Cmp(big.NewInt(2)) >= 0 {
			return hexInt(a.Add(a, d.Rsh(d, 1)), n), nil
		}
	}
	return "", ErrSplit
}

// levelsInt reads the first n levels of a border as one integer of n digits in
// base 2^126. A level that is missing is 0, and one above every hash ("FF") is
// the largest hash.
func levelsInt(border []byte, n int) *big.Int {
	v := new(big.Int)
	for range n {
		var level [hashSize]byte
		border = border[copy(level[:], border):]
		x := new(big.Int).SetBytes(level[:])
		if x.Cmp(maxV2) > 0 {
			x.Set(maxV2)
		}
		v.Lsh(v, 126).Add(v, x)
	}
	return v
}

// hexInt writes what levelsInt reads.
func hexInt(v *big.Int, n int) string {
	b := make([]byte, n*hashSize)
	v = new(big.Int).Set(v)
	for i := n - 1; i >= 0; i-- {
		new(big.Int).And(v, maxV2).FillBytes(b[i*hashSize : (i+1)*hashSize])
		v.Rsh(v, 126)
	}
	return Hex(b)
}

func midpointV1(lo, hi []byte) (string, error) {
	a, b, err := boundsV1(lo, hi)
	if err != nil {
		return "", err
	}
	if b < a+2 {
		return "", ErrSplit
	}
	return Hex(appendV1Number(nil, float64(a+(b-a)/2))), nil
}

// boundsV1 reads the 32-bit hashes that the borders of a range begin with.
func boundsV1(lo, hi []byte) (a, b uint64, err error) {
	a, b = 0, maxV1
	if len(lo) > 0 {
		f, ok := parseV1Number(lo)
		if !ok || f < 0 || f > maxV1 {
			return 0, 0, fmt.Errorf("border %s is no Hash V1 point", Hex(lo))
		}
		a = uint64(f)
	}
	if Hex(hi) != Max {
		f, ok := parseV1Number(hi)
		if !ok || f < 0 || f > maxV1 {
			return 0, 0, fmt.Errorf("border %s is no Hash V1 point", Hex(hi))
		}
		b = uint64(f)
	}
	return a, b, nil
}
