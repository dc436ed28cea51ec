package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
)

// Container is a handle to a container. All handles to one container are the same
// pointer. After the container is deleted, its methods return errors that wrap
// feed.ErrNotFound. A Container is safe for concurrent use.
type Container engine.Container

func (c *Container) engine() *engine.Container { return (*engine.Container)(c) }

// Properties returns the current properties. Their Partitions is the current number of
// partitions.
func (c *Container) Properties(ctx context.Context) (ContainerProperties, error) {
	p, err := c.engine().Properties(ctx)
	return ContainerProperties(p), err
}

// Identity returns the container's identity, which its leases record. Its host is
// "localhost", as it is for a server in front of the store.
func (c *Container) Identity() feed.Identity { return c.engine().Identity() }

// Item is a document as the store returns it.
type Item struct {
	// Body is the document with its system properties _rid, _self, _etag, _attachments
	// and _ts. Its text may differ from the one that was written (see the package's
	// comment). It belongs to the caller.
	Body json.RawMessage
	// ETag identifies this version. It includes its quotes.
	ETag string
	// Modified is the time of the last write (_ts).
	Modified time.Time
	// LSN is the position of the write in the partition's feed.
	LSN int64
}

// Result is the result of an operation on one item. If the operation returns an error,
// only Partition, End and Charge may be set. They are set if the request reached a
// partition.
type Result struct {
	// Item is the item after the operation. A delete sets LSN only.
	Item
	// Created reports whether an upsert created the item.
	Created bool
	// Partition is the ID of the physical partition that served the operation. End is the
	// partition's last LSN. A session token consists of both.
	Partition string
	End       int64
	// Charge is the cost of the operation in request units (RU). A read costs 1 RU, and
	// 1/11 RU for each KB of the stored item beyond the first. A write costs five times
	// as much, for the larger of the versions before and after it.
	Charge float64
}

func result(r engine.Result) Result {
	return Result{
		Item: Item(r.Item), Created: r.Created, Partition: r.Partition, End: r.End, Charge: r.Charge,
	}
}

// WriteOptions are the conditions of a write and the options of its result. The zero
// value sets no condition.
type WriteOptions struct {
	// IfMatch is an ETag. The write returns [ErrPreconditionFailed] unless the item has
	// it. "*" matches any item.
	IfMatch string
	// IfNoneMatch is empty or "*". If it is "*", the write returns
	// [ErrPreconditionFailed] when the item exists.
	IfNoneMatch string
	// NoBody leaves [Item].Body out of the result, which saves the copy.
	NoBody bool
}

// engine returns the options as the type of package engine.
func (o WriteOptions) engine() engine.WriteOptions {
	return engine.WriteOptions{IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody}
}

// ReadOptions are the conditions of a read. The zero value sets no condition.
type ReadOptions struct {
	// IfMatch is an ETag. The read returns [ErrPreconditionFailed] unless the item has
	// it.
	IfMatch string
	// IfNoneMatch is an ETag. The read returns [ErrNotModified] if the item still has it.
	IfNoneMatch string
}

// Create writes a new item. key is its logical partition key. If key is nil, Create reads
// it from the body. Otherwise it must equal the body's key. All writes check ctx before
// they queue. A queued write is carried out even if ctx ends.
//
// Create returns [ErrConflict] if the logical partition has an item with that id. It
// returns a *[UniqueKeyError] if another item has the same values in a unique key. It
// returns a *[BadRequestError] or a *[TooLargeError] if body, id, key or ttl are not
// valid. It returns a *feed.ThrottledError if the provisioned throughput is used up, and
// an error that wraps feed.ErrNotFound if the container was deleted.
func (c *Container) Create(ctx context.Context, key feed.PartitionKey, body []byte, o WriteOptions) (Result, error) {
	r, err := c.engine().Create(ctx, key, body, o.engine())
	return result(r), err
}

// Upsert creates or replaces an item. It returns the same errors as
// [Container.Create], but an existing item is not a conflict.
func (c *Container) Upsert(ctx context.Context, key feed.PartitionKey, body []byte, o WriteOptions) (Result, error) {
	r, err := c.engine().Upsert(ctx, key, body, o.engine())
	return result(r), err
}

// Replace replaces the item with the given id. The body must have the same id and the
// same key. Replace returns an error that wraps feed.ErrNotFound if the item does not
// exist.
func (c *Container) Replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, o WriteOptions) (Result, error) {
	r, err := c.engine().Replace(ctx, key, id, body, o.engine())
	return result(r), err
}

