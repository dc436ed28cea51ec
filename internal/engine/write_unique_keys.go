package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// The index of unique keys has an entry for each item and unique key of the item's
// container, so that every write changes only the entries of its own items.

// uniqueChange is the effect of a write on the index. It has the digests of the old and
// of the new item, one for each unique key. A nil slice means that there is no such item.
type uniqueChange struct{ old, new []uniqueDigest }

// uniqueClaims are the entries that the current group has set (true) or deleted (false),
// by the entry's prefix and the item's id.
type uniqueClaims map[string]map[string]bool

// uniqueUndo is the earlier state of one claim. A transaction that fails restores it.
type uniqueUndo struct {
	ids        map[string]bool
	id         string
	was, known bool
}

// maxExpiredHolders is the largest number of expired items that a write purges for one
// of its values.
const maxExpiredHolders = 8

// appendUniquePrefix appends the key of an index entry up to the item's id.
func appendUniquePrefix(dst []byte, container uint32, point []byte, key int, d uniqueDigest) []byte {
	dst = append(layout.AppendContainerKey(dst, layout.SpaceUnique, container), point...)
	return append(append(dst, byte(key)), d[:]...)
}

// uniqueEntry is a decoded key of the index of unique keys. Its slices share the key's
// memory.
type uniqueEntry struct {
	prefix, point []byte
	key           int
	id            []byte
}

func decodeUniqueEntry(key, value []byte) (e uniqueEntry, err error) {
	if len(value) != 2 {
		return e, layout.Corrupt("the unique index entry %x has %d bytes, not 2", key, len(value))
	}
	at := layout.ContainerKeySize + int(binary.BigEndian.Uint16(value))
	end := at + 1 + len(uniqueDigest{})
	if len(key) <= end {
		return e, layout.Corrupt("the unique index entry %x is too short", key)
	}
	return uniqueEntry{prefix: key[:end], point: key[layout.ContainerKeySize:at], key: int(key[at]), id: key[end:]}, nil
}

// setUniqueEntry adds an index entry to the batch. prefix is its key without the item's
// id, and point the size of the point in it.
func setUniqueEntry(b *pebble.Batch, prefix []byte, id string, point int) error {
	return b.Set(append(prefix, id...), binary.BigEndian.AppendUint16(nil, uint16(point)), nil)
}

// prepareUnique computes the digests of a document that an operation writes. They are
// computed from the stored text, because the digests of a list differ for -0.0 and 0.
func (c *Container) prepareUnique(op *operation, doc layout.Document) (err error) {
	if c.unique != nil {
		op.unique, err = c.unique.digests(append(slices.Clip(doc.Body), '}'))
	}
	return err
}

// judgeUnique returns a *[storetype.UniqueKeyError] if another item has a unique value of the
// document that op writes. An expired item does not keep its value: it is purged. So no
// later change of the container's time to live can bring it back next to the new item.
func (t *transaction) judgeUnique(op *operation) error {
	for i, d := range op.unique {
		other, err := t.uniqueHolder(op, appendUniquePrefix(nil, t.l.c.number, op.point, i, d))
		if err != nil {
			return err
		}
		if other != "" {
			return &storetype.UniqueKeyError{Container: t.l.c.name, Paths: t.l.c.unique.keys[i], ID: op.id, Other: other}
		}
	}
	return nil
}

// uniqueHolder returns the id of another live item that has the unique value in prefix.
// It returns "" if there is none.
func (t *transaction) uniqueHolder(op *operation, prefix []byte) (other string, err error) {
	expired := 0
	claims := t.claims[string(prefix)]
	for id, holds := range claims {
		if holds && id != op.id {
			if live, err := t.isLiveHolder(op, id, &expired); live || err != nil {
				return id, err
			}
		}
	}
	if t.unique == nil {
		if t.unique, err = t.db.pebble.NewIter(nil); err != nil {
			return "", t.db.fault(err)
		}
	}
	for ok := t.unique.SeekGE(prefix); ok && bytes.HasPrefix(t.unique.Key(), prefix); ok = t.unique.Next() {
		id := string(t.unique.Key()[len(prefix):])
		if _, changed := claims[id]; changed || id == op.id {
			continue
		}
		if live, err := t.isLiveHolder(op, id, &expired); live || err != nil {
			return id, err
		}
	}
	if err := t.unique.Error(); err != nil {
		return "", t.db.fault(err)
	}
	return "", nil
}

