package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
)

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
	return c.writeOne(ctx, key, Operation{Kind: OpCreate, Body: body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody})
}

// Upsert creates or replaces an item. It returns the same errors as [Container.Create],
// but an existing item is not a conflict.
func (c *Container) Upsert(ctx context.Context, key feed.PartitionKey, body []byte, o WriteOptions) (Result, error) {
	return c.writeOne(ctx, key, Operation{Kind: OpUpsert, Body: body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody, ExactCharge: o.ExactCharge})
}

// Replace replaces the item with the given id. The body must have the same id and the
// same key. Replace returns an error that wraps feed.ErrNotFound if the item does not
// exist.
func (c *Container) Replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, o WriteOptions) (Result, error) {
	return c.writeOne(ctx, key, Operation{Kind: OpReplace, ID: id, Body: body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody, ExactCharge: o.ExactCharge})
}

// Delete deletes the item with the given id. It returns an error that wraps
// feed.ErrNotFound if the item does not exist.
func (c *Container) Delete(ctx context.Context, key feed.PartitionKey, id string, o WriteOptions) (Result, error) {
	return c.writeOne(ctx, key, Operation{Kind: OpDelete, ID: id, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody})
}

// Change replaces an item with the result of change. The read and the write are one
// atomic operation. The function change is called at most once, under the conditions of
// [Operation].Change.
//
// Change returns an error that wraps feed.ErrNotFound if the item does not exist. It
// returns an error of the function unchanged. Otherwise it returns the same errors as
// [Container.Replace].
func (c *Container) Change(ctx context.Context, key feed.PartitionKey, id string, change func(old []byte) ([]byte, error), o WriteOptions) (Result, error) {
	return c.writeOne(ctx, key, Operation{Kind: OpChange, ID: id, Change: change, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody, ExactCharge: o.ExactCharge})
}

func (c *Container) writeOne(ctx context.Context, key feed.PartitionKey, o Operation) (Result, error) {
	if err := c.admit(ctx); err != nil {
		return Result{}, err
	}
	r := c.db.newRequest(c)
	defer c.db.freeRequest(r)
	r.ops = r.one[:1]
	op := &r.ops[0]
	if err := c.prepare(op, key, o); err != nil {
		return c.refused(ctx, key), err
	}
	if err := c.db.submit(r); err != nil {
		charge := c.failed(op, err)
		c.spend(charge)
		return Result{Partition: r.partition, End: r.end, Charge: charge}, err
	}
	result, err := c.result(r, op)
	c.spend(result.Charge)
	return result, err
}

// charge returns the charge of an operation of r that succeeds. An upsert counts as a replace
// until the sequencer has found no item.
func (c *Container) charge(r *request, op *operation) float64 {
	switch {
	case op.kind == OpDelete:
		return deleteCharge(int(op.size))
	case op.kind == OpRead:
		return readCharge(len(op.stored))
	case op.kind == OpCreate, op.created:
		return c.createCharge(op)
	}
	return replaceCharge(c.changedTerms(r, op), int(op.size))
}

// failed returns the charge of a write that failed with err.
func (c *Container) failed(op *operation, err error) float64 {
	if unique := (*UniqueKeyError)(nil); errors.Is(err, ErrConflict) || errors.As(err, &unique) {
		return conflictShare * c.createCharge(op)
	}
	return failedCharge
}

func (c *Container) createCharge(op *operation) float64 {
	return createCharge(op.doc.body, int(op.size), len(op.unique))
}

// refused returns the result of a write that is not valid. Its partition is that of the key,
// if the key is.
func (c *Container) refused(ctx context.Context, key feed.PartitionKey) Result {
	components, err := c.paths.fullKey(key)
	if err != nil {
		return Result{}
	}
	v, s, err := c.open(ctx)
	if err != nil {
		return Result{}
	}
	defer v.release()
	c.spend(failedCharge)
	index := s.meta.find(c.hash.Append(nil, components))
	return Result{Partition: s.meta.partitions[index].id, End: s.ends[index], Charge: failedCharge}
}

// admit reports whether a request may run. It returns the error of ctx if ctx has ended.
// It returns a *feed.ThrottledError if the provisioned throughput is used up.
func (c *Container) admit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.throughput().admit(c.db.clock.now())
}

// newRequest returns an empty request for container c. The caller passes it to
// freeRequest after use.
func (db *DB) newRequest(c *Container) *request {
	r, _ := db.requests.Get().(*request)
	if r == nil {
		r = &request{done: make(chan struct{}, 1)}
	}
	r.c = c
	return r
}

func (db *DB) freeRequest(r *request) {
	r.dropView()
	key := r.one[0].key[:0]
	*r = request{done: r.done}
	r.one[0].key = key
	db.requests.Put(r)
}

