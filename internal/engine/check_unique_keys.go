package engine

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// checkUniqueEntries verifies that a document has its entries in the index of unique keys.
func (k *containerCheck) checkUniqueEntries(id string, point, stored []byte) error {
	if k.c.unique == nil {
		return nil
	}
	digests, err := k.c.unique.digests(stored)
	if err != nil {
		return k.complain("item %q: %v", id, err)
	}
	for i, d := range digests {
		key := append(appendUniquePrefix(nil, k.c.number, point, i, d), id...)
		_, closer, err := k.v.snap.Get(key)
		switch {
		case errors.Is(err, pebble.ErrNotFound):
			if err := k.complain("item %q is not in the index of the unique key %v", id, k.c.unique.keys[i]); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		k.unique++
		if err := closer.Close(); err != nil {
			return err
		}
	}
	return nil
}

// checkUnique verifies that the index of unique keys has no entries but those of the
// documents, and finds the items that have the same values.
func (k *containerCheck) checkUnique() error {
	n := 0
	err := eachKey(k.v.snap, appendContainerKey(nil, spaceUnique, k.c.number), func(_, _ []byte) error {
		n++
		return k.step()
	})
	if err == nil && n != k.unique {
		err = k.complain("the index of its unique keys has %d entries, of which %d are of its documents", n, k.unique)
	}
	if err != nil || k.c.unique == nil {
		return err
	}
	u := uniqueScan{
		r: k.v.snap, container: k.c.number, name: k.c.name, policy: k.c.unique,
		ttl: int32(k.s.meta.props.DefaultTTL), now: k.db.clock.seconds(),
	}
	return u.clashes(k.step, func(e *UniqueKeyError) bool {
		k.clashes = append(k.clashes, e)
		return len(k.clashes) < maxFindings
	})
}

// uniqueScan reads the whole index of a container's unique keys.
type uniqueScan struct {
	r         pebble.Reader
	container uint32
	name      string
	policy    *uniquePolicy
	// ttl is the container's; items that it makes expire before now don't count.
	ttl int32
	now int64
}

// errNoMore ends a scan.
var errNoMore = errors.New("no more wanted")

// clashes calls f for each live item that has the values of another live one, until f
// returns false. It calls step, whose error ends it, for each entry.
func (u *uniqueScan) clashes(step func() error, f func(*UniqueKeyError) bool) error {
	var prefix []byte // of the last live item
	var last string
	err := eachKey(u.r, appendContainerKey(nil, spaceUnique, u.container), func(key, value []byte) error {
		if err := step(); err != nil {
			return err
		}
		if len(key) == containerKeySize {
			return nil // the progress of an upgrade
		}
		e, err := decodeUniqueEntry(key, value)
		if err != nil || e.key >= len(u.policy.keys) {
			return errors.Join(err, corrupt("the unique index entry %x is of unique key %d", key, e.key))
		}
		item, ok, err := lookup(u.r, append(append(appendContainerKey(nil, spaceIndex, u.container), e.point...), e.id...))
		if err != nil || !ok || expired(item.ts, u.ttl, item.ttl, u.now) {
			return err
		}
		if bytes.Equal(e.prefix, prefix) && !f(&UniqueKeyError{Container: u.name, Paths: u.policy.keys[e.key], ID: string(e.id), Other: last}) {
			return errNoMore
		}
		prefix, last = append(prefix[:0], e.prefix...), string(e.id)
		return nil
	})
	if errors.Is(err, errNoMore) {
		return nil
	}
	return err
}
