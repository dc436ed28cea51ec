package epk

import (
	"math"

	"github.com/twmb/murmur3"
)

const (
	// v1Units is the number of UTF-16 code units of a string that V1 uses.
	v1Units = 100
	// v1Bytes is the longest UTF-8 form that V1 writes completely, with a terminator. It
	// cuts a longer one to v1Bytes+1 bytes, without a terminator.
	v1Bytes = 100
)

// appendV1 appends the order-preserving encodings of the 32-bit hash, as a number, and of
// each component.
func appendV1(dst []byte, key []Component) []byte {
	var space [512]byte
	buf := space[:0]
	for _, c := range key {
		buf = cut(c).append(buf, 0)
	}
	dst = appendV1Number(dst, float64(murmur3.Sum32(buf)))
	for _, c := range key {
		dst = appendV1Component(dst, cut(c))
	}
	return dst
}

func cut(c Component) Component {
	if c.Kind == String {
		c.Text = CutV1(c.Text)
	}
	return c
}

// CutV1 cuts a string to the part that V1 hashes: its first 100 UTF-16 code units. If the
// cut divides a surrogate pair, the first half becomes U+FFFD, as in .NET.
func CutV1(text string) string {
	if len(text) <= v1Units {
		return text
	}
	units := 0
	for i, r := range text {
		width := 1
		if r > 0xFFFF {
			width = 2
		}
		if units+width > v1Units {
			half := ""
			if units < v1Units {
				half = "\uFFFD"
			}
			return text[:i] + half
		}
		units += width
	}
	return text
}

func appendV1Component(dst []byte, c Component) []byte {
	switch c.Kind {
	case Number:
		return appendV1Number(dst, c.Normal().Number)
	case String:
		dst = append(dst, byte(String))
		for i := 0; i < len(c.Text) && i <= v1Bytes; i++ {
			b := c.Text[i]
			if b < 0xFF {
				b++
			}
			dst = append(dst, b)
		}
		if len(c.Text) <= v1Bytes {
			dst = append(dst, 0)
		}
		return dst
	case Undefined, Null, False, True:
	}
	return append(dst, byte(c.Kind))
}

// appendV1Number appends a number so that the order of bytes is the order of numbers. The
// first byte holds 8 bits of the double, each further byte holds 7. The low bit of such a
// byte is set if another byte follows.
func appendV1Number(dst []byte, f float64) []byte {
	p := math.Float64bits(f)
	const sign = 1 << 63
	if p&sign == 0 {
		p ^= sign
	} else {
		p = ^p + 1
	}
	dst = append(dst, byte(Number), byte(p>>56))
	p <<= 8
	for {
		b := byte(p>>56) &^ 1
		p <<= 7
		if p == 0 {
			return append(dst, b)
		}
		dst = append(dst, b|1)
	}
}

// parseV1Number returns the number that appendV1Number wrote at the start of b.
func parseV1Number(b []byte) (float64, bool) {
	if len(b) < 3 || b[0] != byte(Number) {
		return 0, false
	}
	p := uint64(b[1]) << 56
	shift := 48
	for _, c := range b[2:] {
		group := uint64(c &^ 1)
		if shift >= 0 {
			p |= group << shift
		} else {
			p |= group >> -shift
		}
		if c&1 == 0 {
			const sign = 1 << 63
			if p&sign != 0 {
				p ^= sign
			} else {
				p = ^(p - 1)
			}
			return math.Float64frombits(p), true
		}
		shift -= 7
		if shift < -7 {
			break
		}
	}
	return 0, false
}
