package engine

import (
	"bytes"
	"context"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// DatabaseByRID returns the database with a resource id (_rid). It returns an error that
// wraps feed.ErrNotFound if there is none, or if id is not the rid of a database.
func (db *DB) DatabaseByRID(ctx context.Context, id string) (storetype.DatabaseProperties, error) {
	v, err := db.acquire(ctx)
	if err != nil {
		return storetype.DatabaseProperties{}, err
	}
	defer v.release()
	if r, ok := layout.ParseRID(id); ok && r.Container == 0 {
		for _, d := range v.catalog.databases {
			if d.number == r.Database {
				return db.propertiesOf(d), nil
			}
		}
	}
	return storetype.DatabaseProperties{}, notFound("database with the _rid %q", id)
}

// ContainerByRID returns the container with a resource id (_rid). It returns an error
// that wraps feed.ErrNotFound if there is none, or if id is not the rid of a container. A
// container that is recreated under an old name has another rid.
func (db *DB) ContainerByRID(ctx context.Context, id string) (*Container, error) {
	v, err := db.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer v.release()
	if r, ok := layout.ParseRID(id); ok && r.Container != 0 && r.Document == 0 {
		for _, s := range v.states {
			if s != nil && s.c.number == r.Container && s.c.database == r.Database {
				return s.c, nil
			}
		}
	}
	return nil, notFound("container with the _rid %q", id)
}

// Located is an item that was found without its key and id.
type Located struct {
	// Key and ID are the address of the item.
	Key feed.PartitionKey
	ID  string
	// Result is the result of a read of the item.
	storetype.Result
}

// ItemByRID returns the item with a resource id (_rid), and its key and id. key limits
// the search to a logical partition key, or to a prefix of a hierarchical one. If nil,
// the whole container is searched, which costs one lookup for each physical partition.
//
// ItemByRID returns an error that wraps feed.ErrNotFound if there is no such item or it
// has expired. It returns a *[storetype.BadRequestError] if key does not fit the container, and a
// *feed.ThrottledError if the provisioned throughput is used up.
func (c *Container) ItemByRID(ctx context.Context, key feed.PartitionKey, id string) (Located, error) {
	if err := c.admit(ctx); err != nil {
		return Located{}, err
	}
	sc, err := c.newKeyFilter(feed.Range{}, key)
	if err != nil {
		return Located{}, err
	}
	r, ok := layout.ParseRID(id)
	if !ok || r.Document == 0 || r.Container != c.number || r.Database != c.database {
		c.spend(readCharge(0))
		return Located{}, notFound("item with the _rid %q in container %s", id, c.name)
	}
	v, s, err := c.open(ctx)
	if err != nil {
		return Located{}, err
	}
	defer v.release()
	found, err := c.locate(v, s, &sc, r.Document)
	c.spend(max(found.Charge, readCharge(0)))
	if err != nil {
		return Located{}, fmt.Errorf("read by _rid %q: %w", id, err)
	}
	return found, nil
}

// locate looks up the item with a document number, if sc selects it. It reads its document
// and its key.
func (c *Container) locate(v *view, s *state, sc *keyFilter, number uint32) (found Located, err error) {
	point, id, err := c.findNumber(v, s.meta, number)
	if err != nil {
		return found, err
	}
	if point == nil || !sc.holds(point) {
		return found, notFound("item")
	}
	op := operation{id: string(id), key: append(append(layout.AppendContainerKey(nil, layout.SpaceIndex, c.number), point...), id...)}
	op.point = op.key[layout.ContainerKeySize : layout.ContainerKeySize+len(point)]
	if found.Result, err = c.readOne(v, s, &op); err != nil {
		return found, err
	}
	// layout.ParseDocument must not get the system properties. With them, the document may
	// exceed the largest size that a caller can write.
	own := len(found.Body) - c.tail.FixedSize() - layout.DigitCount(found.Modified.Unix()) - 1
	doc, err := layout.ParseDocument(append(bytes.Clone(found.Body[:max(own, 0)]), '}'), c.paths, false)
	if err != nil {
		return Located{}, c.db.fault(layout.Corrupt("container %s: the document at LSN %d: %v", c.name, found.LSN, err))
	}
	found.Key, found.ID = layout.PartitionKey(doc.Components()), op.id
	return found, nil
}
