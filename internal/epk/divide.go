package epk

import (
	"fmt"
	"math/big"
	"strings"
)

// Divide returns the n-1 inner borders, in hexadecimal, that divide the range
// from min to max into n parts of equal width, so that keys fall evenly into
// them; of the whole key space they are those of [Hash.Bounds]. The last part
// takes what the division leaves over. n is at least 1.
//
// Width is counted as [Hash.Midpoint] counts it: in V2's 126-bit hashes, in V1's
// 32-bit hashes, and in MultiHash's first level, or in as many levels as are
// needed for n parts. [ErrSplit] tells that the range is too narrow for them.
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
		return nil, fmt.Errorf("divide a range of keys: %d parts are not possible", n)
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
		err = fmt.Errorf("divide a range of keys: no such %s", h)
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

// divide divides in the space of the first level, or of as many levels as n
// parts need, up to levels.
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

func divideV1(lo, hi []byte, n int) ([]string, error) {
	a, b, err := boundsV1(lo, hi)
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
