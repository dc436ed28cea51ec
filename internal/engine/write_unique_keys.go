package engine

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// The index of unique keys has an entry for each item and unique key of the item's
// container. A value that several items have, as in containers of older formats, has
// an entry for each of them. So every write changes the entries of its own items only.

// uniqueChange is the effect of a write on the index: the digests that the item had
// and has, one for each unique key. Nil means that it had or has none.
type uniqueChange struct{ old, new []uniqueDigest }

// uniqueClaims are the entries that the group at hand has set (true) or deleted: by
// the entry's prefix and then by the item's id.
type uniqueClaims map[string]map[string]bool

// uniqueUndo restores one claim.
type uniqueUndo struct {
	ids        map[string]bool
	id         string
	was, known bool
}

// maxExpiredHolders is the largest number of expired items that a write purges for one
// of its values. Only containers that broke their policy in an older format have more.
const maxExpiredHolders = 8

// appendUniquePrefix appends the key of an index entry up to the item's id.
func appendUniquePrefix(dst []byte, container uint32, point []byte, key int, d uniqueDigest) []byte {
	dst = append(appendContainerKey(dst, spaceUnique, container), point...)
	return append(append(dst, byte(key)), d[:]...)
}

// uniqueProgressKey is the key of the progress of a container's upgrade. All entries of
// the container's index have longer keys.
func uniqueProgressKey(container uint32) []byte {
	return appendContainerKey(nil, spaceUnique, container)
}

// uniqueEntry is an entry of the index, its slices sharing the key's memory.
type uniqueEntry struct {
	prefix, point []byte
	key           int
	id            []byte
}

func decodeUniqueEntry(key, value []byte) (e uniqueEntry, err error) {
	if len(value) != 2 {
		return e, corrupt("the unique index entry %x has %d bytes, not 2", key, len(value))
	}
	at := containerKeySize + int(binary.BigEndian.Uint16(value))
	end := at + 1 + len(uniqueDigest{})
	if len(key) <= end {
		return e, corrupt("the unique index entry %x is too short", key)
	}
	return uniqueEntry{prefix: key[:end], point: key[containerKeySize:at], key: int(key[at]), id: key[end:]}, nil
}

// setUniqueEntry writes an item's entry for the value that prefix stands for.
func setUniqueEntry(b *pebble.Batch, prefix []byte, id string, point int) error {
	return b.Set(append(prefix, id...), binary.BigEndian.AppendUint16(nil, uint16(point)), nil)
}

// prepareUnique computes the digests of the document that an operation writes.
func (c *Container) prepareUnique(op *operation, text []byte) (err error) {
	if c.unique != nil {
		op.unique, err = c.unique.digests(text)
	}
	return err
}

// judgeUnique returns a *[UniqueKeyError] if another item has a value of the document
// that op writes. The value of an expired item is free: that item is purged, so that no
// later change of the container's time to live can bring it back beside the new one.
func (t *transaction) judgeUnique(op *operation) error {
	for i, d := range op.unique {
		other, err := t.uniqueHolder(op, appendUniquePrefix(nil, t.l.c.number, op.point, i, d))
		if err != nil {
			return err
		}
		if other != "" {
			return &UniqueKeyError{Container: t.l.c.name, Paths: t.l.c.unique.keys[i], ID: op.id, Other: other}
		}
	}
	return nil
}

// uniqueHolder returns the item, other than op's own, that has the value of prefix.
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
	key := append(appendContainerKey(nil, spaceIndex, t.l.c.number), op.point...)
	point := key[containerKeySize:len(key):len(key)]
	key = append(key, id...)
	v, err := t.find(key)
	if err != nil {
		return false, err
	}
	if !v.exists {
		return false, t.db.fault(corrupt("the unique index of container %s names item %q, which is not there", t.l.c.name, id))
	}
	if !expired(v.ts, int32(t.l.meta.props.DefaultTTL), v.ttl, t.ts) {
		return true, nil
	}
	if *purged++; *purged > maxExpiredHolders {
		return false, nil
	}
	_, err = t.add(effect{op: &operation{key: key, point: point, id: id}, remove: true, expired: true, old: v})
	return false, err
}

// claimUnique notes the effect of a write on the index, for the writes after it.
func (t *transaction) claimUnique(e *effect) error {
	c, change := t.l.c, &uniqueChange{}
	id := string(e.op.key[containerKeySize+len(e.op.point):])
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
			return t.db.fault(corrupt("item %q of container %s: %v", id, c.name, err))
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

// unclaim takes back the claims of a transaction that failed.
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

// putUnique writes an effect to the index.
func (t *transaction) putUnique(e *effect) error {
	c, id := t.l.c, string(e.op.key[containerKeySize+len(e.op.point):])
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
			errs = append(errs, t.behind.Delete(append(appendUniquePrefix(nil, c.number, e.op.point, i, *old), id...), nil))
		}
		if new != nil {
			errs = append(errs, setUniqueEntry(t.behind, appendUniquePrefix(nil, c.number, e.op.point, i, *new), id, len(e.op.point)))
		}
	}
	return errors.Join(errs...)
}
