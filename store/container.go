package store

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// Container is a handle to a container. All handles to one container are the same
// pointer. After the container is deleted, its methods return errors that wrap
// feed.ErrNotFound. A Container is safe for concurrent use.
type Container engine.Container

func (c *Container) engine() *engine.Container { return (*engine.Container)(c) }

// Properties returns the current properties. Their Partitions is the current number of
// partitions.
func (c *Container) Properties(ctx context.Context) (storetype.ContainerProperties, error) {
	return c.engine().Properties(ctx)
}

// Identity returns the container's identity, which its leases record. Its host is
// "localhost", as it is for a server in front of the store.
func (c *Container) Identity() feed.Identity { return c.engine().Identity() }

// Create writes a new item. key is its logical partition key. If key is nil, Create reads
// it from the body. Otherwise it must equal the body's key. All writes check ctx before
// they queue. A queued write is carried out even if ctx ends.
//
// Create returns [storetype.ErrConflict] if the logical partition has an item with that id. It
// returns a *[storetype.UniqueKeyError] if another item has the same values in a unique key. It
// returns a *[storetype.BadRequestError] or a *[storetype.TooLargeError] if body, id, key or ttl
// are not valid. It returns a *feed.ThrottledError if the provisioned throughput is used up, and
// an error that wraps feed.ErrNotFound if the container was deleted.
func (c *Container) Create(ctx context.Context, key feed.PartitionKey, body []byte, o storetype.WriteOptions) (storetype.Result, error) {
	return c.engine().Create(ctx, key, body, o)
}

// Upsert creates or replaces an item. It returns the same errors as
// [Container.Create], but an existing item is not a conflict.
func (c *Container) Upsert(ctx context.Context, key feed.PartitionKey, body []byte, o storetype.WriteOptions) (storetype.Result, error) {
	return c.engine().Upsert(ctx, key, body, o)
}

// Replace replaces the item with the given id. The body must have the same id and the
// same key. Replace returns an error that wraps feed.ErrNotFound if the item does not
// exist.
func (c *Container) Replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, o storetype.WriteOptions) (storetype.Result, error) {
	return c.engine().Replace(ctx, key, id, body, o)
}

// Delete deletes the item with the given id. It returns an error that wraps
// feed.ErrNotFound if the item does not exist.
func (c *Container) Delete(ctx context.Context, key feed.PartitionKey, id string, o storetype.WriteOptions) (storetype.Result, error) {
	return c.engine().Delete(ctx, key, id, o)
}

// Change replaces an item with the result of change. The read and the write are one
// atomic operation. The function change is called at most once, under the conditions of
// [storetype.Operation].Change.
//
// Change returns an error that wraps feed.ErrNotFound if the item does not exist. It
// returns an error of the function unchanged. Otherwise it returns the same errors as
// [Container.Replace].
func (c *Container) Change(ctx context.Context, key feed.PartitionKey, id string, change func(old []byte) ([]byte, error), o storetype.WriteOptions) (storetype.Result, error) {
	return c.engine().Change(ctx, key, id, change, o)
}

// Read returns the item with the given id. It returns an error that wraps
// feed.ErrNotFound if the item does not exist or has expired. It returns [storetype.ErrNotModified]
// or [storetype.ErrPreconditionFailed] if a condition of o does not hold. It returns a
// *feed.ThrottledError if the provisioned throughput is used up.
func (c *Container) Read(ctx context.Context, key feed.PartitionKey, id string, o storetype.ReadOptions) (storetype.Result, error) {
	return c.engine().Read(ctx, key, id, o)
}

// Batch carries out up to 100 operations on one logical partition, either all or none.
// All writes of a batch have the same LSN. Each operation reads the effects of earlier
// ones. If key is nil, the first operation must have a body, which gives the key.
//
// Batch returns a *[storetype.BatchError] that names the operation that failed. It returns a
// *[storetype.TooLargeError] whose What is "batch", alone or wrapped in a *BatchError, above one of
// three limits: 100 operations, 2 MiB of bodies, and 8 MiB of documents that reads return
// and changes write.
func (c *Container) Batch(ctx context.Context, key feed.PartitionKey, ops []storetype.Operation) ([]storetype.Result, error) {
	return c.engine().Batch(ctx, key, ops)
}

