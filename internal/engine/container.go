package engine

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
)

// Container is a handle to a container. It stays valid until the container is
// deleted; then its methods return errors that wrap feed.ErrNotFound. All
// handles to one container are the same pointer.
type Container struct {
	db *DB
	// number is the container's, slot its place in views and among ledgers.
	number uint32
	slot   int

	database     uint32
	databaseName string
	name         string
	// identity is made of these, once: a server asks for it with every request.
	identity feed.Identity

	paths keyPaths
	hash  epk.Hash
	tail  *tailFormat
	// unique is nil if the container has no unique keys.
	unique *uniquePolicy

	bucket bucket
	// changed wakes readers that wait for several partitions: its end is the container's last LSN.
	changed signal
	// useTTL tells that the container has a time to live, for checks outside of the sequencer.
	useTTL atomic.Bool
	// change is the mean size of a change, in bytes, to make a page's buffer by.
	change atomic.Int64
}

// Item is a document as the store returns it.
type Item struct {
	// Body is the document with its system properties _rid, _self, _etag,
	// _attachments and _ts. It belongs to the caller.
	Body json.RawMessage
	// ETag names this version, quotes included.
	ETag string
	// Modified is _ts.
	Modified time.Time
	// LSN is the position of the write in the partition's feed.
	LSN int64
}

// Result is the answer to an operation on one item. Beside an error, Partition, End and Charge may be set and
// nothing else is: they are when the request came to a partition, and the item's state there is the error.
type Result struct {
	// Item is the item after the operation; of a delete only LSN is set.
	Item
	// Created tells an upsert that created from one that replaced.
	Created bool
	// Partition is the ID of the physical partition that served the operation,
	// and End its last LSN: what a session token is made of.
	Partition string
	End       int64
	// Charge is what the operation cost in request units (RU). A read costs 1 RU, and 1/11 RU
	// for each KB of the stored item beyond the first; a write costs five times
	// that, by the larger of the item's versions before and after it. A page, of items or of a
	// feed, costs one read of all its bytes.
	Charge float64
}

// WriteOptions are the conditions of a write, and what it answers.
type WriteOptions struct {
	// IfMatch is an ETag: the write is done only if the item has it, else
	// [ErrPreconditionFailed]. "*": any.
	IfMatch string
	// IfNoneMatch "*": the write is done only if there is no item.
	IfNoneMatch string
	// NoBody leaves [Item.Body] out of the result, which spares making it. Default: the item is returned.
	NoBody bool
}

// ReadOptions are the conditions of a read.
type ReadOptions struct {
	// IfMatch is an ETag: the read returns [ErrPreconditionFailed] unless the item
	// has it.
	IfMatch string
	// IfNoneMatch is an ETag: the read returns [ErrNotModified] if the item still has it.
	IfNoneMatch string
}

// OpKind tells the operations of a batch apart.
type OpKind int

// The operations of a batch.
const (
	OpCreate OpKind = iota
	OpUpsert
	OpReplace
	OpDelete
	OpRead
	// OpChange replaces an item by what [Operation.Change] makes of it.
	OpChange
)

// Operation is one of a batch.
type Operation struct {
	Kind OpKind
	// ID is the item's; not looked at for OpCreate and OpUpsert, which take it from the body.
	ID string
	// Body is the document of OpCreate, OpUpsert and OpReplace.
	Body []byte
	// Change makes the new document from the old one (system properties
	// included, as [Item.Body]), for OpChange. It runs while all writes
	// wait, so it must be quick and must not call the store. Its error fails the
	// operation and is returned as it is. It must not keep old.
	Change func(old []byte) ([]byte, error)
	// IfMatch and IfNoneMatch are as in WriteOptions and ReadOptions.
	IfMatch, IfNoneMatch string
	// NoBody is as in WriteOptions; OpRead has always a body.
	NoBody bool
}
