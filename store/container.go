package store

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// Container is a handle to a container, the same pointer whenever you ask for it. Once
// the container is deleted, its methods return errors that wrap feed.ErrNotFound. A
// Container is safe for concurrent use.
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

// Create writes a new item. If key is nil, it is read from the body; otherwise it must
// equal the body's key. Like all writes, Create checks ctx only before it queues, and a
// queued write is carried out even if ctx ends.
//
// The errors are [storetype.ErrConflict] if the logical partition has an item with that
// id, a *[storetype.UniqueKeyError] if another item has the same values in a unique key,
// a *[storetype.BadRequestError] or a *[storetype.TooLargeError] if body, id, key or ttl
// are not valid, a *feed.ThrottledError if the provisioned throughput is used up, and one
// that wraps feed.ErrNotFound if the container was deleted.
func (c *Container) Create(ctx context.Context, key feed.PartitionKey, body []byte, o storetype.WriteOptions) (storetype.Result, error) {
	return c.engine().Create(ctx, key, body, o)
}

// Upsert creates or replaces an item. Its errors are those of [Container.Create], but an
// existing item is no conflict.
func (c *Container) Upsert(ctx context.Context, key feed.PartitionKey, body []byte, o storetype.WriteOptions) (storetype.Result, error) {
	return c.engine().Upsert(ctx, key, body, o)
}

// Replace replaces the item with the given id; the body must have the same id and key. If
// there is no such item, the error wraps feed.ErrNotFound.
func (c *Container) Replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, o storetype.WriteOptions) (storetype.Result, error) {
	return c.engine().Replace(ctx, key, id, body, o)
}

// Delete deletes the item with the given id. If there is none, the error wraps
// feed.ErrNotFound.
func (c *Container) Delete(ctx context.Context, key feed.PartitionKey, id string, o storetype.WriteOptions) (storetype.Result, error) {
	return c.engine().Delete(ctx, key, id, o)
}

// Change replaces an item with what the function change makes of it. Reach for it rather
// than [Container.Read] and [Container.Replace] when the new document depends on the old
// one, because the read and the write are atomic. The function is called at most once,
// under the conditions of [storetype.Operation].Change.
//
// The function's own error is returned unchanged; the others are those of
// [Container.Replace].
func (c *Container) Change(ctx context.Context, key feed.PartitionKey, id string, change func(old []byte) ([]byte, error), o storetype.WriteOptions) (storetype.Result, error) {
	return c.engine().Change(ctx, key, id, change, o)
}

// Read returns the item with the given id. Its errors are one that wraps feed.ErrNotFound
// if the item does not exist or has expired, [storetype.ErrNotModified] or
// [storetype.ErrPreconditionFailed] if a condition in o does not hold, and a
// *feed.ThrottledError if the provisioned throughput is used up.
func (c *Container) Read(ctx context.Context, key feed.PartitionKey, id string, o storetype.ReadOptions) (storetype.Result, error) {
	return c.engine().Read(ctx, key, id, o)
}

// Batch carries out up to 100 operations on one logical partition, either all or none.
// Each reads the effects of earlier ones, and all writes get the same LSN, so that a feed
// never shows half a batch. If key is nil, the first operation's body gives the key.
//
// Batch returns a *[storetype.BatchError] that names the operation that failed. It returns a
// *[storetype.TooLargeError] whose What is "batch", alone or wrapped in a *BatchError, above one of
// three limits: 100 operations, 2 MiB of bodies, and 8 MiB of documents that reads return
// and changes write.
func (c *Container) Batch(ctx context.Context, key feed.PartitionKey, ops []storetype.Operation) ([]storetype.Result, error) {
	return c.engine().Batch(ctx, key, ops)
}

// Items returns a page of the container's items, read from one snapshot. An item that
// exists from the first page to the last is returned exactly once, whatever is written,
// split or merged between the pages.
//
// Items returns a *feed.GoneError if Partition is not live, a *[storetype.BadRequestError] if the
// request is not valid, and a *feed.ThrottledError if the provisioned throughput is used
// up.
func (c *Container) Items(ctx context.Context, r storetype.ItemsRequest) (storetype.ItemsPage, error) {
	page, err := c.engine().Items(ctx, engine.ItemsRequest{ItemsRequest: r})
	return page.ItemsPage, err
}

// VisitItems calls visit for each item in a page until it returns false or an error,
// which is returned unchanged. Reach for it instead of [Container.Items] to filter many
// items, because nothing is allocated for each. The argument body is as
// [storetype.Item].Body, but valid only during the call, and must not be changed. Since a
// snapshot stays open meanwhile, visit must return soon.
//
// The returned page has no Items, and its Continuation is the position after the last
// visited one. Because a visit ends with its physical partition, call VisitItems again
// until the continuation is empty.
func (c *Container) VisitItems(ctx context.Context, r storetype.ItemsRequest, visit func(body []byte) (more bool, err error)) (storetype.ItemsPage, error) {
	page, err := c.engine().VisitItems(ctx, engine.ItemsRequest{ItemsRequest: r}, func(v *engine.VisitedItem) (bool, error) { return visit(v.Body) })
	return page.ItemsPage, err
}

// Feed returns a page of changes from any part of the container. Use it to read a feed
// without caring for partitions: unlike the Read of [DB.Source], it accepts a Range or a
// Key that covers several, and selects the whole container without Partition.ID, Range
// and Key.
//
// The page comes from one snapshot and has whole transactions, one partition's after
// another's, each partition's sorted by LSN. Because each partition counts its own LSNs,
// the continuation has one for each range of keys. With it, later pages return every
// later change and no earlier one, also after splits and merges, for the whole selection
// or any part, and in the Read of [DB.Source] too.
//
// If the selection is in several partitions, the page's End is -1, and its LSN is -1 unless
// the continuation has the same LSN for all keys.
//
// The errors are those of Read, with a *feed.GoneError only for a Partition.ID that is
// not live. A page over n partitions may need n seeks, but none for partitions without
// changes since the continuation.
func (c *Container) Feed(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := c.engine().Feed(ctx, r)
	return page.Page, err
}

// KeyRange returns the effective partition keys that belong to a logical partition key,
// or to a prefix of a hierarchical one. It returns a *[storetype.BadRequestError] if the
// key does not fit the container.
func (c *Container) KeyRange(key feed.PartitionKey) (feed.Range, error) {
	return c.engine().KeyRange(key)
}

// Partitions returns the live partitions, sorted by range.
func (c *Container) Partitions(ctx context.Context) ([]feed.Partition, error) {
	return c.engine().Partitions(ctx)
}

// PartitionStats returns statistics for all live partitions at one moment, sorted by
// range. Calls are cheap and not charged, except that the first one after an open, a
// split or a merge counts the new partitions' items, about a million a second.
func (c *Container) PartitionStats(ctx context.Context) ([]storetype.PartitionStats, error) {
	return c.engine().PartitionStats(ctx)
}

// Split divides the partition with the given ID in two at an effective partition key
// (hexadecimal), or in the middle of its range if at is empty. Readers and writers
// continue meanwhile. The ID is retired and never used again.
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