// Items returns a page of the items of a container, read from one snapshot. An item that
// exists from the first page to the last is returned exactly once. Writes, splits and
// merges between the pages do not change that.
//
// Items returns a *feed.GoneError if Partition is not live, a *[storetype.BadRequestError] if the
// request is not valid, and a *feed.ThrottledError if the provisioned throughput is used
// up.
func (c *Container) Items(ctx context.Context, r storetype.ItemsRequest) (storetype.ItemsPage, error) {
	page, err := c.engine().Items(ctx, engine.ItemsRequest{ItemsRequest: r})
	return page.ItemsPage, err
}

// VisitItems calls visit for each item of a page, until visit returns false or an error.
// It allocates nothing per item, so it suits filters. The argument body is as
// [storetype.Item].Body, but it is valid only during the call and must not be changed. A snapshot
// stays open during the visit, so visit must return soon. An error of visit is returned
// unchanged.
//
// The returned page has no Items. Its Continuation is the position after the last visited
// item. A visit ends with its physical partition, so call VisitItems again until the
// continuation is empty.
func (c *Container) VisitItems(ctx context.Context, r storetype.ItemsRequest, visit func(body []byte) (more bool, err error)) (storetype.ItemsPage, error) {
	page, err := c.engine().VisitItems(ctx, engine.ItemsRequest{ItemsRequest: r}, func(v *engine.VisitedItem) (bool, error) { return visit(v.Body) })
	return page.ItemsPage, err
}

// Feed returns a page of changes of any part of the container. It accepts more selections
// than the Read of [DB.Source] does. A Range or a Key may cover several live partitions.
// Without Partition.ID, Range and Key, the whole container is selected.
//
// The page has changes of the selected partitions from one snapshot: those of one
// partition after those of another, and each partition's sorted by LSN. It never divides a
// transaction. Each partition counts its own LSNs, so the continuation has an LSN for each
// range of keys. It is valid for the whole selection: later pages return every later
// change and no earlier one, also after splits and merges. It is also valid for any part
// of the selection, and for the Read of DB.Source there.
//
// If the selection is in several partitions, the page's End is -1, and its LSN is -1 unless
// the continuation has the same LSN for all keys.
//
// Feed returns the same errors as Read. It returns a *feed.GoneError only for a
// Partition.ID that is not live. A page of n partitions may need n seeks. Partitions
// without changes since the continuation need none.
func (c *Container) Feed(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := c.engine().Feed(ctx, r)
	return page.Page, err
}

// KeyRange returns the range of effective partition keys of a logical partition key, or
// of a prefix of a hierarchical key. It returns a *[storetype.BadRequestError] if the key does not
// fit the container.
func (c *Container) KeyRange(key feed.PartitionKey) (feed.Range, error) {
	return c.engine().KeyRange(key)
}

// Partitions returns the live partitions, sorted by range.
func (c *Container) Partitions(ctx context.Context) ([]feed.Partition, error) {
	return c.engine().Partitions(ctx)
}

// PartitionStats returns the statistics of all live partitions at one moment, sorted by
// range. The first call after an open, a split or a merge reads the index of the
// partitions that are not counted yet. It reads about a million items a second. Other
// calls are cheap. No call is charged.
func (c *Container) PartitionStats(ctx context.Context) ([]storetype.PartitionStats, error) {
	return c.engine().PartitionStats(ctx)
}

// Split divides the partition id in two at the effective partition key at (hexadecimal).
// If at is empty, the middle of the range is used. Readers and writers continue
// meanwhile. The ID id is retired and never used again.
//
// Split returns the two new partitions. It returns a *feed.GoneError if the partition is
// not live, and a *[storetype.BadRequestError] if at is not inside its range.
func (c *Container) Split(ctx context.Context, id, at string) ([]feed.Partition, error) {
	return c.engine().Split(ctx, id, at)
}

// Merge merges the neighbouring partitions a and b and returns the new partition. It
// returns a *feed.GoneError if one of them is not live, and a *[storetype.BadRequestError] if they
// are not neighbours.
func (c *Container) Merge(ctx context.Context, a, b string) (feed.Partition, error) {
	return c.engine().Merge(ctx, a, b)
}
