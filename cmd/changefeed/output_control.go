package main

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// harmless writes text to a terminal, or to a file that may be shown on one later. Names of
// owners, containers and documents come from the account, and everybody who may write a
// document chooses some of them. With control characters in a name, a terminal would execute
// them: erase the line before, or show another name. Unicode's format characters and its
// separators of lines and paragraphs do less, but U+202E alone reverses the rest of a line.
// So all of them are escaped, except line breaks and tabs.
//
// The form \u001b is the one of JSON, so that a command's JSON output keeps its meaning.
type harmless struct{ io.Writer }

func (h harmless) Write(p []byte) (int, error) {
	out, from := []byte(nil), 0
	for i := 0; i < len(p); {
		r, size := rune(p[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(p[i:])
		}
		if i += size; !harmful(r) {
			continue
		}
		out = append(out, p[from:i-size]...)
		if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		from = i
	}
	if from == 0 {
		return h.Writer.Write(p)
	}
	if _, err := h.Writer.Write(append(out, p[from:]...)); err != nil {
		return 0, err // how much of p was written is unknown
	}
	return len(p), nil
}

// harmful reports whether a terminal might execute r, or show the text around it otherwise
// than it is.
func harmful(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
