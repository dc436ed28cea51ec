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

// scan calls each with every member of the object doc, in their order. A listing
// decodes thousands of documents, most of whose members are short texts; so the
// text is validated once and then cut, and nothing is built that isn't used.
func scan(doc []byte, each func(m member) error) error {
	if !json.Valid(doc) {
		// Unmarshal finds it invalid too, and says where.
		return json.Unmarshal(doc, new(json.RawMessage))
	}
	return members(doc, each)
}

// members does what scan does, for text that is known to be valid.
func members(doc []byte, each func(m member) error) error {
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
		if err := each(m); err != nil {
			return err
		}
	}
	return nil
}

// key is the member's name without quotes. One with escapes in it is none of those
// that we look for, and is kept like others.
func (m member) key() []byte { return m.name[1 : len(m.name)-1] }

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
	found := false
	err = members(m.value, func(outer member) error {
		if string(outer.key()) != "Range" {
			return nil
		}
		found = true
		return members(outer.value, func(inner member) (err error) {
			switch string(inner.key()) {
			case "min":
				r.Min, err = inner.text()
			case "max":
				r.Max, err = inner.text()
			case "isMinInclusive":
				err = inner.want("true")
			case "isMaxInclusive":
				err = inner.want("false")
			}
			return err
		})
	})
	switch {
	case err != nil:
		return feed.Range{}, "", err
	case !found:
		return r, string(m.value), nil
	case r.IsEmpty():
		return feed.Range{}, "", fmt.Errorf("%s is no range of keys", m.value)
	}
	return r, "", nil
}

// want refuses a value that is understood and not supported.
func (m member) want(value string) error {
	if string(m.value) != value {
		return fmt.Errorf("%s is %s: only ranges [min, max) are understood", m.key(), m.value)
	}
	return nil
}

// appendTo adds the member's text, blanks between name and value cut, to others.
func (m member) appendTo(others string) string {
	if others != "" {
		others += ","
	}
	return others + string(m.name) + ":" + string(m.value)
}
