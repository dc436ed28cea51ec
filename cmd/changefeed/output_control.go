package main

import (
	"fmt"
	"io"
)

// harmless writes text to a terminal, or to a file that may be shown on one later. Names of
// owners, containers and documents come from the account, and everybody who may write a
// document chooses some of them. With control characters in a name, a terminal would execute
// them: erase the line before, or show another name. So all of them are escaped, except line
// breaks and tabs.
//
// The form \u001b is the one of JSON, so that a command's JSON output keeps its meaning.
type harmless struct{ io.Writer }

func (h harmless) Write(p []byte) (int, error) {
	out, from := []byte(nil), 0
	for i, c := range p {
		size := 1
		switch {
		case c < ' ' && c != '\n' && c != '\t', c == 0x7f:
		case c == 0xc2 && i+1 < len(p) && p[i+1] >= 0x80 && p[i+1] < 0xa0: // U+0080 to U+009F in UTF-8
			c, size = p[i+1], 2
		default:
			continue
		}
		out = fmt.Appendf(append(out, p[from:i]...), `\u%04x`, c)
		from = i + size
	}
	if from == 0 {
		return h.Writer.Write(p)
	}
	if _, err := h.Writer.Write(append(out, p[from:]...)); err != nil {
		return 0, err // how much of p was written is unknown
	}
	return len(p), nil
}
