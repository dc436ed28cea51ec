package cosmos

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// metadata is what all versions and deletes mode tells of a change, beside its images.
type metadata struct {
	op      string
	lsn     int64
	time    time.Time
	expired bool
	id      string
	// key is the partition key of a delete: an object of names and values.
	key []byte
}

func (m *metadata) read(in *jsonscan.Scanner) error {
	for more, err := in.Object(4); more || err != nil; more, err = in.Next('}') {
		if err != nil {
			return err
		}
		name, err := in.Name()
		if err != nil {
			return err
		}
		switch {
		case name.Is("operationType"):
			m.op, err = text(in)
		case name.Is("lsn"):
			m.lsn, err = in.Int()
		case name.Is("crts"):
			m.time, err = seconds(in)
		case name.Is("id") && in.Peek() == '"':
			m.id, err = text(in)
		default:
			from := in.Offset()
			err = in.Value(5)
			switch value := in.Slice(from); {
			case err != nil:
			case name.Is("timeToLiveExpired"):
				m.expired = string(value) == "true"
			case name.Is("partitionKey") && value[0] == '{':
				m.key = value
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func text(in *jsonscan.Scanner) (string, error) {
	t, err := in.Text()
	return t.String(), err
}

// complete makes a change of what was read.
func (s *splitter) complete(c *feed.Change, m *metadata) error {
	c.LSN, c.Time, c.Expired = m.lsn, m.time, m.expired
	switch m.op {
	case "create":
		c.Op = feed.Create
	case "replace":
		c.Op = feed.Replace
	case "delete":
		c.Op = feed.Delete
	default:
		return fmt.Errorf("a change has the operation %.40q", m.op)
	}
	if c.Op != feed.Delete {
		c.Expired = false
		if c.Current == nil {
			return errNoImage
		}
		return nil
	}
	c.Current, c.DeletedID = nil, m.id
	var err error
	c.DeletedKey, err = deletedKey(m.key, s.keyPaths)
	return err
}

// deletedKey is a key in the order of the container's paths. A component that the object doesn't name is undefined: the item had none.
// Without an object there is no key.
func deletedKey(object []byte, paths []string) (feed.PartitionKey, error) {
	if object == nil {
		return nil, nil
	}
	var named map[string]any
	if err := json.Unmarshal(object, &named); err != nil {
		return nil, fmt.Errorf("the partition key of a delete: %w", err)
	}
	key := make(feed.PartitionKey, len(paths))
	for i, path := range paths {
		key[i] = component(named, path)
	}
	return key, nil
}

// component finds the value at a path, which is named without its slash. A nested path is named whole, or
// is nested here too.
func component(named map[string]any, path string) any {
	names := pathNames(path)
	value, found := named[strings.TrimPrefix(path, "/")]
	if !found && len(names) == 1 {
		value, found = named[names[0]]
	}
	if !found {
		value = named
		for _, name := range names {
			object, ok := value.(map[string]any)
			if !ok {
				return feed.Undefined
			}
			if value, ok = object[name]; !ok {
				return feed.Undefined
			}
		}
	}
	switch value := value.(type) {
	case nil, bool, string, float64:
		return value
	}
	return feed.Undefined
}

// pathNames are the names of a path such as /a/b or /"quoted name".
func pathNames(path string) []string {
	var names []string
	for rest := strings.TrimPrefix(path, "/"); rest != ""; {
		var name string
		if rest[0] == '"' {
			if end := quotedEnd(rest); json.Unmarshal([]byte(rest[:end]), &name) == nil {
				names, rest = append(names, name), strings.TrimPrefix(rest[end:], "/")
				continue
			}
		}
		name, rest, _ = strings.Cut(rest, "/")
		names = append(names, name)
	}
	return names
}

// quotedEnd is the index behind the JSON string that s begins with, or the length of s.
func quotedEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}