// Delete deletes the item with the given id. It returns an error that wraps
// feed.ErrNotFound if the item does not exist.
func (c *Container) Delete(ctx context.Context, key feed.PartitionKey, id string, o WriteOptions) (Result, error) {
	r, err := c.engine().Delete(ctx, key, id, o.engine())
	return result(r), err
}

// Change replaces an item with the result of change. The read and the write are one
// atomic operation. The function change is called at most once, under the conditions of
// [Operation].Change.
//
// Change returns an error that wraps feed.ErrNotFound if the item does not exist. It
// returns an error of the function unchanged. Otherwise it returns the same errors as
// [Container.Replace].
func (c *Container) Change(ctx context.Context, key feed.PartitionKey, id string, change func(old []byte) ([]byte, error), o WriteOptions) (Result, error) {
	r, err := c.engine().Change(ctx, key, id, change, o.engine())
	return result(r), err
}

// Read returns the item with the given id. It returns an error that wraps
// feed.ErrNotFound if the item does not exist or has expired. It returns [ErrNotModified]
// or [ErrPreconditionFailed] if a condition of o does not hold. It returns a
// *feed.ThrottledError if the provisioned throughput is used up.
func (c *Container) Read(ctx context.Context, key feed.PartitionKey, id string, o ReadOptions) (Result, error) {
	r, err := c.engine().Read(ctx, key, id, engine.ReadOptions(o))
	return result(r), err
}

// OpKind is the kind of an operation of a batch.
type OpKind = engine.OpKind

// The kinds of operations.
const (
	OpCreate  OpKind = engine.OpCreate
	OpUpsert  OpKind = engine.OpUpsert
	OpReplace OpKind = engine.OpReplace
	OpDelete  OpKind = engine.OpDelete
	OpRead    OpKind = engine.OpRead
	// OpChange replaces an item with the result of [Operation].Change.
	OpChange OpKind = engine.OpChange
)

// Operation is an operation of a batch.
type Operation struct {
	Kind OpKind
	// ID is the id of the item. OpCreate and OpUpsert ignore it and read the id from the
	// body.
	ID string
	// Body is the document of OpCreate, OpUpsert and OpReplace.
	Body []byte
	// Change is the function of OpChange. It receives the old document, system properties
	// included, and returns the new one. All writes wait while it runs. So it must be
	// quick, must not call the store, and must not keep old. The operation fails with its
	// error, which is returned unchanged.
	Change func(old []byte) ([]byte, error)
	// IfMatch and IfNoneMatch are as in [WriteOptions] and [ReadOptions].
	IfMatch, IfNoneMatch string
	// NoBody is as in [WriteOptions]. OpRead ignores it.
	NoBody bool
}

// engine returns the operation as the type of package engine.
func (o Operation) engine() engine.Operation {
	return engine.Operation{
		Kind: o.Kind, ID: o.ID, Body: o.Body, Change: o.Change, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody,
	}
}

// Batch carries out up to 100 operations on one logical partition, either all or none.
// All writes of a batch have the same LSN. Each operation reads the effects of earlier
// ones. If key is nil, the first operation must have a body, which gives the key.
//
// Batch returns a *[BatchError] that names the operation that failed. It returns a
// *[TooLargeError] whose What is "batch", alone or wrapped in a *BatchError, above one of
// three limits: 100 operations, 2 MiB of bodies, and 8 MiB of documents that reads return
// and changes write.
func (c *Container) Batch(ctx context.Context, key feed.PartitionKey, ops []Operation) ([]Result, error) {
	results, err := c.engine().Batch(ctx, key, convert(ops, Operation.engine))
	return convert(results, result), err
}

// ItemsRequest selects the items of a page and the size of the page. The zero value
// selects all items of the container.
type ItemsRequest struct {
	// Key selects the items of a logical partition key, or of a prefix of a hierarchical
	// key.
	Key feed.PartitionKey
	// Range selects a range of effective partition keys. Partition is the ID of a live
	// physical partition and selects its items.
	Range     feed.Range
	Partition string
	// IDPrefix selects the items whose id begins with it. With a full Key, only the index
	// entries of those items are read. Otherwise the index entries of all items in the
	// selection are read, about 100 bytes each. Documents of other items are not read.
	IDPrefix string
	// Continuation is the Continuation of the previous page. If empty, the first page is
	// read.
	Continuation string
	// MaxItems is the largest number of items to return. If zero, [Container.Items] uses
	// 100, and [Container.VisitItems] sets no limit.
	MaxItems int
	// MaxBytes limits the documents of a page, in bytes. A page of Items has at most as
	// many, with a byte between two documents, unless it has a single item. A visit ends
	// after the document that reaches the limit. If zero, Items uses 4 MiB, and VisitItems
	// uses 256 MiB.
	MaxBytes int
	// MaxTime is the time after which the page ends. If zero, 1 s is used.
	MaxTime time.Duration
}

