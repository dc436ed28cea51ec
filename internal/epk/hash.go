package epk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/twmb/murmur3"
)

// Hash is the function that maps a container's keys to points. Its number is the version
// of the container's partition key definition, except for MultiHash.
type Hash uint8

// The hashes.
const (
	// V1 is a 32-bit hash, followed by the key itself. Strings are cut to 100 UTF-16 code
	// units, and then to 101 bytes for the second part. So points vary in length, and keys
	// with long strings may share a point. See [Hash.MayShare].
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
//
// The EPK identifies the logical partition of a complete key. No EPK of a container's
// complete keys is a prefix of another one: EPKs of V2 and MultiHash have one length, and
// the encoding of V1 contains its end.
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

// MayShare reports whether other keys may have the EPK of key. Only keys of V1 do, if a
// string reaches the length at which V1 cuts strings. The keys of one EPK are one logical
// partition.
//
// V2 and MultiHash hash whole strings, to so many bits that a shared EPK is not expected.
func (h Hash) MayShare(key []Component) bool {
	return h == V1 && slices.ContainsFunc(key, func(c Component) bool { return c.Kind == String && len(c.Text) >= v1Units })
}

// SamePartition reports whether two complete keys are in one logical partition.
func (h Hash) SamePartition(a, b []Component) bool {
	return slices.Equal(a, b) || h.MayShare(a) && h.MayShare(b) && bytes.Equal(h.Append(nil, a), h.Append(nil, b))
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
