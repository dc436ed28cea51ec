package view

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// OneLine returns a text for people in which names from the account cannot do harm: Visible
// characters only, and neither line breaks nor tabs. Every such text goes through it, as a
// whole, before it is printed: a cell of a table, a step of a plan, a note, an error. A line
// break in a name would otherwise begin a line that looks like one of the command's own.
func OneLine(text string) string { return string(Visible([]byte(lineBreaks.Replace(text)))) }

var lineBreaks = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`, "\v", `\v`, "\f", `\f`)

// Visible returns text with every character escaped that a terminal would execute, or that
// would show the text around it otherwise than it is. Names of owners, containers and
// documents come from the account, and everybody who may write a document chooses some of
// them. With control characters in a name, a terminal would erase the line before, or show
// another name. Unicode's format characters and its separators of lines and paragraphs do
// less, but U+202E alone reverses the rest of a line. Line breaks and tabs stay, because
// Visible is also for whole outputs; [OneLine] escapes them, too.
//
// The form \u001b is the one of JSON, so that a command's JSON output keeps its meaning. If
// there is nothing to escape, Visible returns text itself.
func Visible(text []byte) []byte {
	out, from := []byte(nil), 0
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		if i += size; !harmful(r) {
			continue
		}
		out = append(out, text[from:i-size]...)
		if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		from = i
	}
	if from == 0 {
		return text
	}
	return append(out, text[from:]...)
}

// harmful reports whether a terminal might execute r, or show the text around it otherwise
// than it is.
func harmful(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
