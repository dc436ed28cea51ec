package memory

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
)

// The engine has a hash of its own, as feed.Source allows. Each component of a key is
// hashed to 63 bits, written as 16 hexadecimal digits, and the hashes of a hierarchical key
// are concatenated. So the EPK of a key's prefix is a prefix of its EPK, and every EPK is
// below "8".

const keySpace = uint64(1) << 63

// EPK returns the effective partition key of a key, or of a key's prefix.
func EPK(key feed.PartitionKey) string {
	var b strings.Builder
	for _, component := range key {
		fmt.Fprintf(&b, "%016X", hash(feed.PartitionKey{component}.String())>>1)
	}
	return b.String()
}

// hash is FNV-1a with the finalizer of SplitMix64, which spreads similar texts.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	z := h.Sum64()
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// number returns the number of a border of a range.
func number(border string) uint64 {
	if border >= "8" {
		return keySpace
	}
	border = border[:min(len(border), 16)]
	n, _ := strconv.ParseUint(border+strings.Repeat("0", 16-len(border)), 16, 64) // 0 if it is not a number
	return n
}

// border returns the border of a number.
func border(n uint64) string {
	switch {
	case n == 0:
		return feed.MinEPK
	case n >= keySpace:
		return feed.MaxEPK
	}
	return fmt.Sprintf("%016X", n)
}

// divide divides a range into n ranges of equal size.
func divide(r feed.Range, n int) []feed.Range {
	ranges := make([]feed.Range, n)
	low, high := number(r.Min), number(r.Max)
	step := (high - low) / uint64(n)
	for i := range ranges {
		at := low + uint64(i)*step
		ranges[i] = feed.Range{Min: border(at), Max: border(at + step)}
	}
	ranges[0].Min, ranges[n-1].Max = r.Min, r.Max
	return ranges
}
