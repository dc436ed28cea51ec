package wire

import (
	"fmt"
	"strings"
)

// ASCII escapes the characters of JSON text that are not ASCII, because headers must be
// ASCII. Partition keys in headers need it.
func ASCII(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xFFFF: // two escapes, which form a surrogate pair
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+(r>>10), 0xDC00+(r&0x3FF))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
