package storetype

import (
	"encoding/json"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// MaxDocumentSize is the largest document in bytes, without the system properties that
// the store appends.
const MaxDocumentSize = 2 << 20

// Item is a document as the store returns it.
type Item struct {
	// Body is the document with its system properties _rid, _self, _etag, _attachments and
	// _ts. It may differ from the text that was written, as package store explains, and
	// belongs to the caller.
	Body json.RawMessage
	// ETag identifies this version, quotes included.
	ETag string
	// Modified is when the item was last written (_ts).
	Modified time.Time
	// LSN is the write's position in the partition's feed.
	LSN int64
}

// Result is what an operation on one item returns. If it returns an error, only
// Partition, End and Charge may be set, and only if the request reached a partition.
type Result struct {
	// Item is the item after the operation. A delete sets only the LSN.
	Item
	// Created reports whether an upsert created the item.
	Created bool
	// Partition is the ID of the physical partition that served the operation, and End its
	// last LSN. Together they make a session token.
	Partition string
	End       int64
	// Charge is what the operation cost in request units (RU). A read costs 1 RU, plus 1/11
	// RU for each KB of the stored item beyond the first. A create's cost depends also on
	// how many values it has, and a replace's on those that it changes (see
	// [WriteOptions].ExactCharge). Expect about 11 RU for a replace and 7 for a delete.
	Charge float64
}

// WriteOptions are a write's conditions, and options for its result. The zero value sets
// no condition.
type WriteOptions struct {
	// IfMatch is an ETag. Unless the item has it, the write returns
	// [ErrPreconditionFailed]. "*" matches any item.
	IfMatch string
	// IfNoneMatch is empty or "*". With "*", the write returns [ErrPreconditionFailed] if
	// the item exists.
	IfNoneMatch string
	// NoBody leaves [Item].Body out of the result, which saves the copy.
	NoBody bool
	// ExactCharge makes the charge for a replace, an upsert or a change depend on what it
	// changes, at the price of reading the old item. Otherwise one changed scalar is
	// assumed, as it is for an item above 64 KiB. Set it when the charges must be like the
	// service's.
	ExactCharge bool
}

// ReadOptions are a read's conditions. The zero value sets none.
type ReadOptions struct {
	// IfMatch is an ETag. Unless the item has it, the read returns
	// [ErrPreconditionFailed].
	IfMatch string
	// IfNoneMatch is an ETag. If the item still has it, the read returns [ErrNotModified].
	IfNoneMatch string
}

// ItemsRequest selects items and sets the page's size. The zero value selects all items
// in the container.
type ItemsRequest struct {
	// Key selects the items with a logical partition key, or with a prefix of a hierarchical
	// one.
	Key feed.PartitionKey
	// Range selects a range of effective partition keys. Partition is the ID of a live
	// physical partition and selects its items.
	Range     feed.Range
	Partition string
	// IDPrefix selects the items whose id begins with it. With a full Key, only their index
	// entries are read; otherwise those of all items in the selection, about 100 bytes each.
	// Other items' documents are not read.
	IDPrefix string
	// Continuation is the previous page's Continuation. If empty, the first page is read.
	Continuation string
	// MaxItems is how many items to return at most. If zero, Items uses 100, and VisitItems
	// sets no limit.
	MaxItems int
	// MaxBytes limits a page's documents, in bytes. Items returns at most as many, with a
	// byte between two documents, unless there is a single item. VisitItems ends after the
	// document that reaches the limit. If zero, Items uses 4 MiB, and VisitItems 256 MiB.
	MaxBytes int
	// MaxTime is the time after which the page ends. If zero, 1 s is used.
	MaxTime time.Duration
}

// ItemsPage is a page of a container's items, all from one physical partition and in the
// order in which they were first written. But if the request selects a part of a
// partition that is more than one key, they are sorted by effective partition key, and
// only within a key by the first write.
type ItemsPage struct {
	// Items is empty on a page of VisitItems.
	Items []Item
	// Continuation is empty on the last page. A page that ended at MaxTime, or where a
	// partition ends, may have a continuation but no items.
	Continuation string
	// Charge is what the page cost in request units, as in [Result].
	Charge float64
}
