package epk

import (
	"fmt"
	"math/big"
	"strings"
)

const maxV1 = 1<<32 - 1 // the largest hash of V1

// maxV2 is the largest hash of V2.
var maxV2 = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 126), big.NewInt(1))

// Bounds returns the n-1 inner borders, in hexadecimal, that divide the key space into n
// equal ranges. They are the borders that the service uses. It panics if n is less than
// 1.
func (h Hash) Bounds(n int) []string {
	bounds, err := h.Divide(Min, Max, n)
	if err != nil {
		panic(err)
	}
	return bounds
}

// Midpoint returns the border, in hexadecimal, that halves the range from min to max. See
// [Hash.Divide].
func (h Hash) Midpoint(min, max string) (string, error) {
	borders, err := h.Divide(min, max, 2)
	if err != nil {
		return "", err
	}
	return borders[0], nil
}

// Divide returns the n-1 inner borders, in hexadecimal, that divide the range from min to
// max into n parts of equal width. The last part also takes the remainder of the
// division. n is at least 1. It returns [ErrSplit] if the range is too narrow.
//
// V1 divides by the 32-bit hashes that the borders begin with. Keys of the same hash are
// never divided. V2 divides by 126-bit hashes, with "" as 0 and "FF" as the largest one.
//
// MultiHash divides by the hashes of the first level. If they are too close for n parts,
// as for one large tenant, it divides by the first two levels, or by all three.
func (h Hash) Divide(min, max string, n int) ([]string, error) {
	lo, err := ParseHex(min)
	if err != nil {
		return nil, err
	}
	hi, err := ParseHex(max)
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("cannot divide a range of keys into %d parts", n)
	}
	var borders []string
	switch h {
	case V1:
		borders, err = divideV1(lo, hi, n)
	case V2:
		borders, err = divide(lo, hi, n, 1)
	case MultiHash:
		borders, err = divide(lo, hi, n, 3)
	default:
		err = fmt.Errorf("cannot divide a range of keys: unknown %s", h)
	}
	if err != nil {
		return nil, err
	}
	below := strings.ToUpper(min)
	for _, border := range append(borders, strings.ToUpper(max)) {
		if border <= below {
			return nil, ErrSplit
		}
		below = border
	}
	return borders, nil
}

// divide returns the n-1 borders that divide the range from lo to hi. It divides by the
// first level, or by as many levels as n parts need, up to levels.
func divide(lo, hi []byte, n, levels int) ([]string, error) {
	parts := big.NewInt(int64(n))
	for level := 1; level <= levels; level++ {
		a := levelsInt(lo, level)
		width := new(big.Int).Sub(levelsInt(hi, level), a)
		if width.Quo(width, parts).Sign() <= 0 {
			continue
		}
		borders := make([]string, 0, n-1)
		for range n - 1 {
			borders = append(borders, hexInt(a.Add(a, width), level))
		}
		return borders, nil
	}
	return nil, ErrSplit
}

// levelsInt returns the first n levels of a border as one integer of n digits in base
// 2^126. A missing level is 0. A level above every hash ("FF") is the largest hash.
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

// hexInt is the inverse of levelsInt.
func hexInt(v *big.Int, n int) string {
	b := make([]byte, n*hashSize)
	v = new(big.Int).Set(v)
	for i := n - 1; i >= 0; i-- {
		new(big.Int).And(v, maxV2).FillBytes(b[i*hashSize : (i+1)*hashSize])
		v.Rsh(v, 126)
	}
	return Hex(b)
}

func divideV1(lo, hi []byte, n int) ([]string, error) {
	a, err := borderV1(lo)
	if err != nil {
		return nil, err
	}
	b, err := borderV1(hi)
	if err != nil {
		return nil, err
	}
	if a > b || (b-a)/uint64(n) == 0 {
		return nil, ErrSplit
	}
	width := (b - a) / uint64(n)
	borders := make([]string, 0, n-1)
	for i := 1; i < n; i++ {
		borders = append(borders, Hex(appendV1Number(nil, float64(a+width*uint64(i)))))
	}
	return borders, nil
}

// borderV1 returns the 32-bit hash that a border begins with.
func borderV1(border []byte) (uint64, error) {
	switch Hex(border) {
	case Min:
		return 0, nil
	case Max:
		return maxV1, nil
	}
	f, ok := parseV1Number(border)
	if !ok || f < 0 || f > maxV1 {
		return 0, fmt.Errorf("border %s is not a Hash V1 point", Hex(border))
	}
	return uint64(f), nil
}