// isLiveHolder reports whether an item that has an index entry is live. If it is
// expired, the transaction purges it.
func (t *transaction) isLiveHolder(op *operation, id string, purged *int) (bool, error) {
	key := append(layout.AppendContainerKey(nil, layout.SpaceIndex, t.l.c.number), op.point...)
	point := key[layout.ContainerKeySize:len(key):len(key)]
	key = append(key, id...)
	v, err := t.find(key)
	if err != nil {
		return false, err
	}
	if !v.exists {
		return false, t.db.fault(layout.Corrupt("the unique index of container %s names item %q, which is not there", t.l.c.name, id))
	}
	if !layout.Expired(v.TS, int32(t.l.meta.props.DefaultTTL), v.TTL, t.ts) {
		return true, nil
	}
	if *purged++; *purged > maxExpiredHolders {
		return false, nil
	}
	_, err = t.add(effect{op: &operation{key: key, point: point, id: id}, remove: true, expired: true, old: v})
	return false, err
}

// claimUnique records how the write e changes the index of unique keys. Later operations
// of the group see the change.
func (t *transaction) claimUnique(e *effect) error {
	c, change := t.l.c, &uniqueChange{}
	id := string(e.op.key[layout.ContainerKeySize+len(e.op.point):])
	if e.old.exists {
		stored := e.previous
		if stored == nil {
			var err error
			if stored, err = t.appendDocument(nil, e.op, e.old); err != nil {
				return t.db.fault(err)
			}
		}
		var err error
		if change.old, err = c.unique.digests(stored); err != nil {
			return t.db.fault(layout.Corrupt("item %q of container %s: %v", id, c.name, err))
		}
	}
	if !e.remove {
		change.new = e.op.unique
	}
	e.unique = change
	for i, d := range change.old {
		t.claim(appendUniquePrefix(nil, c.number, e.op.point, i, d), id, false)
	}
	for i, d := range change.new {
		t.claim(appendUniquePrefix(nil, c.number, e.op.point, i, d), id, true)
	}
	return nil
}

func (t *transaction) claim(prefix []byte, id string, holds bool) {
	if t.claims == nil {
		t.claims = uniqueClaims{}
	}
	ids := t.claims[string(prefix)]
	if ids == nil {
		ids = map[string]bool{}
		t.claims[string(prefix)] = ids
	}
	was, known := ids[id]
	t.undo = append(t.undo, uniqueUndo{ids: ids, id: id, was: was, known: known})
	ids[id] = holds
}

// unclaim reverts the claims of a transaction that failed.
func (t *transaction) unclaim() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		if u := t.undo[i]; u.known {
			u.ids[u.id] = u.was
		} else {
			delete(u.ids, u.id)
		}
	}
	t.undo = t.undo[:0]
}

// putUnique adds the changes of the index of unique keys by the write e to the batch.
func (t *transaction) putUnique(e *effect) error {
	c, id := t.l.c, string(e.op.key[layout.ContainerKeySize+len(e.op.point):])
	var errs []error
	for i := range c.unique.keys {
		var old, new *uniqueDigest
		if e.unique.old != nil {
			old = &e.unique.old[i]
		}
		if e.unique.new != nil {
			new = &e.unique.new[i]
		}
		if old != nil && new != nil && *old == *new {
			continue
		}
		if old != nil {
			errs = append(errs, t.deferred.Delete(append(appendUniquePrefix(nil, c.number, e.op.point, i, *old), id...), nil))
		}
		if new != nil {
			errs = append(errs, setUniqueEntry(t.deferred, appendUniquePrefix(nil, c.number, e.op.point, i, *new), id, len(e.op.point)))
		}
	}
	return errors.Join(errs...)
}

// Limits of unique keys.
const (
	// MaxUniqueKeys is the largest number of unique keys of a container.
	MaxUniqueKeys = 10
	// MaxUniqueKeyPaths is the largest number of paths of a unique key.
	MaxUniqueKeyPaths = 16
)

// uniqueDigest is a hash of the values of one unique key in one document. Equal digests
// mean equal values.
type uniqueDigest [16]byte

// uniquePolicy has the unique keys of a container and finds their values in documents. It
// is immutable and safe for concurrent use.
type uniquePolicy struct {
	// keys has the paths of each unique key, as they were given.
	keys [][]string
	// indexes has an element for each unique key: the indexes of its values in the result
	// of values.
	indexes [][]int
	// count is the number of distinct paths, and so of values.
	count int
	root  pathNode
}

