package lease

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/feed"
)

// member is one member of a JSON object: slices of its text.
type member struct {
	name, value []byte
}

var errNoObject = errors.New("it is not a JSON object")

// scan calls each member of the object doc with its name. A listing decodes
// thousands of documents, most of whose members are short texts; so the text is
// validated once and then cut, and nothing is built that isn't used.
func scan(doc []byte, each func(name string, m member) error) error {
	if !json.Valid(doc) {
		// Unmarshal finds it invalid too, and says where.
		return json.Unmarshal(doc, new(json.RawMessage))
	}
	rest := bytes.TrimLeft(doc, blanks)
	if rest[0] != '{' {
		return errNoObject
	}
	rest = bytes.TrimLeft(rest[1:], blanks)
	for rest[0] != '}' {
		var m member
		m.name, rest = cut(rest)
		rest = bytes.TrimLeft(rest, blanks+":")
		m.value, rest = cut(rest)
		rest = bytes.TrimLeft(rest, blanks+",")
		name, err := unquote(m.name)
		if err != nil {
			return err
		}
		if err := each(name, m); err != nil {
			return err
		}
	}
	return nil
}

const blanks = " \t\r\n"

// cut splits valid JSON text behind its first value.
func cut(text []byte) (value, rest []byte) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return text[:i+1], text[i+1:]
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 0:
			if depth--; depth == 0 {
				return text[:i+1], text[i+1:]
			}
		case depth == 0 && (c == ',' || c == '}' || strings.IndexByte(blanks, c) >= 0):
			return text[:i], text[i:]
		}
	}
	return text, nil
}

func unquote(value []byte) (string, error) {
	if value[0] == '"' && bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value) {
		return string(value[1 : len(value)-1]), nil
	}
	var s string
	err := json.Unmarshal(value, &s)
	return s, err
}

// text reads a string; null is the empty one.
func (m member) text() (string, error) {
	if m.null() {
		return "", nil
	}
	return unquote(m.value)
}

func (m member) null() bool { return string(m.value) == "null" }

func (m member) integer() (int, error) {
	if m.null() {
		return 0, nil
	}
	return strconv.Atoi(string(m.value))
}

// time reads a timestamp, which nothing rests on: what isn't one is none. Java
// wrote the name of the zone behind it for a while.
func (m member) time() time.Time {
	s, err := m.text()
	if err != nil {
		return time.Time{}
	}
	s, _, _ = strings.Cut(s, "[")
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// properties reads an object of strings. Other values would have to be kept as
// they are; no implementation writes any.
func (m member) properties() (map[string]string, error) {
	if m.null() || string(m.value) == "{}" {
		return nil, nil
	}
	var p map[string]string
	err := json.Unmarshal(m.value, &p)
	return p, err
}

// feedRange reads {"Range":{"min","max"}}. Of another form (a partition's id, a
// partition key) it returns the text: the range isn't known from it.
func (m member) feedRange() (r feed.Range, other string, err error) {
	if m.null() {
		return r, "", nil
	}
	var doc struct {
		Range *struct {
			Min, Max       *string
			IsMinInclusive *bool `json:"isMinInclusive"`
			IsMaxInclusive *bool `json:"isMaxInclusive"`
		}
	}
	if err := json.Unmarshal(m.value, &doc); err != nil {
		return r, "", err
	}
	d := doc.Range
	if d == nil {
		return r, string(m.value), nil
	}
	if d.Min == nil || d.Max == nil || *d.Min >= *d.Max {
		return r, "", fmt.Errorf("%s is no range of keys", m.value)
	}
	if d.IsMinInclusive != nil && !*d.IsMinInclusive || d.IsMaxInclusive != nil && *d.IsMaxInclusive {
		return r, "", fmt.Errorf("%s: only [min, max) is understood", m.value)
	}
	return feed.Range{Min: *d.Min, Max: *d.Max}, "", nil
}

// appendTo adds the member's text, blanks between name and value cut, to others.
func (m member) appendTo(others string) string {
	if others != "" {
		others += ","
	}
	return others + string(m.name) + ":" + string(m.value)
}
