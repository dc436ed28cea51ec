package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
)

// Container is a handle to a container. It is valid until the container is deleted. Then its
// methods return errors that wrap feed.ErrNotFound. All handles to one container are the same
// pointer. It is safe for concurrent use.
type Container engine.Container

func (c *Container) engine() *engine.Container { return (*engine.Container)(c) }

// Properties returns the current properties. Partitions is the number of live partitions.
func (c *Container) Properties(ctx context.Context) (ContainerProperties, error) {
	p, err := c.engine().Properties(ctx)
	return ContainerProperties(p), err
}

// Identity identifies the container, for leases. Its host is "localhost", as for a server in
// front of the store.
func (c *Container) Identity() feed.Identity { return c.engine().Identity() }

// Item is a document as the store returns it.
type Item struct {
	// Body is the document with its system properties _rid, _self, _etag, _attachments and
	// _ts. It belongs to the caller.
	Body json.RawMessage
	// ETag identifies this version, quotes included.
	ETag string
	// Modified is _ts.
	Modified time.Time
	// LSN is the position of the write in the partition's feed.
	LSN int64
}

// Result is the result of an operation on one item. Beside an error, only Partition, End and
// Charge may be set. They are set if the request reached a partition.
type Result struct {
	// Item is the item after the operation. A delete sets LSN only.
	Item
	// Created reports whether an upsert created the item.
	Created bool
	// Partition is the ID of the physical partition that served the operation, and End its
	// last LSN. A session token consists of both.
	Partition string
	End       int64
	// Charge is the cost of the operation in request units (RU). A read costs 1 RU, and
	// 1/11 RU for each KB of the stored item beyond the first. A write costs five times
	// that, for the larger of the versions before and after it.
	Charge float64
}

func result(r engine.Result) Result {
	return Result{
		Item: Item(r.Item), Created: r.Created, Partition: r.Partition, End: r.End, Charge: r.Charge,
	}
}

// WriteOptions are the conditions of a write, and options of its result.
type WriteOptions struct {
	// IfMatch is an ETag. The write returns [ErrPreconditionFailed] unless the item has it.
	// "*" matches any item.
	IfMatch string
	// IfNoneMatch "*" has the write return [ErrPreconditionFailed] if the item exists.
	IfNoneMatch string
	// NoBody leaves [Item].Body out of the result, which saves the copy.
	NoBody bool
}

// ReadOptions are the conditions of a read.
type ReadOptions struct {
	// IfMatch is an ETag. The read returns [ErrPreconditionFailed] unless the item has it.
	IfMatch string
	// IfNoneMatch is an ETag. The read returns [ErrNotModified] if the item still has it.
	IfNoneMatch string
}

// Create writes a new item. key is its logical partition key. If key is nil, it is read from
// the body. Otherwise the two must agree. All writes check ctx before the write is queued. A
// queued write is carried out.
//
// Create returns ErrConflict if the logical partition has an item of that id, a
// *[BadRequestError] or *[TooLargeError] if body, id, key or ttl are not valid, a
// *[UniqueKeyError], a *feed.ThrottledError if the provisioned throughput is used up, and an
// error that wraps feed.ErrNotFound if the container was deleted.
func (c *Container) Create(ctx context.Context, key feed.PartitionKey, body []byte, o WriteOptions) (Result, error) {
	r, err := c.engine().Create(ctx, key, body, engine.WriteOptions(o))
	return result(r), err
}

// Upsert creates or replaces an item.
func (c *Container) Upsert(ctx context.Context, key feed.PartitionKey, body []byte, o WriteOptions) (Result, error) {
	r, err := c.engine().Upsert(ctx, key, body, engine.WriteOptions(o))
	return result(r), err
}

// Replace replaces the item id. It returns an error that wraps feed.ErrNotFound if there is
// no such item. The body must have the same id and the same key.
func (c *Container) Replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, o WriteOptions) (Result, error) {
	r, err := c.engine().Replace(ctx, key, id, body, engine.WriteOptions(o))
	return result(r), err
}

// Delete deletes the item id. It returns an error that wraps feed.ErrNotFound if there is no
// such item.
func (c *Container) Delete(ctx context.Context, key feed.PartitionKey, id string, o WriteOptions) (Result, error) {
	r, err := c.engine().Delete(ctx, key, id, engine.WriteOptions(o))
	return result(r), err
}