// pathNode is a name in the tree of all paths of a policy.
type pathNode struct {
	name string
	// index is the index of the path's value in the result of values, or -1 if no path
	// ends here.
	index    int
	children []*pathNode
}

// parseUniqueKeys parses the paths of a container's unique keys. It returns nil if keys
// is empty. Its error is a *[storetype.BadRequestError] of the kind BadProperties.
func parseUniqueKeys(keys [][]string) (*uniquePolicy, error) {
	if len(keys) == 0 {
		return nil, nil //nolint:nilnil // nil is the policy without keys
	}
	if len(keys) > MaxUniqueKeys {
		return nil, layout.BadRequest(storetype.BadProperties, "a container has at most %d unique keys, not %d", MaxUniqueKeys, len(keys))
	}
	p := &uniquePolicy{keys: cloneUniqueKeys(keys), root: pathNode{index: -1}}
	for _, paths := range p.keys {
		if len(paths) == 0 || len(paths) > MaxUniqueKeyPaths {
			return nil, layout.BadRequest(storetype.BadProperties, "a unique key has 1 to %d paths, not %d", MaxUniqueKeyPaths, len(paths))
		}
		var indexes []int
		for _, path := range paths {
			names, err := layout.ParsePath("unique key path", path)
			if err != nil {
				return nil, err
			}
			if i := slices.IndexFunc(names, isWildcard); i >= 0 && !strings.Contains(path, `"`) {
				return nil, layout.BadRequest(storetype.BadProperties, "unique key path %q: %s stands for elements of arrays or for any name, which a unique key cannot have", path, names[i])
			}
			index := p.index(names)
			if slices.Contains(indexes, index) {
				return nil, layout.BadRequest(storetype.BadProperties, "the path %s occurs twice in a unique key", path)
			}
			indexes = append(indexes, index)
		}
		p.indexes = append(p.indexes, indexes)
	}
	return p, nil
}

// isWildcard reports whether a name is a wildcard in the paths of the service's index.
func isWildcard(name string) bool { return name == "*" || name == "?" || name == "[]" }

// index returns the index of the value at a path. It adds the path if it is new.
func (p *uniquePolicy) index(names []string) int {
	n := &p.root
	for _, name := range names {
		child := n.child(func(c *pathNode) bool { return c.name == name })
		if child == nil {
			child = &pathNode{name: name, index: -1}
			n.children = append(n.children, child)
		}
		n = child
	}
	if n.index < 0 {
		n.index = p.count
		p.count++
	}
	return n.index
}

func (n *pathNode) child(is func(*pathNode) bool) *pathNode {
	if i := slices.IndexFunc(n.children, is); i >= 0 {
		return n.children[i]
	}
	return nil
}

// digests returns the digest of each unique key in a document. The document is a whole
// JSON text and may have system properties.
func (p *uniquePolicy) digests(text []byte) ([]uniqueDigest, error) {
	values, err := p.values(text)
	if err != nil {
		return nil, err
	}
	digests := make([]uniqueDigest, len(p.indexes))
	var encoded []byte
	for i, indexes := range p.indexes {
		encoded = encoded[:0]
		for _, index := range indexes {
			encoded = appendUniqueValue(encoded, values[index])
		}
		sum := sha256.Sum256(encoded)
		copy(digests[i][:], sum[:])
	}
	return digests, nil
}

// values returns the JSON text at each path, or nil for a missing value.
func (p *uniquePolicy) values(text []byte) ([][]byte, error) {
	values := make([][]byte, p.count)
	s := jsonscan.New(text, layout.MaxDepth)
	s.Space()
	return values, p.root.collect(s, 1, values)
}

// collect scans an object and stores the values of its members. If members share a name,
// the last one counts.
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
		if child.index >= 0 {
			values[child.index] = s.Slice(from)
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

// clear removes the values that were found at and below a name, because a later member
// has the same name.
func (n *pathNode) clear(values [][]byte) {
	if n.index >= 0 {
		values[n.index] = nil
	}
	for _, c := range n.children {
		c.clear(values)
	}
}

// appendUniqueValue appends a JSON value in a canonical form: only equal values have the
// same form. A missing value is null. Numbers are compared as float64, strings byte for
// byte once decoded, and objects and arrays by their contents.
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
			if b, err := json.Marshal(v); err == nil { // Marshal sorts the members by name
				value = b
			}
		}
	default:
		f, _ := strconv.ParseFloat(string(value), 64) // a value out of range becomes an infinity
		if f == 0 {
			f = 0 // -0 equals 0
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
