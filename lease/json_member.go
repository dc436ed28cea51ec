package lease

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// member is one member of a JSON object: slices of its text. key is the name without quotes. One
// with escapes is none of those that we look for, and is kept like others.
type member struct {
	key, value []byte
}

// maxDepth bounds the nesting of documents, as encoding/json does.
const maxDepth = 10_000

// scan calls each with every member of the object doc, in their order. It decodes no value that
// is not used: a listing has thousands of documents, most of whose members are short texts.
func scan(doc []byte, each func(m member) error) error {
	in := jsonscan.New(doc, maxDepth)
	in.Space()
	for more, err := in.Object(1); more || err != nil; more, err = in.Next('}') {
		if err != nil {
			return err
		}
		name, err := in.Name()
		if err != nil {
			return err
		}
		from := in.Offset()
		if err := in.Value(2); err != nil {
			return err
		}
		key, _ := name.Plain()
		if err := each(member{key: key, value: in.Slice(from)}); err != nil {
			return err
		}
	}
	return in.End()
}

// text reads a string; null is the empty one.
func (m member) text() (string, error) {
	if m.null() {
		return "", nil
	}
	s, err := jsonscan.New(m.value, maxDepth).Text()
	return s.String(), err
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
	err = scan(m.value, func(outer member) error {
		if string(outer.key) != "Range" {
			return nil
		}
		found = true
		return scan(outer.value, func(inner member) (err error) {
			switch string(inner.key) {
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
		return fmt.Errorf("%s is %s: only ranges [min, max) are understood", m.key, m.value)
	}
	return nil
}

// appendTo appends the member's text to others, without space around the colon.
func (m member) appendTo(others string) string {
	if others != "" {
		others += ","
	}
	return others + `"` + string(m.key) + `":` + string(m.value)
}
