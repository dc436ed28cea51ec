package value

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/twmb/murmur3"
)

// ORDER BY sorts arrays and objects by a hash. The SDK for .NET merges the rows of several
// partitions by this hash, and when it resumes a query it sends the hash instead of the
// value. The hash is built of MurmurHash3, by which each type, element and member name is
// mixed in. Members may come in any order.

// AppendOrderKey appends the key by which ORDER BY sorts a value. It is that of [AppendKey],
// except that arrays and objects have the type and their hash.
func AppendOrderKey(dst []byte, v Value) []byte {
	if v.Kind != Array && v.Kind != Object {
		return AppendKey(dst, v)
	}
	h, _ := rootSeed.ofValue(NewDecoder(v.Bytes))
	return AppendHashedKey(dst, v.Kind, h.low, h.high)
}

// AppendHashedKey appends the key by which ORDER BY sorts an array or an object with the
// given hash. The SDK compares hashes byte by byte too, from the lowest byte on.
func AppendHashedKey(dst []byte, kind Kind, low, high uint64) []byte {
	return hash{low, high}.appendTo(append(dst, byte(kind)+1))
}

// hash is a hash of 128 bits, and also the seed of the next one.
type hash struct{ low, high uint64 }

// The seeds of the SDK.
var (
	rootSeed   = hash{0xbfc2359eafc0e2b7, 0x8846e00284c4cf1f}
	nullSeed   = hash{0x1380f68bb3b0cfe4, 0x156c918bf564ee48}
	falseSeed  = hash{0xc1be517fe893b40c, 0xe9fc8a4c531cd0dd}
	trueSeed   = hash{0xf86d4abf9a412e74, 0x788488365c8a985d}
	numberSeed = hash{0x2400e8b894ce9c2a, 0x790be1eabd7b9481}
	stringSeed = hash{0x61f53f0a44204cfb, 0x09481be8ef4b56dd}
	arraySeed  = hash{0xfa573b014c4dc18e, 0xa014512c858eb115}
	objectSeed = hash{0x77b285ac511aef30, 0x3dcf187245822449}
	indexSeed  = hash{0xfe057204216db999, 0x5b1cc3178bd9c593}
	nameSeed   = hash{0xc915dde058492a8a, 0x7c8be2eba72e4634}.of(stringSeed)
)

func (h hash) appendTo(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, h.low), h.high)
}

// ofText and of return the hash of a text and of another hash, seeded with h.
func (h hash) ofText(text []byte) hash {
	low, high := murmur3.SeedSum128(h.low, h.high, text)
	return hash{low, high}
}

func (h hash) of(value hash) hash {
	var b [16]byte
	return h.ofText(value.appendTo(b[:0]))
}

// plus returns the seed of an element of an array.
func (h hash) plus(index int) hash {
	low, carry := bits.Add64(h.low, uint64(index), 0) //nolint:gosec // an index is not negative
	return hash{low, h.high + carry}
}

// ofValue returns the hash of the value that the decoder is at, seeded with h. If the JSON
// is invalid, ok is false and the hash covers the valid part.
func (h hash) ofValue(d *jsontext.Decoder) (_ hash, ok bool) {
	switch d.PeekKind() {
	case jsontext.KindBeginArray:
		return h.of(arraySeed).ofElements(d)
	case jsontext.KindBeginObject:
		return h.of(objectSeed).ofMembers(d)
	default:
	}
	raw, err := d.ReadValue()
	if err != nil {
		return h, false
	}
	switch v := Decode(raw); v.Kind {
	case Null:
		h = h.of(nullSeed)
	case False:
		h = h.of(falseSeed)
	case True:
		h = h.of(trueSeed)
	case Number:
		var b [10]byte
		h = h.of(numberSeed).ofText(v.appendExtended(b[:0]))
	case String:
		h = h.of(stringSeed).ofText(v.Bytes)
	case Undefined, Array, Object:
	}
	return h, true
}

func (h hash) ofElements(d *jsontext.Decoder) (_ hash, ok bool) {
	_, err := d.ReadToken()
	ok = err == nil
	for n := 0; ok && d.PeekKind() != jsontext.KindEndArray; n++ {
		var element hash
		element, ok = indexSeed.plus(n).ofValue(d)
		h = h.of(element)
	}
	if ok {
		_, err = d.ReadToken()
	}
	return h, ok && err == nil
}

func (h hash) ofMembers(d *jsontext.Decoder) (_ hash, ok bool) {
	_, err := d.ReadToken()
	var all hash // exclusive or, which makes the order of the members irrelevant
	for ok = err == nil; ok && d.PeekKind() != jsontext.KindEndObject; {
		name, err := d.ReadValue()
		if err != nil {
			ok = false
			break
		}
		var member hash
		member, ok = nameSeed.ofText(Unquote(name)).ofValue(d)
		all.low, all.high = all.low^member.low, all.high^member.high
	}
	if ok {
		_, err = d.ReadToken()
	}
	if all != (hash{}) {
		h = h.of(all)
	}
	return h, ok && err == nil
}

// appendExtended appends the form in which the SDK hashes a number: a float64 of 8 bytes, and
// for an integer that is none the other bits of its mantissa, in 2 bytes.
func (v Value) appendExtended(dst []byte) []byte {
	n, _ := v.Int()
	if v.Bytes == nil {
		return append(binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.float)), 0, 0)
	}
	const mantissa, extra, bias = 62, 10, 1023
	positive := uint64(max(n, -n))
	exponent := bits.Len64(positive) - 1
	m := positive << (mantissa - exponent) & (1<<mantissa - 1)
	float := uint64(exponent+bias)<<52 | m>>extra //nolint:gosec // an exponent is at most 62
	if n < 0 {
		float |= 1 << 63
	}
	dst = binary.LittleEndian.AppendUint64(dst, float)
	return binary.LittleEndian.AppendUint16(dst, uint16(m&(1<<extra-1)<<6)) //nolint:gosec // 16 bits
}