// Change replaces the item id with the result of change, atomically: no other write comes
// between the read and the write. change is called at most once, under the conditions of
// [Operation].Change. Change returns an error of change as it is, an error that wraps
// feed.ErrNotFound if there is no such item, and the errors of Replace.
func (c *Container) Change(ctx context.Context, key feed.PartitionKey, id string, change func(old []byte) ([]byte, error), o WriteOptions) (Result, error) {
	r, err := c.engine().Change(ctx, key, id, change, engine.WriteOptions(o))
	return result(r), err
}

// Read returns the item id. It returns an error that wraps feed.ErrNotFound if there is no
// such item or it has expired, [ErrNotModified], [ErrPreconditionFailed], and a
// *feed.ThrottledError if the provisioned throughput is used up.
func (c *Container) Read(ctx context.Context, key feed.PartitionKey, id string, o ReadOptions) (Result, error) {
	r, err := c.engine().Read(ctx, key, id, engine.ReadOptions(o))
	return result(r), err
}

// OpKind is the kind of an operation of a batch.
type OpKind = engine.OpKind

// The operations of a batch.
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
	// ID is the item's. OpCreate and OpUpsert ignore it and read the id from the body.
	ID string
	// Body is the document of OpCreate, OpUpsert and OpReplace.
	Body []byte
	// Change returns the new document for the old one, system properties included. OpChange
	// calls it. It runs while all writes wait, so it must be quick and must not call the
	// store. Its error fails the operation and is returned as it is. It must not keep old.
	Change func(old []byte) ([]byte, error)
	// IfMatch and IfNoneMatch are as in WriteOptions and ReadOptions.
	IfMatch, IfNoneMatch string
	// NoBody is as in WriteOptions. OpRead ignores it.
	NoBody bool
}

// Batch carries out up to 100 operations on one logical partition, all or none. All writes
// have the same LSN. Each operation sees the effects of earlier ones. key may be nil if the
// first operation has a body with the key.
//
// Batch returns a *[BatchError] that names the failed operation, and a *[TooLargeError] with
// What "batch", alone or in a *BatchError. The limits are 100 operations, 2 MiB of bodies,
// and 8 MiB of documents that reads return and changes write.
func (c *Container) Batch(ctx context.Context, key feed.PartitionKey, ops []Operation) ([]Result, error) {
	results, err := c.engine().Batch(ctx, key, convert(ops, func(o Operation) engine.Operation { return engine.Operation(o) }))
	return convert(results, result), err
}

// ItemsRequest selects the items of a page and its size.
type ItemsRequest struct {
	// Key selects a logical partition key, or a prefix of a hierarchical one.
	Key feed.PartitionKey
	// Range selects a range of effective partition keys, and Partition a live physical
	// partition.
	Range     feed.Range
	Partition string
	// IDPrefix selects the items whose id begins with it. With a full Key only their index
	// entries are read. Otherwise the index entries of all selected items are read, some
	// 100 bytes each, but no other documents.
	IDPrefix string
	// Continuation is that of the previous page. If empty, the first page is read.
	Continuation string
	// MaxItems is the largest number of items to return. If zero, Items uses 100.
	MaxItems int
	// MaxBytes ends the page after so many bytes of documents, at the earliest after one
	// item. If zero, Items uses 4 MiB.
	MaxBytes int
	// MaxTime ends the page after that time. If zero, 1 s is used.
	MaxTime time.Duration
}

// ItemsPage is a page of a container's items, sorted by effective partition key and id.
type ItemsPage struct {
	Items []Item
	// Continuation is empty on the last page. A page that ended at MaxTime may have a
	// continuation and no items.
	Continuation string
	// Charge is the cost of one read of all documents of the page, see [Result].
	Charge float64
}

// engine returns the engine's request.
func (r ItemsRequest) engine() engine.ItemsRequest {
	return engine.ItemsRequest{
		Key: r.Key, Range: r.Range, Partition: r.Partition, IDPrefix: r.IDPrefix, Continuation: r.Continuation,
		MaxItems: r.MaxItems, MaxBytes: r.MaxBytes, MaxTime: r.MaxTime,
	}
}

