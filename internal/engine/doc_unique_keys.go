package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// Limits of unique keys.
const (
	// MaxUniqueKeys is the largest number of unique keys of a container.
	MaxUniqueKeys = 10
	// MaxUniqueKeyPaths is the largest number of paths of a unique key.
	MaxUniqueKeyPaths = 16
)

// UniqueKeyError reports that two items of one logical partition have the same
// values in a unique key of their container. It wraps [ErrConflict].
type UniqueKeyError struct {
	// Container is the container's name, and Paths are those of the unique key.
	Container string
	Paths     []string
	// ID is the item that was written, and Other the item that has the values.
	// In an error of [DB.Check] both items are stored.
	ID, Other string
}

func (e *UniqueKeyError) Error() string {
	return fmt.Sprintf("unique index constraint violation: item %q of container %s has the values of item %q at %s",
		e.ID, e.Container, e.Other, strings.Join(e.Paths, ", "))
}

// Unwrap returns [ErrConflict].
func (e *UniqueKeyError) Unwrap() error { return ErrConflict }

// uniqueDigest stands for the values of one unique key in one document. Equal
// digests mean equal values.
type uniqueDigest [16]byte

// uniquePolicy finds the values of a container's unique keys in documents. It is
// immutable and safe for concurrent use.
type uniquePolicy struct {
	// keys are the paths of each unique key, as they were given.
	keys [][]string
	// places are, for each unique key, the places of its values among all values.
	places [][]int
	// count is the number of distinct paths, and so of values.
	count int
	root  pathNode
}

// pathNode is a name in the tree of all paths of a policy.
type pathNode struct {
	name string
	// place is that of the value among all values; -1 if no path ends here.
	place    int
	children []*pathNode
}

// parseUniqueKeys reads the paths of a container's unique keys. It returns nil if
// there are none. Its error is a *[BadRequestError] of the kind BadProperties.
func parseUniqueKeys(keys [][]string) (*uniquePolicy, error) {
	if len(keys) == 0 {
		return nil, nil //nolint:nilnil // no policy is no error
	}
	if len(keys) > MaxUniqueKeys {
		return nil, badRequest(BadProperties, "a container has at most %d unique keys, not %d", MaxUniqueKeys, len(keys))
	}
	p := &uniquePolicy{keys: cloneUniqueKeys(keys), root: pathNode{place: -1}}
	for _, paths := range p.keys {
		if len(paths) == 0 || len(paths) > MaxUniqueKeyPaths {
			return nil, badRequest(BadProperties, "a unique key has 1 to %d paths, not %d", MaxUniqueKeyPaths, len(paths))
		}
		var places []int
		for _, path := range paths {
			names, err := parsePath("unique key path", path)
			if err != nil {
				return nil, err
			}
			if i := slices.IndexFunc(names, isWildcard); i >= 0 && !strings.Contains(path, `"`) {
				return nil, badRequest(BadProperties, "unique key path %q: %s stands for elements of arrays or for any name, which a unique key can't have", path, names[i])
			}
			place := p.place(names)
			if slices.Contains(places, place) {
				return nil, badRequest(BadProperties, "the path %s occurs twice in a unique key", path)
			}
			places = append(places, place)
		}
		p.places = append(p.places, places)
	}
	return p, nil
}

// isWildcard reports whether a name in a path of the service's index stands for others.
func isWildcard(name string) bool { return name == "*" || name == "?" || name == "[]" }

// place returns the place of the value at a path, and adds the path if it is new.
func (p *uniquePolicy) place(names []string) int {
	n := &p.root
	for _, name := range names {
		child := n.child(func(c *pathNode) bool { return c.name == name })
		if child == nil {
			child = &pathNode{name: name, place: -1}
			n.children = append(n.children, child)
		}
		n = child
	}
	if n.place < 0 {
		n.place = p.count
		p.count++
	}
	return n.place
}

func (n *pathNode) child(is func(*pathNode) bool) *pathNode {
	if i := slices.IndexFunc(n.children, is); i >= 0 {
		return n.children[i]
	}
	return nil
}

// digests returns the digest of each unique key in a document, which is a whole
// JSON text. System properties may be among its members.
func (p *uniquePolicy) digests(text []byte) ([]uniqueDigest, error) {
	values, err := p.values(text)
	if err != nil {
		return nil, err
	}
	digests := make([]uniqueDigest, len(p.places))
	var encoded []byte
	for i, places := range p.places {
		encoded = encoded[:0]
		for _, place := range places {
			encoded = appendUniqueValue(encoded, values[place])
		}
		sum := sha256.Sum256(encoded)
		copy(digests[i][:], sum[:])
	}
	return digests, nil
}

// values returns the JSON text at each path; nil if there is none.
func (p *uniquePolicy) values(text []byte) ([][]byte, error) {
	values := make([][]byte, p.count)
	s := jsonscan.New(text, MaxDepth)
	s.Space()
	return values, p.root.collect(s, 1, values)
}

// collect passes an object and keeps the values of its members. Of members that
// share a name the last one counts.
func (n *pathNode) collect(s *jsonscan.Scanner, depth int, values [][]byte) error {
	for more, err := s.Object(depth); more || err != nil; more, err = s.Next('}') {
		if err != nil {
			return err
		}
		name, err := s.Name()
		if err != nil {
			return err
		}
		child := n.child(func(c *pathNode) bool { return name.Is(c.name) })
		from, object := s.Offset(), s.Peek() == '{'
		if err := s.Value(depth + 1); err != nil {
			return err
		}
		if child == nil {
			continue
		}
		child.clear(values)
		if child.place >= 0 {
			values[child.place] = s.Slice(from)
		}
		if object && len(child.children) > 0 {
			s.Back(from)
			if err := child.collect(s, depth+1, values); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear removes the values at and below a name.
func (n *pathNode) clear(values [][]byte) {
	if n.place >= 0 {
		values[n.place] = nil
	}
	for _, c := range n.children {
		c.clear(values)
	}
}

// appendUniqueValue appends a JSON value in a form that is the same for equal
// values only. A missing value is null. Numbers are equal as float64, strings
// byte for byte once decoded, objects and arrays by what they contain.
func appendUniqueValue(dst, value []byte) []byte {
	if len(value) == 0 {
		return append(dst, 'n')
	}
	switch value[0] {
	case 'n', 't', 'f':
		return append(dst, value[0])
	case '"':
		if t, err := jsonscan.New(value, 1).Text(); err == nil {
			return appendSized(append(dst, 's'), t.String())
		}
	case '{', '[':
		var v any
		if json.Unmarshal(value, &v) == nil {
			if b, err := json.Marshal(v); err == nil { // members in the order of their names
				value = b
			}
		}
	default:
		f, _ := strconv.ParseFloat(string(value), 64) // out of range: an infinity
		if f == 0 {
			f = 0 // -0 is equal
		}
		return binary.BigEndian.AppendUint64(append(dst, 'd'), math.Float64bits(f))
	}
	return appendSized(append(dst, 'j'), string(value))
}

func appendSized(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...)
}

// cloneUniqueKeys returns a copy that shares no memory.
func cloneUniqueKeys(keys [][]string) [][]string {
	clone := slices.Clone(keys)
	for i, paths := range clone {
		clone[i] = slices.Clone(paths)
	}
	return clone
}

// sameUniqueKeys reports whether two policies have the same keys in the same order.
func sameUniqueKeys(a, b [][]string) bool {
	return slices.EqualFunc(a, b, func(a, b []string) bool { return slices.Equal(a, b) })
}
