package replicate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/internal/keypath"
)

// maxDepth is the maximum nesting of a document. It is more than the service accepts.
const maxDepth = 512

// systemProperties are the members that the service adds to a document. A copy gets new
// ones.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// parseKeyPaths parses partition key paths. For example, /address/city becomes
// {"address", "city"}.
func parseKeyPaths(paths []string) ([][]string, error) {
	all := make([][]string, len(paths))
	for i, path := range paths {
		names, err := keypath.Parse(path)
		if err == nil && len(names) == 0 {
			err = errors.New("it must have the form /name")
		}
		if err != nil {
			return nil, fmt.Errorf("the path of a key is %q: %w", path, err)
		}
		all[i] = names
	}
	return all, nil
}

// shape holds the partition key paths of both containers.
type shape struct {
	source, target [][]string
}

// document is a parsed document of either container.
type document struct {
	id string
	// source and target are the document's partition keys in the two containers. Keys are
	// compared by their texts.
	source, target feed.PartitionKey
	// body is the document without the system properties.
	body json.RawMessage
}

// errNoID reports a document that cannot be copied.
var errNoID = errors.New("the document has no id")

// parse parses a document. The result does not share memory with raw.
func (s shape) parse(raw json.RawMessage) (document, error) {
	var d document
	members := map[string]json.RawMessage{} // the members at which key paths begin
	body := make([]byte, 0, len(raw))
	in := jsonscan.New(raw, maxDepth)
	in.Space()
	found := false
	for more, err := in.Object(1); more || err != nil; more, err = in.Next('}') {
		if err != nil {
			return document{}, err
		}
		in.Space()
		from := in.Offset()
		name, err := in.Name()
		if err != nil {
			return document{}, err
		}
		at := in.Offset()
		if err := in.Value(2); err != nil {
			return document{}, err
		}
		value := in.Slice(at)
		switch {
		case isSystem(name):
			continue
		case name.Is("id"):
			if json.Unmarshal(value, &d.id) != nil {
				return document{}, errNoID
			}
			found = true
		}
		if first, wanted := s.wanted(name); wanted {
			members[first] = value
		}
		if len(body) > 0 {
			body = append(body, ',')
		} else {
			body = append(body, '{')
		}
		body = append(body, in.Slice(from)...)
	}
	if !found {
		return document{}, errNoID
	}
	d.body = append(body, '}')
	var err error
	if d.source, err = keyOf(members, s.source); err != nil {
		return document{}, err
	}
	d.target, err = keyOf(members, s.target)
	return d, err
}

func isSystem(name jsonscan.Text) bool {
	for _, system := range systemProperties {
		if name.Is(system) {
			return true
		}
	}
	return false
}

// wanted reports whether a key path begins with the member name. first is that name.
func (s shape) wanted(name jsonscan.Text) (first string, ok bool) {
	for _, paths := range [][][]string{s.source, s.target} {
		for _, path := range paths {
			if name.Is(path[0]) {
				return path[0], true
			}
		}
	}
	return "", false
}

// keyOf returns a document's partition key for the given paths. As in the service, a
// missing value, an object or an array is undefined.
func keyOf(members map[string]json.RawMessage, paths [][]string) (feed.PartitionKey, error) {
	key := make(feed.PartitionKey, len(paths))
	for i, path := range paths {
		key[i] = feed.Undefined
		raw, found := members[path[0]]
		if !found {
			continue
		}
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, fmt.Errorf("the value of key %s: %w", strings.Join(path, "/"), err)
		}
		value, found = keypath.Lookup(value, path[1:])
		switch v := value.(type) {
		case string, bool, float64:
			key[i] = v
		case nil:
			if found {
				key[i] = nil
			}
		}
	}
	return key, nil
}

// name identifies a document of the source in messages, by its id and source key.
func (d document) name() string { return fmt.Sprintf("id %q of key %s", d.id, d.source) }
