package store

import (
	"bytes"
	"context"

	"github.com/cockroachdb/pebble/v2"
)

// indexed is an item's entry in the index. Its slices are valid during the visit only.
type indexed struct {
	entry
	// key is the whole key, and rest what follows the container in it: the point and the id.
	key, rest []byte
	// at is where the id begins in rest.
	at int
}

func (i *indexed) pointBytes() []byte { return i.rest[:i.at] }
func (i *indexed) id() []byte         { return i.rest[i.at:] }

// walkIndex visits the items of a scope in the order of (effective partition key, id), expired ones too,
// from behind the position after (point and id; empty: from the start) until visit returns false or
// an error, which is returned as it is. Where the scope has a full key, prefix skips all ids that
// don't begin with it at no cost; else it is not looked at. No document is read.
func (c *Container) walkIndex(ctx context.Context, v *view, sc *scope, prefix string, after []byte, visit func(*indexed) (bool, error)) (err error) {
	lower, upper := c.indexBounds(sc, prefix)
	if len(after) > 0 {
		from := append(append(appendContainerKey(nil, spaceIndex, c.number), after...), 0)
		if bytes.Compare(from, lower) > 0 {
			lower = from
		}
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return c.db.fault(err)
	}
	defer func() {
		if cerr := it.Close(); err == nil && cerr != nil {
			err = c.db.fault(cerr)
		}
	}()
	visited := 0
	var i indexed // visit makes it escape: one for all
	for ok := it.First(); ok; ok = it.Next() {
		if visited++; visited%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if i, err = readIndexed(it); err != nil {
			return c.db.fault(err)
		}
		if bytes.Compare(c.hash.EPK(i.pointBytes()), sc.upper) >= 0 {
			return nil // points sort as their EPKs do
		}
		if !sc.holds(i.pointBytes()) {
			continue
		}
		if more, err := visit(&i); err != nil || !more {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return c.db.fault(err)
	}
	return nil
}

// indexBounds are the keys of the index between which a scope's items are. Not all that is there is in it,
// unless the scope has a full key.
func (c *Container) indexBounds(sc *scope, prefix string) (lower, upper []byte) {
	base := appendContainerKey(nil, spaceIndex, c.number)
	if sc.point == nil {
		return append(bytes.Clone(base), sc.lower...), successor(base)
	}
	// No point is a prefix of another one.
	lower = append(append(base, sc.point...), prefix...)
	return lower, successor(lower)
}

// readIndexed reads the entry that an iterator stands on.
func readIndexed(it *pebble.Iterator) (indexed, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return indexed{}, err
	}
	e, err := decodeEntry(value)
	if err != nil {
		return indexed{}, err
	}
	key := it.Key()
	if len(key) < containerKeySize+int(e.point) {
		return indexed{}, corrupt("index entry %x has a point of %d bytes", key, e.point)
	}
	return indexed{entry: e, key: key, rest: key[containerKeySize:], at: int(e.point)}, nil
}
