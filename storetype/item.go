package storetype

import (
	"encoding/json"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// MaxDocumentSize is the size in bytes of the largest document. The system properties that
// the store appends do not count.
const MaxDocumentSize = 2 << 20

// Item is a document as the store returns it.
type Item struct {
	// Body is the document with its system properties _rid, _self, _etag, _attachments
	// and _ts. Its text may differ from the one that was written, as the comment of package
	// store explains. It belongs to the caller.
	Body json.RawMessage
	// ETag identifies this version. It includes its quotes.
	ETag string
	// Modified is the time of the last write (_ts).
	Modified time.Time
	// LSN is the position of the write in the partition's feed.
	LSN int64
}

// Result is the result of an operation on one item. When the operation returns an error,
// only Partition, End and Charge may be set, and only if the request reached a partition.
type Result struct {
	// Item is the item after the operation. A delete sets LSN only.
	Item
	// Created reports whether an upsert created the item.
	Created bool
	// Partition is the ID of the physical partition that served the operation, and End its
	// last LSN. Together they make a session token.
	Partition string
	End       int64
	// Charge is the cost of the operation in request units (RU). A read costs 1 RU, and
	// 1/11 RU for each KB of the stored item beyond the first. What a create costs depends
	// on the number of its values, too, and a replace on those that it changes; see
	// [WriteOptions].ExactCharge. A replace costs about 11 RU and a delete about 7.
	Charge float64
}

// WriteOptions are the conditions of a write and the options of its result. The zero
// value sets no condition.
type WriteOptions struct {
	// IfMatch is an ETag. Unless the item has it, the write returns
	// [ErrPreconditionFailed]. "*" matches any item.
	IfMatch string
	// IfNoneMatch is empty or "*". With "*", the write returns [ErrPreconditionFailed] if
	// the item exists.
	IfNoneMatch string
	// NoBody leaves [Item].Body out of the result, which saves the copy.
	NoBody bool
	// ExactCharge makes the charge of a replace, an upsert or a change depend on what it
	// changes, which costs a read of the old item. Otherwise a change of one scalar is
	// assumed. An item above 64 KiB isn't compared.
	ExactCharge bool
}

// ReadOptions are the conditions of a read. The zero value sets no condition.
type ReadOptions struct {
	// IfMatch is an ETag. Unless the item has it, the read returns
	// [ErrPreconditionFailed].
	IfMatch string
	// IfNoneMatch is an ETag. If the item still has it, the read returns [ErrNotModified].
	IfNoneMatch string
}

// ItemsRequest selects the items of a page and sets the page's size. The zero value
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
	// MaxItems is the largest number of items to return. If zero, Items uses 100, and
	// VisitItems sets no limit.
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
	// Items is empty on a page of VisitItems.
	Items []Item
	// Continuation is empty on the last page. A page that ended at MaxTime, or at the end
	// of a partition, may have a continuation and no items.
	Continuation string
	// Charge is the cost of the page in request units, as in [Result].
	Charge float64
}