// Items returns a page of the items of a container. An item that exists from the first page
// to the last is returned exactly once, despite writes, splits and merges meanwhile. A page
// is read from one snapshot. Items returns a *feed.GoneError if Partition is not live, a
// *[BadRequestError], and a *feed.ThrottledError.
func (c *Container) Items(ctx context.Context, r ItemsRequest) (ItemsPage, error) {
	page, err := c.engine().Items(ctx, r.engine())
	items := convert(page.Items, func(i engine.Item) Item { return Item(i) })
	return ItemsPage{Items: items, Continuation: page.Continuation, Charge: page.Charge}, err
}

// VisitItems calls visit for each item of a page, until visit returns false or an error. It
// allocates nothing per item, which suits filters. body is as [Item].Body, but valid only
// during the call, and must not be changed. visit must return soon, since a snapshot stays
// open meanwhile. Its error is returned as it is. The returned page has no Items, and its
// Continuation is the position after the last visited item. If MaxItems is zero, it is
// unlimited; if MaxBytes is zero, 256 MiB is used.
func (c *Container) VisitItems(ctx context.Context, r ItemsRequest, visit func(body []byte) (more bool, err error)) (ItemsPage, error) {
	page, err := c.engine().VisitItems(ctx, r.engine(), func(v *engine.VisitedItem) (bool, error) { return visit(v.Body) })
	return ItemsPage{Continuation: page.Continuation, Charge: page.Charge}, err
}

// Feed returns a page of the feed of any part of the container. It differs from the Read of
// [DB.Source] in what r may select: a Range or a Key of several live partitions, or, without
// Partition.ID, Range and Key, the whole container. Such a page has the changes of all
// selected partitions, sorted by LSN, from one snapshot, and transactions whole. Its
// continuation is valid for the whole selection: later pages return every later change and no
// earlier one, also after splits and merges. It is also valid for other parts of the
// container, and for Read.
//
// Errors are those of Read. A *feed.GoneError is returned only for a Partition.ID that is not
// live. A page of n partitions may cost n seeks. Partitions without changes since the
// continuation cost none.
func (c *Container) Feed(ctx context.Context, r feed.Request) (feed.Page, error) {
	page, err := c.engine().Feed(ctx, r)
	return page.Page, err
}

// KeyRange returns the range of effective partition keys of a logical partition key, or of a
// prefix of a hierarchical one. It returns a *[BadRequestError] if the key does not fit the
// container.
func (c *Container) KeyRange(key feed.PartitionKey) (feed.Range, error) {
	return c.engine().KeyRange(key)
}

// Partitions returns the live partitions, sorted by range.
func (c *Container) Partitions(ctx context.Context) ([]feed.Partition, error) {
	return c.engine().Partitions(ctx)
}

// PartitionStats describe a live partition at one moment.
type PartitionStats struct {
	// Partition has its ID, range and ancestors.
	feed.Partition
	// LSN is the last LSN of its feed.
	LSN int64
	// Items is the exact number of items. Expired items count until they are purged.
	Items int64
	// Bytes is the size of their documents as stored, system properties included, before
	// compression. It excludes the index and the versions that Retention keeps.
	Bytes int64
}

// PartitionStats returns the live partitions, sorted by range, all at one moment. The first
// call after the store was opened, and after a split or merge, reads the index of the
// partitions that are not counted yet, about a million items a second. Other calls are cheap.
// No call is charged.
func (c *Container) PartitionStats(ctx context.Context) ([]PartitionStats, error) {
	all, err := c.engine().PartitionStats(ctx)
	return convert(all, func(s engine.PartitionStats) PartitionStats { return PartitionStats(s) }), err
}

// Split divides a partition in two at the effective partition key at (hexadecimal). If at is
// empty, the middle of its range is used. Readers and writers continue meanwhile. The old ID
// is retired and never used again. Split returns the two new partitions, a *feed.GoneError if
// the partition is not live, or a *[BadRequestError] if at is not inside its range.
func (c *Container) Split(ctx context.Context, id, at string) ([]feed.Partition, error) {
	return c.engine().Split(ctx, id, at)
}

// Merge merges two neighbouring partitions. It returns a *feed.GoneError if one is not live,
// and a *[BadRequestError] if they are not neighbours.
func (c *Container) Merge(ctx context.Context, a, b string) (feed.Partition, error) {
	return c.engine().Merge(ctx, a, b)
}
