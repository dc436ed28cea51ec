package lease

import (
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/feed"
)

// writer writes the members of one JSON object in the order of the calls.
type writer struct {
	buf []byte
}

// next writes the text that precedes a member: the opening bracket for the first one, a
// comma for the others.
func (w *writer) next() {
	if len(w.buf) == 0 {
		w.buf = append(w.buf, '{')
	} else {
		w.buf = append(w.buf, ',')
	}
}

func (w *writer) name(name string) {
	w.next()
	w.buf = append(quote(w.buf, name), ':')
}

func (w *writer) text(name, value string) {
	w.name(name)
	w.buf = quote(w.buf, value)
}

func (w *writer) textOrNull(name, value string) {
	if value == "" {
		w.raw(name, "null")
		return
	}
	w.text(name, value)
}

func (w *writer) raw(name, value string) {
	w.name(name)
	w.buf = append(w.buf, value...)
}

// properties writes the member "properties", an object of strings. The keys are sorted,
// so that equal leases have equal documents.
func (w *writer) properties(p map[string]string) {
	w.name("properties")
	inner := writer{}
	for _, key := range slices.Sorted(maps.Keys(p)) {
		inner.text(key, p[key])
	}
	w.buf = append(w.buf, inner.end()...)
}

func (w *writer) feedRange(r feed.Range) { w.raw("FeedRange", `{"Range":`+bounds(r)+"}") }

// keep writes a member that was read, unchanged.
func (w *writer) keep(m member) { w.members(m.appendTo("")) }

// members writes the text of one or more members, which are separated by commas.
func (w *writer) members(text string) {
	if text != "" {
		w.next()
		w.buf = append(w.buf, text...)
	}
}

func (w *writer) end() []byte {
	if len(w.buf) == 0 {
		return []byte("{}")
	}
	return append(w.buf, '}')
}

// quote appends s as a JSON string. Like .NET, it does not escape <, > and &.
func quote(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return quoteSlowly(buf, s)
		}
	}
	buf = append(buf, '"')
	buf = append(buf, s...)
	return append(buf, '"')
}

func quoteSlowly(buf []byte, s string) []byte {
	buf = append(buf, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			buf = append(buf, '\\', byte(r))
		case r < ' ':
			text, err := json.Marshal(string(r))
			if err == nil { // never fails, because every string has a JSON form
				buf = append(buf, text[1:len(text)-1]...)
			}
		default:
			buf = utf8.AppendRune(buf, r)
		}
	}
	return append(buf, '"')
}
