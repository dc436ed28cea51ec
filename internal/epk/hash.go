package epk

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/murmur3"
)

// Hash is the rule by which a container's keys become points. Its number is the
// version of the container's partition key definition, except for MultiHash.
type Hash uint8

// The hashes.
const (
	// V1 keeps the order of a 32-bit hash and appends the key itself (cut), so
	// its points vary in length. Distinct keys may share a point: strings that
	// agree in their first 100 UTF-16 code units do.
	V1 Hash = 1
	// V2 is one 126-bit hash over all components: 16 bytes.
	V2 Hash = 2
	// MultiHash is V2 of each component alone, one after the other, so that a
	// prefix of a hierarchical key is a range.
	MultiHash Hash = 3
)

// String names the hash for messages.
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
	topMask  = 0x3F // the two top bits of a V2 hash are cleared: it stays below "FF"
	// stringEnd ends a string in what V2 hashes. It occurs in no UTF-8 text.
	stringEnd = 0xFF
)

// Append appends the binary EPK of key to dst. Fewer components than the
// container has paths make sense for MultiHash alone, whose hash of a prefix
// begins the points of all its keys.
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

// AppendPoint appends what identifies the logical partition of key: its EPK
// and, for V1 alone, the 16 bytes of its V2 hash behind it, because distinct
// keys share a V1 point. Points sort and lie in ranges as their EPKs do.
//
// In a container no point is a prefix of another one: V2 and MultiHash points
// have one length, and V1 encodings end themselves.
func (h Hash) AppendPoint(dst []byte, key []Component) []byte {
	dst = h.Append(dst, key)
	if h == V1 {
		dst = appendV2(dst, key)
	}
	return dst
}

// EPK cuts what AppendPoint put behind the EPK.
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
