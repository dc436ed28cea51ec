// Package uncleared makes memory that is not set to zero. make clears what it allocates,
// which takes a twentieth to a tenth of the time to fill a large page; use this package only
// where a benchmark shows that, and only for bytes that are all written before any is read.
package uncleared

import (
	"strings"
	"unsafe"
)

// Bytes returns an empty slice with room for at least n bytes, whose contents are arbitrary.
// In the standard library only strings.Builder provides such memory, and nobody else uses
// the text of this builder.
func Bytes(n int) []byte {
	var b strings.Builder
	b.Grow(max(n, 1))
	b.WriteByte(0) // an empty text has no address
	return unsafe.Slice(unsafe.StringData(b.String()), b.Cap())[:0]
}
