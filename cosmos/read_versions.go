package cosmos

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/internal/keypath"
)

// metadata holds the member "metadata" of a change in all versions and deletes mode.
type metadata struct {
	op      string
	lsn     int64
	time    time.Time
	expired bool
	id      string
	// key is the JSON object with the partition key of a delete: names of paths, and
	// values.
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

// complete sets the fields of c that the metadata m contains.
func (s *pageScanner) complete(c *feed.Change, m *metadata) error {
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

// deletedKey returns the partition key of a delete. object contains its components by
// path, and paths gives their order. A component that is missing in object is undefined,
// because the item had none. If object is empty, the key is nil.
func deletedKey(object []byte, paths []keyPath) (feed.PartitionKey, error) {
	if object == nil {
		return nil, nil
	}
	var named map[string]any
	if err := json.Unmarshal(object, &named); err != nil {
		return nil, fmt.Errorf("the partition key of a delete: %w", err)
	}
	key := make(feed.PartitionKey, len(paths))
	for i, path := range paths {
		key[i] = path.component(named)
	}
	return key, nil
}

// keyPath is a path of the container's partition key.
type keyPath struct {
	// text is the path as the service writes it, without the first slash.
	text  string
	names []string
}

func parseKeyPaths(paths []string) ([]keyPath, error) {
	parsed := make([]keyPath, len(paths))
	for i, path := range paths {
		names, err := keypath.Parse(path)
		if err != nil {
			return nil, fmt.Errorf("its partition key path %q: %w", path, err)
		}
		parsed[i] = keyPath{strings.TrimPrefix(path, "/"), names}
	}
	return parsed, nil
}

// paths returns the paths of the container's partition key.
func (p *properties) paths() []string {
	all := make([]string, len(p.keyPaths))
	for i, path := range p.keyPaths {
		all[i] = "/" + path.text
	}
	return all
}

// component returns the value at the path in the key of a delete. The service names the
// components by whole paths, or nests them.
func (p keyPath) component(named map[string]any) any {
	value, found := named[p.text]
	if !found {
		value, found = keypath.Lookup(named, p.names)
	}
	switch value := value.(type) {
	case nil:
		if found {
			return nil
		}
	case bool, string, float64:
		return value
	}
	return feed.Undefined
}
