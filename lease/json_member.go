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

// member is one member of a JSON object, as slices of its text. key is the name without
// quotes. A name with escapes matches none of the names that the codec looks for; the
// member is kept like any unknown one.
type member struct {
	key, value []byte
}

// maxDepth limits the nesting of documents. encoding/json has the same limit.
const maxDepth = 10_000

// scan calls each with every member of the object doc, in order. It decodes no value,
// because a listing has thousands of documents and most members are short texts.
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

// text decodes a string. It returns an empty string for null.
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

// time parses a timestamp. It returns the zero time for any other text, because nothing
// depends on timestamps. Older Java hosts wrote the name of the zone after it.
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

// properties parses an object of strings. It refuses other values; no implementation
// writes them.
func (m member) properties() (map[string]string, error) {
	if m.null() || string(m.value) == "{}" {
		return nil, nil
	}
	var p map[string]string
	err := json.Unmarshal(m.value, &p)
	return p, err
}

// feedRange parses {"Range":{"min","max"}}. For another form (a partition's id, a
// partition key) it returns the text, because the form does not contain the range.
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
		return feed.Range{}, "", fmt.Errorf("%s is not a range of keys", m.value)
	}
	return r, "", nil
}

// want returns an error if the member has another value, which the codec does not
// support.
func (m member) want(value string) error {
	if string(m.value) != value {
		return fmt.Errorf("%s is %s; only ranges [min, max) are supported", m.key, m.value)
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