// prepare fills op from o. It does all work that does not depend on other writes, before
// the sequencer gets the operation: it checks the document and makes the index key.
func (c *Container) prepare(op *operation, key feed.PartitionKey, o Operation) error {
	op.kind, op.id, op.change = o.Kind, o.ID, o.Change
	op.ifMatch, op.ifNoneMatch, op.noBody, op.exact = o.IfMatch, o.IfNoneMatch, o.NoBody, o.ExactCharge
	components, err := c.prepareKey(op, key, o)
	if err != nil {
		return err
	}
	var point int
	op.key, point = appendIndexKey(op.key[:0], c.number, c.hash, components, op.id)
	op.point = op.key[containerKeySize : containerKeySize+point]
	return nil
}

func (c *Container) prepareKey(op *operation, key feed.PartitionKey, o Operation) ([]epk.Component, error) {
	switch o.Kind {
	case OpCreate, OpUpsert, OpReplace:
		doc, err := parseDocument(o.Body, c.paths, c.useTTL.Load())
		if err != nil {
			return nil, err
		}
		if err := c.matchKey(key, &doc); err != nil {
			return nil, err
		}
		op.doc = doc
		if o.Kind == OpReplace && doc.id != o.ID {
			return nil, badRequest(BadID, "the body of item %q has the id %q", o.ID, doc.id)
		}
		op.id = doc.id
		return op.doc.components(), c.prepareUnique(op, doc)
	case OpDelete, OpRead, OpChange:
		if err := checkID(o.ID); err != nil {
			return nil, err
		}
		return c.paths.fullKey(key)
	}
	return nil, badRequest(BadBatch, "there is no operation %d", o.Kind)
}

// result returns the Result of an operation that the sequencer has carried out.
func (c *Container) result(r *request, op *operation) (Result, error) {
	res := Result{Created: op.created, Partition: r.partition, End: r.end}
	res.LSN = op.stamp.lsn
	res.Charge = c.charge(r, op)
	switch op.kind {
	case OpDelete:
		return res, nil
	case OpRead:
	case OpCreate, OpUpsert, OpReplace, OpChange:
		if op.noBody {
			res.ETag, res.Modified = c.tail.etag(op.stamp), unixTime(op.stamp.ts)
			return res, nil
		}
		op.stored = c.tail.appendStored(make([]byte, 0, len(op.doc.body)+maxTailSize), op.doc.body, op.stamp)
	}
	item, err := c.item(op.stored, op.stamp)
	res.Item = item
	return res, err
}

// item returns the Item of a stored document. The Item shares the memory of stored.
func (c *Container) item(stored []byte, s stamp) (Item, error) {
	// The result is not longer than stored, so appendPublic can write it in place.
	public, err := appendPublic(stored[:0], stored)
	if err != nil {
		return Item{}, c.db.fault(err)
	}
	return Item{Body: public, ETag: c.tail.etag(s), Modified: unixTime(s.ts), LSN: s.lsn}, nil
}

// Limits of batches.
const (
	// MaxBatchOperations is the largest number of operations in a batch.
	MaxBatchOperations = 100
	// MaxBatchSize is the largest total size of the bodies of a batch, in bytes.
	MaxBatchSize = 2 << 20
	// MaxBatchResult is the largest total size, in bytes, of the documents that a batch's
	// changes write and its reads return. It is four documents of the largest size.
	// Documents that a batch replaces or deletes do not count. In a container with
	// Retention, the same transaction keeps those documents, too. A batch that deletes a
	// hundred documents of the largest size writes 200 MiB, and one page of the feed has
	// all of them. Both take several times as much memory.
	MaxBatchResult = 4 * MaxDocumentSize
)

// Batch carries out up to 100 operations on one logical partition, either all or none.
// All writes of a batch have the same LSN. Each operation reads the effects of earlier
// ones. If key is nil, the first operation must have a body, which gives the key.
//
// Batch returns a *[BatchError] that names the operation that failed. It returns a
// *[TooLargeError] whose What is "batch", alone or wrapped in a *BatchError, above one of
// three limits: 100 operations, 2 MiB of bodies, and 8 MiB of documents that reads return
// and changes write.
func (c *Container) Batch(ctx context.Context, key feed.PartitionKey, ops []Operation) ([]Result, error) {
	if err := c.admit(ctx); err != nil {
		return nil, err
	}
	r := &request{c: c, ops: make([]operation, len(ops)), batch: true, done: make(chan struct{}, 1)}
	defer r.dropView()
	if err := c.prepareBatch(r, key, ops); err != nil {
		if failed := (*BatchError)(nil); errors.As(err, &failed) {
			at := c.refused(ctx, key)
			failed.Partition, failed.End = at.Partition, at.End
			c.spend(c.chargeFailed(r, failed, at.Charge) - at.Charge)
		}
		return nil, err
	}
	if err := c.db.submit(r); err != nil {
		charge := failedCharge
		if failed := (*BatchError)(nil); errors.As(err, &failed) {
			op := &r.ops[failed.Index]
			charge = c.failed(op, failed.Err)
			if sum := c.chargeFailed(r, failed, charge); op.kind != OpChange {
				charge = sum // otherwise the caller may make the change itself, and send the batch again
			}
		}
		c.spend(charge)
		return nil, err
	}
	results := make([]Result, len(ops))
	for i := range r.ops {
		var err error
		if results[i], err = c.result(r, &r.ops[i]); err != nil {
			return nil, err
		}
		c.spend(results[i].Charge)
	}
	return results, nil
}

