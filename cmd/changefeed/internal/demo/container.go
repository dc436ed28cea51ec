package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// ensureContainer creates a container, or returns the existing one if it has the same key.
func ensureContainer(ctx context.Context, db *store.DB, name, key string, partitions int) (container, error) {
	if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: database}); err != nil && !errors.Is(err, storetype.ErrConflict) {
		return container{}, fmt.Errorf("create the database: %w", err)
	}
	c, err := db.CreateContainer(ctx, database, storetype.ContainerProperties{ID: name, KeyPaths: []string{key}, Partitions: partitions})
	if !errors.Is(err, storetype.ErrConflict) {
		return container{db, c, name}, err
	}
	if c, err = db.Container(ctx, database, name); err != nil {
		return container{}, err
	}
	has, err := c.Properties(ctx)
	if err != nil {
		return container{}, err
	}
	return container{db, c, name}, sameKey(has.KeyPaths, key)
}

// sameKey returns an error unless has, a container's partition key paths, consists of key
// alone.
func sameKey(has []string, key string) error {
	if !slices.Equal(has, []string{key}) {
		return fmt.Errorf("it exists with key %s, not %s: use another --data, or the same fields as before",
			strings.Join(has, " and "), key)
	}
	return nil
}

// container is a container of a run.
type container struct {
	db *store.DB
	*store.Container
	id string
}

func (c container) name() string { return c.id }

func (c container) create(ctx context.Context, key feed.PartitionKey, body []byte) (int64, error) {
	res, err := c.Create(ctx, key, body, storetype.WriteOptions{})
	return res.LSN, err
}

func (c container) read(ctx context.Context, key feed.PartitionKey, id string) (body []byte, etag string, err error) {
	item, err := c.Read(ctx, key, id, storetype.ReadOptions{})
	return item.Body, item.ETag, err
}

func (c container) replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, etag string) (int64, error) {
	res, err := c.Replace(ctx, key, id, body, storetype.WriteOptions{IfMatch: etag})
	return res.LSN, err
}

func (c container) split(ctx context.Context, partition string) ([]string, error) {
	made, err := c.Split(ctx, partition, "")
	children := make([]string, 0, len(made))
	for _, p := range made {
		children = append(children, p.ID)
	}
	return children, err
}

func (c container) source() feed.Source { return c.db.Source(c.Container) }

func (c container) leases() lease.Container { return c.db.Leases(c.Container) }

func (c container) letters() letters.Container { return c.db.Letters(c.Container) }
