package epk

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/murmur3"
)

// Hash is the function that maps a container's keys to points. Its number is the version
// of the container's partition key definition, except for MultiHash.
type Hash uint8

// The hashes.
const (
	// V1 is a 32-bit hash, followed by the key itself. Strings are cut to 100 UTF-16 code
	// units. So points vary in length, and distinct keys may share a point.
	V1 Hash = 1
	// V2 is one 126-bit hash over all components, in 16 bytes.
	V2 Hash = 2
	// MultiHash is the V2 hash of each component, one after the other. So the keys that
	// share a prefix form a range.
	MultiHash Hash = 3
)

// String returns the name of the hash.
func (h Hash) String() string {
	switch h {
	case V1:
		return "Hash V1"
	case V2:
		return "Hash V2"
	case MultiHash:
		return "MultiHash"
	}
	return fmt.Sprintf("hash %d", uint8(h))
}

const (
	hashSize = 16   // bytes of one V2 hash
	topMask  = 0x3F // clears the two top bits of a V2 hash, so that it is below "FF"
	// stringEnd terminates a string for V2. It does not occur in UTF-8.
	stringEnd = 0xFF
)

// Append appends the binary EPK of key to dst. With MultiHash, key may be a prefix of a
// hierarchical key: the points of all its keys begin with the result.
func (h Hash) Append(dst []byte, key []Component) []byte {
	switch h {
	case V1:
		return appendV1(dst, key)
	case MultiHash:
		for i := range key {
			dst = appendV2(dst, key[i:i+1])
		}
		return dst
	case V2:
	}
	return appendV2(dst, key)
}

// AppendPoint appends the point that identifies the logical partition of key. It is the
// EPK. V1 adds the 16 bytes of the V2 hash, because distinct keys may share a V1 EPK.
// Points sort like their EPKs.
//
// In a container no point is a prefix of another one. Points of V2 and MultiHash have one
// length, and the encoding of V1 contains its end.
func (h Hash) AppendPoint(dst []byte, key []Component) []byte {
	dst = h.Append(dst, key)
	if h == V1 {
		dst = appendV2(dst, key)
	}
	return dst
}

// EPK returns the EPK of a point that AppendPoint has appended.
func (h Hash) EPK(point []byte) []byte {
	if h == V1 && len(point) >= hashSize {
		return point[:len(point)-hashSize]
	}
	return point
}

func appendV2(dst []byte, key []Component) []byte {
	var space [256]byte
	buf := space[:0]
	for _, c := range key {
		buf = c.append(buf, stringEnd)
	}
	low, high := murmur3.Sum128(buf)
	n := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, high)
	dst = binary.BigEndian.AppendUint64(dst, low)
	dst[n] &= topMask
	return dst
}