// ItemsPage is a page of a container's items. All of them are in one physical partition,
// and come in the order in which they were first written. But if the request selects a
// part of a partition that is more than one key, they are sorted by effective partition
// key, and only within a key by the time of the first write.
type ItemsPage struct {
	Items []Item
	// Continuation is empty on the last page. A page that ended at MaxTime, or at the end
	// of a partition, may have a continuation and no items.
	Continuation string
	// Charge is the cost in request units of reading all documents of the page at once.
	// See [Result].
	Charge float64
}

// engine returns the request as the type of package engine.
func (r ItemsRequest) engine() engine.ItemsRequest {
	return engine.ItemsRequest{
		Key: r.Key, Range: r.Range, Partition: r.Partition, IDPrefix: r.IDPrefix, Continuation: r.Continuation,
		MaxItems: r.MaxItems, MaxBytes: r.MaxBytes, MaxTime: r.MaxTime,
	}
}

// Items returns a page of the items of a container, read from one snapshot. An item that
// exists from the first page to the last is returned exactly once. Writes, splits and
// merges between the pages do not change that.
//
// Items returns a *feed.GoneError if Partition is not live, a *[BadRequestError] if the
// request is not valid, and a *feed.ThrottledError if the provisioned throughput is used
// up.
func (c *Container) Items(ctx context.Context, r ItemsRequest) (ItemsPage, error) {
	page, err := c.engine().Items(ctx, r.engine())
	items := convert(page.Items, func(i engine.Item) Item { return Item(i) })
	return ItemsPage{Items: items, Continuation: page.Continuation, Charge: page.Charge}, err
}

// VisitItems calls visit for each item of a page, until visit returns false or an error.
// It allocates nothing per item, so it suits filters. The argument body is as
// [Item].Body, but it is valid only during the call and must not be changed. A snapshot
// stays open during the visit, so visit must return soon. An error of visit is returned
// unchanged.
//
// The returned page has no Items. Its Continuation is the position after the last visited
// item. A visit ends with its physical partition, so call VisitItems again until the
// continuation is empty.
func (c *Container) VisitItems(ctx context.Context, r ItemsRequest, visit func(body []byte) (more bool, err error)) (ItemsPage, error) {
	page, err := c.engine().VisitItems(ctx, r.engine(), func(v *engine.VisitedItem) (bool, error) { return visit(v.Body) })
	return ItemsPage{Continuation: page.Continuation, Charge: page.Charge}, err
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
// of a prefix of a hierarchical key. It returns a *[BadRequestError] if the key does not
// fit the container.
func (c *Container) KeyRange(key feed.PartitionKey) (feed.Range, error) {
	return c.engine().KeyRange(key)
}

// Partitions returns the live partitions, sorted by range.
func (c *Container) Partitions(ctx context.Context) ([]feed.Partition, error) {
	return c.engine().Partitions(ctx)
}

// PartitionStats are the statistics of a live partition at one moment.
type PartitionStats struct {
	// Partition has the partition's ID, range and ancestors.
	feed.Partition
	// LSN is the last LSN of its feed.
	LSN int64
	// Items is the exact number of items. Expired items count until they are purged.
	Items int64
	// Bytes is the size of the stored documents before compression, system properties
	// included. It excludes the index and the versions that Retention keeps.
	Bytes int64
}

// PartitionStats returns the statistics of all live partitions at one moment, sorted by
// range. The first call after an open, a split or a merge reads the index of the
// partitions that are not counted yet. It reads about a million items a second. Other
// calls are cheap. No call is charged.
func (c *Container) PartitionStats(ctx context.Context) ([]PartitionStats, error) {
	all, err := c.engine().PartitionStats(ctx)
	return convert(all, func(s engine.PartitionStats) PartitionStats { return PartitionStats(s) }), err
}

// Split divides the partition id in two at the effective partition key at (hexadecimal).
// If at is empty, the middle of the range is used. Readers and writers continue
// meanwhile. The ID id is retired and never used again.
//
// Split returns the two new partitions. It returns a *feed.GoneError if the partition is
// not live, and a *[BadRequestError] if at is not inside its range.
func (c *Container) Split(ctx context.Context, id, at string) ([]feed.Partition, error) {
	return c.engine().Split(ctx, id, at)
}

// Merge merges the neighbouring partitions a and b and returns the new partition. It
// returns a *feed.GoneError if one of them is not live, and a *[BadRequestError] if they
// are not neighbours.
func (c *Container) Merge(ctx context.Context, a, b string) (feed.Partition, error) {
	return c.engine().Merge(ctx, a, b)
}
