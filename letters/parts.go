package letters

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxText is the length, as JSON, to which the texts of an error and of a stack are cut. They
// are in the letter's own document, so that people can search them and every listing shows
// the error.
const maxText = 8 << 10

// maxNesting is how deep the items in a letter's own document may be nested. Documents have at
// most 128 levels, one of which is the letter's. Deeper items are stored as text, in parts.
const maxNesting = 127

// part is the JSON of a part. The texts of all parts, one after the other, are the JSON of
// [content].
type part struct {
	ID     string `json:"id"`
	PK     string `json:"pk"`
	Type   string `json:"type"`
	Letter string `json:"letter"`
	Part   int    `json:"part"`
	Parts  int    `json:"parts"`
	Text   string `json:"text"`
	ETag   string `json:"_etag,omitempty"`
}

// content is what the parts of a letter hold.
type content struct {
	Current  json.RawMessage `json:"current,omitempty"`
	Previous json.RawMessage `json:"previous,omitempty"`
}

// documents returns the documents of a letter that Key.letter has completed: the parts, if it
// needs any, and the head. No document is longer than limit.
func documents(l Letter, limit int) (parts []part, head []byte, err error) {
	l.Parts = 0
	if nesting(l.Current) <= maxNesting && nesting(l.Previous) <= maxNesting {
		// An update may make both texts as long as they can be.
		if head, err = encode(documentOf(l)); err != nil || len(head)-textSize(l.Error)-textSize(l.Stack)+2*maxText <= limit {
			return nil, head, err
		}
	}
	text, err := encode(content{l.Current, l.Previous})
	if err != nil {
		return nil, nil, err
	}
	empty, err := encode(part{ID: partID(l.ID, maxParts, maxParts), PK: l.Group, Type: typePart, Letter: l.ID, Part: maxParts, Parts: maxParts})
	if err != nil {
		return nil, nil, err
	}
	texts := chunks(string(text), limit-len(empty))
	for i, chunk := range texts {
		parts = append(parts, part{ID: partID(l.ID, i+1, len(texts)), PK: l.Group, Type: typePart, Letter: l.ID, Part: i + 1, Parts: len(texts), Text: chunk})
	}
	l.Current, l.Previous, l.Parts = nil, nil, len(parts)
	head, err = encode(documentOf(l))
	return parts, head, err
}

// maxParts is a number of parts that no letter reaches.
const maxParts = 99_999

// partID returns the id of part i of n. Because it has n in it, the parts of two writers with
// different limits do not mix.
func partID(letter string, i, n int) string {
	return letter + "-" + strconv.Itoa(i) + "-" + strconv.Itoa(n)
}

// join returns the letter with the content of its parts, which are in order.
func join(l Letter, parts []part) (Letter, error) {
	var text strings.Builder
	for _, p := range parts {
		text.WriteString(p.Text)
	}
	var c content
	if err := json.Unmarshal([]byte(text.String()), &c); err != nil {
		return Letter{}, fmt.Errorf("the parts of letter %s: %w", l.ID, err)
	}
	l.Current, l.Previous = c.Current, c.Previous
	return l, nil
}

// chunks cuts a text into pieces that are at most size bytes long as JSON.
func chunks(text string, size int) (pieces []string) {
	from, length := 0, 0
	for i, r := range text {
		n := runeSize(r)
		if length+n > size {
			pieces = append(pieces, text[from:i])
			from, length = i, 0
		}
		length += n
	}
	return append(pieces, text[from:])
}

// cut returns the beginning of a text that is at most maxText bytes long as JSON.
func cut(text string) string { return chunks(strings.ToValidUTF8(text, "\uFFFD"), maxText)[0] }

// textSize returns the length of a text as JSON, without its quotes.
func textSize(text string) (n int) {
	for _, r := range text {
		n += runeSize(r)
	}
	return n
}

// runeSize returns the length of a rune in a JSON text, at most 6 bytes.
func runeSize(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029':
		return 6
	}
	return utf8.RuneLen(r)
}

// nesting returns how many levels of objects and arrays a JSON text has.
func nesting(text []byte) (deepest int) {
	depth, quoted, escaped := 0, false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
