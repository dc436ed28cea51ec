package epk

import (
	"math"

	"github.com/twmb/murmur3"
)

const (
	// v1Units is how many UTF-16 code units of a string V1 looks at.
	v1Units = 100
	// v1Bytes is the longest UTF-8 form that V1 writes whole and terminated; of
	// a longer one it writes one byte more and no terminator.
	v1Bytes = 100
)

// appendV1 appends the order-preserving encoding of the 32-bit hash, as a
// number, and of each component.
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

// cut shortens a string to its first 100 UTF-16 code units. Of a surrogate pair
// that the cut halves, the first half becomes U+FFFD, as it does where .NET
// encodes it.
func cut(c Component) Component {
	if c.Kind != String || len(c.Text) <= v1Units {
		return c
	}
	units := 0
	for i, r := range c.Text {
		width := 1
		if r > 0xFFFF {
			width = 2
		}
		if units+width > v1Units {
			half := ""
			if units < v1Units {
				half = "\uFFFD"
			}
			c.Text = c.Text[:i] + half
			return c
		}
		units += width
	}
	return c
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

// appendV1Number appends a number such that bytewise order is numeric order:
// the double's bits with their order straightened, first 8 of them, then 7 in
// each byte, whose low bit says that another byte follows.
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

// parseV1Number reads what appendV1Number wrote at the start of b.
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
