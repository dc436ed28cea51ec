package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
)

// engine is where a run's containers are: a store in this process, or a server that all
// processes of the run reach.
type engine interface {
	// ensure makes a container, or takes the one that is there if it has the same key.
	ensure(ctx context.Context, name, key string, partitions int) (container, error)
	// leases are those that are kept in a container.
	leases(name string, c container) lease.Container
}

// container is what a run does with a container. Errors are those of the store:
// [store.ErrConflict], [store.ErrPreconditionFailed].
type container interface {
	create(ctx context.Context, key feed.PartitionKey, body []byte) (lsn int64, err error)
	read(ctx context.Context, key feed.PartitionKey, id string) (body []byte, etag string, err error)
	replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, etag string) (lsn int64, err error)
	split(ctx context.Context, partition string) (children []string, err error)
	source() feed.Source
}

// storeEngine is a store in this process.
type storeEngine struct{ db *store.DB }

func (e storeEngine) ensure(ctx context.Context, name, key string, partitions int) (container, error) {
	if _, err := e.db.CreateDatabase(ctx, store.DatabaseProperties{ID: database}); err != nil && !errors.Is(err, store.ErrConflict) {
		return nil, fmt.Errorf("make the database: %w", err)
	}
	c, err := e.db.CreateContainer(ctx, database, store.ContainerProperties{ID: name, KeyPaths: []string{key}, Partitions: partitions})
	if !errors.Is(err, store.ErrConflict) {
		return stored{e.db, c}, err
	}
	if c, err = e.db.Container(ctx, database, name); err != nil {
		return nil, err
	}
	has, err := c.Properties(ctx)
	if err != nil {
		return nil, err
	}
	return stored{e.db, c}, sameKey(has.KeyPaths, key)
}

// sameKey refuses a container that is keyed by something else.
func sameKey(has []string, key string) error {
	if !slices.Equal(has, []string{key}) {
		return fmt.Errorf("it is there already and keyed by %s, not %s: use another --data, or the same fields as before",
			strings.Join(has, " and "), key)
	}
	return nil
}

func (e storeEngine) leases(_ string, c container) lease.Container {
	return e.db.Leases(c.(stored).Container) //nolint:errcheck // it comes from ensure
}

// stored is a container of the store.
type stored struct {
	db *store.DB
	*store.Container
}

func (c stored) create(ctx context.Context, key feed.PartitionKey, body []byte) (int64, error) {
	res, err := c.Create(ctx, key, body, store.WriteOptions{})
	return res.LSN, err
}

func (c stored) read(ctx context.Context, key feed.PartitionKey, id string) (body []byte, etag string, err error) {
	item, err := c.Read(ctx, key, id, store.ReadOptions{})
	return item.Body, item.ETag, err
}

func (c stored) replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, etag string) (int64, error) {
	res, err := c.Replace(ctx, key, id, body, store.WriteOptions{IfMatch: etag})
	return res.LSN, err
}

func (c stored) split(ctx context.Context, partition string) ([]string, error) {
	made, err := c.Split(ctx, partition, "")
	children := make([]string, 0, len(made))
	for _, p := range made {
		children = append(children, p.ID)
	}
	return children, err
}

func (c stored) source() feed.Source { return c.db.Source(c.Container) }