// chargeFailed sets the charges of a batch whose operation at failed.Index costs charge, and
// returns their sum. As in the service, the others cost what they would have cost. But those
// after an invalid operation, which nothing has looked at, cost nothing.
func (c *Container) chargeFailed(r *request, failed *BatchError, charge float64) float64 {
	failed.Charges = make([]float64, len(r.ops))
	for i := range r.ops {
		switch op := &r.ops[i]; {
		case i == failed.Index:
			failed.Charges[i] = charge
		case len(op.key) > 0:
			failed.Charges[i] = c.charge(r, op)
		}
		failed.Charge += failed.Charges[i]
	}
	return failed.Charge
}

func (c *Container) prepareBatch(r *request, key feed.PartitionKey, ops []Operation) error {
	if len(ops) == 0 {
		return badRequest(BadBatch, "a batch has at least one operation")
	}
	if len(ops) > MaxBatchOperations {
		return &TooLargeError{What: "batch", Size: len(ops), Limit: MaxBatchOperations}
	}
	size := 0
	for i, o := range ops {
		op := &r.ops[i]
		if err := c.prepare(op, key, o); err != nil {
			return &BatchError{Index: i, Err: err}
		}
		if i > 0 && string(op.point) != string(r.ops[0].point) {
			return &BatchError{Index: i, Err: badRequest(BadBatch, "item %q has another partition key than the operation before it", op.id)}
		}
		if key == nil && op.doc.body != nil {
			key = partitionKey(op.doc.components())
		}
		if size += len(o.Body); size > MaxBatchSize {
			return &TooLargeError{What: "batch", Size: size, Limit: MaxBatchSize}
		}
	}
	return nil
}

// Read returns the item with the given id. It returns an error that wraps
// feed.ErrNotFound if the item does not exist or has expired. It returns [ErrNotModified]
// or [ErrPreconditionFailed] if a condition of o does not hold. It returns a
// *feed.ThrottledError if the provisioned throughput is used up.
func (c *Container) Read(ctx context.Context, key feed.PartitionKey, id string, o ReadOptions) (Result, error) {
	if err := c.admit(ctx); err != nil {
		return Result{}, err
	}
	var op operation
	if err := c.prepare(&op, key, Operation{Kind: OpRead, ID: id, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch}); err != nil {
		return Result{}, err
	}
	v, s, err := c.open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer v.release()
	res, err := c.readOne(v, s, &op)
	c.spend(res.Charge)
	if err != nil {
		return res, fmt.Errorf("read: %w", err)
	}
	return res, nil
}

func (c *Container) readOne(v *view, s *state, op *operation) (Result, error) {
	index := s.meta.find(op.point)
	res := Result{Partition: s.meta.partitions[index].id, End: s.ends[index], Charge: readCharge(0)}
	e, ok, err := lookup(v.snap, op.key)
	if err != nil {
		return res, c.db.fault(err)
	}
	if !ok || expired(e.ts, int32(s.meta.props.DefaultTTL), e.ttl, c.db.clock.seconds()) {
		return res, notFound("item %q", op.id)
	}
	if err := c.checkETags(op, version{entry: e, exists: true}); err != nil {
		return res, err
	}
	stored, err := c.fetch(v.snap, make([]byte, 0, e.size), e, op.point)
	if err != nil {
		return res, c.db.fault(err)
	}
	res.Charge = readCharge(len(stored))
	res.Item, err = c.item(stored, e.stamp)
	return res, err
}

// Item is a document as the store returns it.
type Item struct {
	// Body is the document with its system properties _rid, _self, _etag, _attachments
	// and _ts. Its text may differ from the one that was written (see package
	// canonical). It belongs to the caller.
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
	// 1/11 RU for each KB of the stored item beyond the first. The cost of a create depends
	// on the number of its values, too, and that of a replace on those that it changes; see
	// [WriteOptions].ExactCharge. A replace costs about 11 RU and a delete about 7.
	Charge float64
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
	// ExactCharge makes the charge of a replace, an upsert or a change depend on what it
	// changes, which costs a read of the old item. Otherwise a change of one scalar is
	// assumed. An item above 64 KiB isn't compared.
	ExactCharge bool
}

// ReadOptions are the conditions of a read. The zero value sets no condition.
type ReadOptions struct {
	// IfMatch is an ETag. The read returns [ErrPreconditionFailed] unless the item has
	// it.
	IfMatch string
	// IfNoneMatch is an ETag. The read returns [ErrNotModified] if the item still has it.
	IfNoneMatch string
}

// OpKind is the kind of an operation.
type OpKind int

// The kinds of operations.
const (
	OpCreate OpKind = iota
	OpUpsert
	OpReplace
	OpDelete
	OpRead
	// OpChange replaces an item with the result of [Operation].Change.
	OpChange
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
	// NoBody and ExactCharge are as in [WriteOptions]. OpRead ignores them.
	NoBody, ExactCharge bool
}
