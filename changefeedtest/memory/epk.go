package memory

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/seeded"
)

// The engine hashes partition keys in its own way, as feed.Source allows. Each component
// of a key is hashed to 63 bits, written as 16 hexadecimal digits. The EPK of a
// hierarchical key is the concatenation of the hashes of its components. So the EPK of a
// key's prefix is a prefix of the key's EPK, and every EPK is below "8".

const keySpace = uint64(1) << 63

// EPK returns the effective partition key for a key, or for a key's prefix. Use it to
// choose where to split.
func EPK(key feed.PartitionKey) string {
	var b strings.Builder
	for _, component := range key {
		fmt.Fprintf(&b, "%016X", hash(feed.PartitionKey{component}.String())>>1)
	}
	return b.String()
}

// hash returns a hash of a text; similar texts get very different ones.
func hash(text string) uint64 { return seeded.Mix(seeded.Hash(0, text)) }

// number converts a border of a range to a number below keySpace, or to keySpace for the
// upper end.
func number(border string) uint64 {
	if border >= "8" {
		return keySpace
	}
	border = border[:min(len(border), 16)]
	n, _ := strconv.ParseUint(border+strings.Repeat("0", 16-len(border)), 16, 64) // an invalid border counts as 0
	return n
}

// border converts a number back to a border of a range. It is the inverse of number.
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
