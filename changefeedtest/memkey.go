package changefeedtest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
)

// The in-memory source has a key space of its own, as the interface allows: a
// component of a key is hashed to 63 bits, written as 16 hexadecimal digits, and
// the hashes of a hierarchical key stand behind each other. So the prefix of a
// key is the prefix of its EPK, and every EPK lies below "8".

const memSpace = uint64(1) << 63

// memEPK is the effective partition key of a key, or of a key's prefix.
func memEPK(key feed.PartitionKey) string {
	var b strings.Builder
	for _, part := range key {
		text := feed.PartitionKey{part}.String()
		fmt.Fprintf(&b, "%016X", mix(hashText(text))>>1)
	}
	return b.String()
}

// memPoint is the number that a border of a range stands for.
func memPoint(border string) uint64 {
	if border >= "8" {
		return memSpace
	}
	if len(border) > 16 {
		border = border[:16]
	}
	n, err := strconv.ParseUint(border+strings.Repeat("0", 16-len(border)), 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// memBorder writes a number as a border.
func memBorder(n uint64) string {
	switch {
	case n == 0:
		return feed.MinEPK
	case n >= memSpace:
		return feed.MaxEPK
	}
	return fmt.Sprintf("%016X", n)
}

// memMiddle is the middle of a range, where a split cuts it.
func memMiddle(r feed.Range) string {
	low, high := memPoint(r.Min), memPoint(r.Max)
	return memBorder(low + (high-low)/2)
}

// memTiles cuts the key space into n ranges of equal size.
func memTiles(n int) []feed.Range {
	tiles := make([]feed.Range, n)
	step := memSpace / uint64(n)
	for i := range tiles {
		tiles[i] = feed.Range{Min: memBorder(uint64(i) * step), Max: memBorder(uint64(i+1) * step)}
	}
	tiles[n-1].Max = feed.MaxEPK
	return tiles
}
