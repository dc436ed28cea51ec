package replicate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/internal/keypath"
)

// maxDepth is the maximum nesting of a document. It is more than the service accepts.
const maxDepth = 512

// systemProperties are the members that the service adds to a document, besides _lsn, which
// a feed appends after _ts. A copy gets new ones.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts"}

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

// shape holds the partition key definitions of both containers.
type shape struct {
	source, target definition
}

// definition is the partition key definition of a container.
type definition struct {
	paths [][]string
	// v1 reports whether the container hashes keys with version 1, which looks only at the
	// beginning of long strings.
	v1 bool
}

// key is a document's partition key in one of the containers.
type key struct {
	feed.PartitionKey
	// name identifies the logical partition. Version 1 of the hash makes one logical
	// partition of all keys that it cannot tell apart, and these have one name.
	name string
}

// key returns a partition key with its name.
func (d definition) key(k feed.PartitionKey) key {
	named := k
	if d.v1 {
		named = slices.Clone(k)
		for i, v := range named {
			if text, ok := v.(string); ok {
				named[i] = epk.CutV1(text)
			}
		}
	}
	return key{k, named.String()}
}

// document is a parsed document of either container.
type document struct {
	id string
	// source and target are the document's partition keys in the two containers. Keys are
	// compared by their names.
	source, target key
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
	dated := false // whether _ts has come; a member _lsn before it is the user's own
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
			dated = dated || name.Is("_ts")
			continue
		case dated && name.Is("_lsn"):
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
	if d.source, err = s.source.keyOf(members); err != nil {
		return document{}, err
	}
	d.target, err = s.target.keyOf(members)
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

// paths returns the key paths of both containers.
func (s shape) paths() [][]string { return slices.Concat(s.source.paths, s.target.paths) }

// wanted reports whether a key path begins with the member name. first is that name.
func (s shape) wanted(name jsonscan.Text) (first string, ok bool) {
	for _, path := range s.paths() {
		if name.Is(path[0]) {
			return path[0], true
		}
	}
	return "", false
}

// keyOf returns a document's partition key. As in the service, a missing value, an object
// or an array is undefined.
func (d definition) keyOf(members map[string]json.RawMessage) (key, error) {
	k := make(feed.PartitionKey, len(d.paths))
	for i, path := range d.paths {
		k[i] = feed.Undefined
		raw, found := members[path[0]]
		if !found {
			continue
		}
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return key{}, fmt.Errorf("the value of key %s: %w", strings.Join(path, "/"), err)
		}
		value, found = keypath.Lookup(value, path[1:])
		switch v := value.(type) {
		case string, bool, float64:
			k[i] = v
		case nil:
			if found {
				k[i] = nil
			}
		}
	}
	return d.key(k), nil
}

// name identifies a document of the source in messages, by its id and source key.
func (d document) name() string { return fmt.Sprintf("id %q of key %s", d.id, d.source) }
