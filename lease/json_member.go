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

// member is one member of a JSON object. key and value are slices of the object's text,
// and key is without quotes. A key with escapes equals none of the names that the codec
// looks for, so its member is kept as an unknown one.
type member struct {
	key, value []byte
}

// maxDepth is the maximum nesting of a document that the codec parses. encoding/json has
// the same limit.
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

// text returns the decoded string of the member. For null it returns an empty string.
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

// time returns the member's timestamp. Older Java hosts wrote the name of the time zone
// after it, which is ignored. For any text that is not a timestamp it returns the zero
// time, because nothing depends on timestamps.
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

// properties returns the member's object of strings. It returns an error if a value is
// not a string, because no implementation writes such a value.
func (m member) properties() (map[string]string, error) {
	if m.null() || string(m.value) == "{}" {
		return nil, nil
	}
	var p map[string]string
	err := json.Unmarshal(m.value, &p)
	return p, err
}

// feedRange returns the range of keys in the form {"Range":{"min","max"}}. The other
// forms, a partition's id and a partition key, do not contain a range. For them it
// returns the member's text as other.
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

// want returns an error unless the member has the given value, the only one that the
// codec supports.
func (m member) want(value string) error {
	if string(m.value) != value {
		return fmt.Errorf("%s is %s; only ranges [min, max) are supported", m.key, m.value)
	}
	return nil
}

// appendTo returns others with the member's text added, separated by a comma. others is a
// list of members without brackets.
func (m member) appendTo(others string) string {
	if others != "" {
		others += ","
	}
	return others + `"` + string(m.key) + `":` + string(m.value)
}
