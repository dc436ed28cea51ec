package changefeed

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/internal/keypath"
	"github.com/changefeed-go/changefeed/letters"
)

// laneKey names the lane of a change: by a hash of the whole key, which changes of one key
// share. Different keys may share it, too, and are then handled one after the other. A change
// is alone if its key cannot be read.
type laneKey struct {
	hash  uint64
	alone bool
}

// changeKey is the lane of a change and its place in its transaction.
type changeKey struct {
	laneKey
	inTransaction
}

// inTransaction is a change's place among those of its transaction. index is the number of those
// before it in the page, and nth the number of those of its item.
type inTransaction struct{ index, nth int }

// keyReader finds the keys of changes, without decoding their documents.
type keyReader struct {
	paths [][]string
	// items makes each item a key of its own.
	items bool
	seed  maphash.Seed
}

// newKeyReader returns the keyReader for a container with the given partition key paths. It
// returns a *ConfigError if changes cannot be ordered by them.
func newKeyReader(paths []string, cfg Config) (*keyReader, error) {
	order, field, remedy := cfg.Order, "Concurrency", "must be 1"
	if cfg.Concurrency == 1 {
		field, remedy = "Failure.Letters", "must be nil"
	}
	if len(paths) == 0 && order == OrderByKey {
		return nil, &ConfigError{field, remedy + ", because Source names no partition key paths; or set Order to OrderByItem"}
	}
	k := &keyReader{items: order == OrderByItem, seed: maphash.MakeSeed()}
	for _, path := range paths {
		names, err := keypath.Parse(path)
		if err != nil {
			return nil, &ConfigError{field, fmt.Sprintf("%s, because the container's partition key path %q cannot be read: %v", remedy, path, err)}
		}
		k.paths = append(k.paths, names)
	}
	return k, nil
}

// of returns the keys of changes, and copies of the changes. They share no memory with their
// page, which could otherwise not be freed while one of its changes waits.
func (k *keyReader) of(changes []feed.Change) ([]feed.Change, []changeKey) {
	copies, keys := make([]feed.Change, len(changes)), make([]changeKey, len(changes))
	first := 0 // of the transaction
	for i, c := range changes {
		c.Current, c.Previous = bytes.Clone(c.Current), bytes.Clone(c.Previous)
		copies[i], keys[i].laneKey = c, k.key(&c)
		if c.LSN != changes[first].LSN {
			first = i
		}
		keys[i].index = i - first
		keys[i].nth = sameItem(changes[first:i], &c)
	}
	return copies, keys
}

// sameItem returns how many of the changes are to the item of c.
func sameItem(changes []feed.Change, c *feed.Change) (n int) {
	if len(changes) == 0 {
		return 0
	}
	id, _ := c.ID()
	for i := range changes {
		if other, _ := changes[i].ID(); other == id {
			n++
		}
	}
	return n
}

// key returns the key of a change.
func (k *keyReader) key(c *feed.Change) laneKey { return k.unit(c, k.items) }

// ofLetter returns the hash of a letter's key, or of its item if items is set, and the key of the
// lane of its change.
func (k *keyReader) ofLetter(l letters.Letter, items bool) (unit uint64, lane laneKey) {
	c := feed.Change{Op: feed.Delete, DeletedID: l.ItemID, DeletedKey: l.PartitionKey}
	return k.unit(&c, items).hash, k.key(&c)
}

// unit returns the hash of a change's key, or of its item if items is set.
func (k *keyReader) unit(c *feed.Change, items bool) laneKey {
	var h maphash.Hash
	h.SetSeed(k.seed)
	if err := k.write(&h, c); err != nil {
		return laneKey{alone: true}
	}
	if items {
		id, err := c.ID()
		if err != nil {
			return laneKey{alone: true}
		}
		_, _ = h.WriteString(id)
	}
	return laneKey{hash: h.Sum64()}
}

// partitionKey returns the partition key of a change.
func (k *keyReader) partitionKey(c *feed.Change) (feed.PartitionKey, error) {
	item := c.Current
	switch {
	case item == nil && c.DeletedKey != nil:
		return c.DeletedKey, nil
	case item == nil:
		item = c.Previous
	}
	key := make(feed.PartitionKey, len(k.paths))
	for i, names := range k.paths {
		raw, err := keypath.Find(item, names)
		if err != nil {
			return nil, err
		}
		key[i] = feed.Undefined
		if raw == nil {
			continue
		}
		if err := json.Unmarshal(raw, &key[i]); err != nil {
			return nil, err
		}
	}
	return key, k.write(&maphash.Hash{}, c)
}

var errComponent = errors.New("the key of the change cannot be read")

// write writes the partition key of a change to h, in a form that does not depend on how a
// document spells a string or a number.
func (k *keyReader) write(h *maphash.Hash, c *feed.Change) error {
	item := c.Current
	switch {
	case item != nil:
	case c.DeletedKey != nil:
		if len(c.DeletedKey) != len(k.paths) {
			return errComponent
		}
		for _, component := range c.DeletedKey {
			if err := writeComponent(h, component); err != nil {
				return err
			}
		}
		return nil
	case c.Previous != nil:
		item = c.Previous
	default:
		return errComponent
	}
	for _, names := range k.paths {
		raw, err := keypath.Find(item, names)
		if err != nil {
			return err
		}
		if err := writeText(h, raw); err != nil {
			return err
		}
	}
	return nil
}

// writeText writes a component as the JSON of a document has it. It is nil if the document
// lacks it.
func writeText(h *maphash.Hash, raw []byte) error {
	if raw == nil {
		return writeComponent(h, feed.Undefined)
	}
	switch raw[0] {
	case '"':
		text, err := jsonscan.New(raw, 1).Text()
		if err != nil {
			return err
		}
		return writeComponent(h, text.String())
	case 't', 'f':
		return writeComponent(h, raw[0] == 't')
	case 'n':
		return writeComponent(h, nil)
	case '{', '[':
		return errComponent
	}
	number, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return err
	}
	return writeComponent(h, number)
}

// writeComponent writes a component with a mark of its kind. What it writes for one component
// is never the beginning of what it writes for another.
func writeComponent(h *maphash.Hash, component any) error {
	var b [9]byte
	switch v := component.(type) {
	case nil:
		_ = h.WriteByte('n')
	case bool:
		b[0] = 'f'
		if v {
			b[0] = 't'
		}
		_ = h.WriteByte(b[0])
	case string:
		_, _ = h.Write(binary.BigEndian.AppendUint64(append(b[:0], 's'), uint64(len(v))))
		_, _ = h.WriteString(v)
	case float64:
		if v == 0 {
			v = 0 // not -0
		}
		_, _ = h.Write(binary.BigEndian.AppendUint64(append(b[:0], 'd'), math.Float64bits(v)))
	default:
		if component != any(feed.Undefined) {
			return errComponent
		}
		_ = h.WriteByte('u')
	}
	return nil
}
