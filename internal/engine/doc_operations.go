package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// Create implements store.Container.Create, which documents it.
func (c *Container) Create(ctx context.Context, key feed.PartitionKey, body []byte, o storetype.WriteOptions) (storetype.Result, error) {
	return c.writeOne(ctx, key, storetype.Operation{Kind: storetype.OpCreate, Body: body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody})
}

// Upsert implements store.Container.Upsert, which documents it.
func (c *Container) Upsert(ctx context.Context, key feed.PartitionKey, body []byte, o storetype.WriteOptions) (storetype.Result, error) {
	return c.writeOne(ctx, key, storetype.Operation{Kind: storetype.OpUpsert, Body: body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody, ExactCharge: o.ExactCharge})
}

// Replace implements store.Container.Replace, which documents it.
func (c *Container) Replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, o storetype.WriteOptions) (storetype.Result, error) {
	return c.writeOne(ctx, key, storetype.Operation{Kind: storetype.OpReplace, ID: id, Body: body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody, ExactCharge: o.ExactCharge})
}

// Delete implements store.Container.Delete, which documents it.
func (c *Container) Delete(ctx context.Context, key feed.PartitionKey, id string, o storetype.WriteOptions) (storetype.Result, error) {
	return c.writeOne(ctx, key, storetype.Operation{Kind: storetype.OpDelete, ID: id, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody})
}

// Change implements store.Container.Change, which documents it.
func (c *Container) Change(ctx context.Context, key feed.PartitionKey, id string, change func(old []byte) ([]byte, error), o storetype.WriteOptions) (storetype.Result, error) {
	return c.writeOne(ctx, key, storetype.Operation{Kind: storetype.OpChange, ID: id, Change: change, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody, ExactCharge: o.ExactCharge})
}

func (c *Container) writeOne(ctx context.Context, key feed.PartitionKey, o storetype.Operation) (storetype.Result, error) {
	if err := c.admit(ctx); err != nil {
		return storetype.Result{Charge: c.Throttled(key, o)}, err
	}
	r := c.db.newRequest(c)
	defer c.db.freeRequest(r)
	r.ops = r.one[:1]
	op := &r.ops[0]
	if err := c.prepare(op, key, o); err != nil {
		return c.RefuseWrite(ctx, key), err
	}
	if err := c.db.submit(r); err != nil {
		charge := c.failed(op, err)
		c.spend(charge)
		return storetype.Result{Partition: r.partition, End: r.end, Charge: charge}, err
	}
	result, err := c.result(r, op)
	c.spend(result.Charge)
	return result, err
}

// charge returns the charge of an operation of r that succeeds. An upsert counts as a replace
// until the sequencer has found no item.
func (c *Container) charge(r *request, op *operation) float64 {
	switch {
	case op.kind == storetype.OpDelete:
		return deleteCharge(int(op.size))
	case op.kind == storetype.OpRead:
		return readCharge(len(op.stored))
	case op.kind == storetype.OpCreate, op.created:
		return c.createCharge(op)
	}
	return replaceCharge(c.changedTerms(r, op), int(op.size))
}

// Throttled returns the charge of operations that are refused because the throughput is used
// up: [ThrottledShare] of what they would have cost at least. Nothing looks at the stored items,
// so a replaced item counts as unchanged, and an upserted one as new.
func (c *Container) Throttled(key feed.PartitionKey, ops ...storetype.Operation) float64 {
	sum := 0.0
	for _, o := range ops {
		var op operation
		err := c.prepare(&op, key, o)
		switch size := len(op.doc.Body); {
		case err != nil:
			sum += FailedCharge
		case o.Kind == storetype.OpRead:
			sum += readCharge(0)
		case o.Kind == storetype.OpDelete:
			sum += deleteCharge(0)
		case o.Kind == storetype.OpCreate:
			sum += createCharge(op.doc.Body, size, len(op.unique))
		case o.Kind == storetype.OpUpsert:
			sum += min(createCharge(op.doc.Body, size, len(op.unique)), replaceCharge(0, size))
		default:
			sum += replaceCharge(0, size)
		}
	}
	return ThrottledShare * sum
}

// failed returns the charge of an operation that failed with err. A read costs the same
// whether it finds an item or not, also in a batch.
func (c *Container) failed(op *operation, err error) float64 {
	if op.kind == storetype.OpRead {
		return readCharge(0)
	}
	if unique := (*storetype.UniqueKeyError)(nil); errors.Is(err, storetype.ErrConflict) || errors.As(err, &unique) {
		return conflictShare * c.createCharge(op)
	}
	return FailedCharge
}

func (c *Container) createCharge(op *operation) float64 {
	return createCharge(op.doc.Body, int(op.size), len(op.unique))
}

// RefuseWrite spends the charge of a write that is not valid and returns its result. Callers
// use it for a write that they refuse before the store gets it. The partition is that of the
// key; if the key is not valid, the write costs nothing.
func (c *Container) RefuseWrite(ctx context.Context, key feed.PartitionKey) storetype.Result {
	components, err := c.paths.FullKey(key)
	if err != nil {
		return storetype.Result{}
	}
	v, s, err := c.open(ctx)
	if err != nil {
		return storetype.Result{}
	}
	defer v.release()
	c.spend(FailedCharge)
	index := s.meta.find(c.hash.Append(nil, components))
	return storetype.Result{Partition: s.meta.partitions[index].id, End: s.ends[index], Charge: FailedCharge}
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
func (c *Container) prepare(op *operation, key feed.PartitionKey, o storetype.Operation) error {
	op.kind, op.id, op.change = o.Kind, o.ID, o.Change
	op.ifMatch, op.ifNoneMatch, op.noBody, op.exact = o.IfMatch, o.IfNoneMatch, o.NoBody, o.ExactCharge
	components, err := c.prepareKey(op, key, o)
	if err != nil {
		return err
	}
	var point int
	op.key, point = layout.AppendIndexKey(op.key[:0], c.number, c.hash, components, op.id)
	op.point = op.key[layout.ContainerKeySize : layout.ContainerKeySize+point]
	return nil
}

func (c *Container) prepareKey(op *operation, key feed.PartitionKey, o storetype.Operation) ([]epk.Component, error) {
	switch o.Kind {
	case storetype.OpCreate, storetype.OpUpsert, storetype.OpReplace:
		doc, err := layout.ParseDocument(o.Body, c.paths, c.useTTL.Load())
		if err != nil {
			return nil, err
		}
		if err := c.matchKey(key, &doc); err != nil {
			return nil, err
		}
		op.doc = doc
		if o.Kind == storetype.OpReplace && doc.ID != o.ID {
			return nil, layout.BadRequest(storetype.BadID, "the body of item %q has the id %q", o.ID, doc.ID)
		}
		op.id = doc.ID
		return op.doc.Components(), c.prepareUnique(op, doc)
	case storetype.OpDelete, storetype.OpRead, storetype.OpChange:
		if err := layout.CheckID(o.ID); err != nil {
			return nil, err
		}
		return c.paths.FullKey(key)
	}
	return nil, layout.BadRequest(storetype.BadBatch, "there is no operation %d", o.Kind)
}

// result returns the Result of an operation that the sequencer has carried out.
func (c *Container) result(r *request, op *operation) (storetype.Result, error) {
	res := storetype.Result{Created: op.created, Partition: r.partition, End: r.end}
	res.LSN = op.stamp.LSN
	res.Charge = c.charge(r, op)
	switch op.kind {
	case storetype.OpDelete:
		return res, nil
	case storetype.OpRead:
	case storetype.OpCreate, storetype.OpUpsert, storetype.OpReplace, storetype.OpChange:
		if op.noBody {
			res.ETag, res.Modified = c.tail.ETag(op.stamp), unixTime(op.stamp.TS)
			return res, nil
		}
		op.stored = c.tail.AppendStored(make([]byte, 0, len(op.doc.Body)+layout.MaxTailSize), op.doc.Body, op.stamp)
	}
	item, err := c.item(op.stored, op.stamp)
	res.Item = item
	return res, err
}

// item returns the Item of a stored document. The Item shares the memory of stored.
func (c *Container) item(stored []byte, s layout.Stamp) (storetype.Item, error) {
	// The result is not longer than stored, so layout.AppendPublic can write it in place.
	public, err := layout.AppendPublic(stored[:0], stored)
	if err != nil {
		return storetype.Item{}, c.db.fault(err)
	}
	return storetype.Item{Body: public, ETag: c.tail.ETag(s), Modified: unixTime(s.TS), LSN: s.LSN}, nil
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
	MaxBatchResult = 4 * storetype.MaxDocumentSize
)

// Batch implements store.Container.Batch, which documents it.
func (c *Container) Batch(ctx context.Context, key feed.PartitionKey, ops []storetype.Operation) ([]storetype.Result, error) {
	if err := c.admit(ctx); err != nil {
		return nil, err
	}
	r := &request{c: c, ops: make([]operation, len(ops)), batch: true, done: make(chan struct{}, 1)}
	defer r.dropView()
	if err := c.prepareBatch(r, key, ops); err != nil {
		if failed := (*storetype.BatchError)(nil); errors.As(err, &failed) {
			at := c.RefuseWrite(ctx, key)
			failed.Partition, failed.End = at.Partition, at.End
			c.spend(c.chargeFailed(r, failed, at.Charge) - at.Charge)
		}
		return nil, err
	}
	if err := c.db.submit(r); err != nil {
		charge := FailedCharge
		if failed := (*storetype.BatchError)(nil); errors.As(err, &failed) {
			op := &r.ops[failed.Index]
			charge = c.failed(op, failed.Err)
			if sum := c.chargeFailed(r, failed, charge); op.kind != storetype.OpChange {
				charge = sum // otherwise the caller may make the change itself, and send the batch again
			}
		}
		c.spend(charge)
		return nil, err
	}
	results := make([]storetype.Result, len(ops))
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
func (c *Container) chargeFailed(r *request, failed *storetype.BatchError, charge float64) float64 {
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

func (c *Container) prepareBatch(r *request, key feed.PartitionKey, ops []storetype.Operation) error {
	if len(ops) == 0 {
		return layout.BadRequest(storetype.BadBatch, "a batch has at least one operation")
	}
	if len(ops) > MaxBatchOperations {
		return &storetype.TooLargeError{What: "batch", Size: len(ops), Limit: MaxBatchOperations}
	}
	size := 0
	for i, o := range ops {
		op := &r.ops[i]
		if err := c.prepare(op, key, o); err != nil {
			return &storetype.BatchError{Index: i, Err: err}
		}
		if i > 0 && string(op.point) != string(r.ops[0].point) {
			return &storetype.BatchError{Index: i, Err: layout.BadRequest(storetype.BadBatch, "item %q has another partition key than the operation before it", op.id)}
		}
		if key == nil && op.doc.Body != nil {
			key = layout.PartitionKey(op.doc.Components())
		}
		if size += len(o.Body); size > MaxBatchSize {
			return &storetype.TooLargeError{What: "batch", Size: size, Limit: MaxBatchSize}
		}
	}
	return nil
}

// Read implements store.Container.Read, which documents it.
func (c *Container) Read(ctx context.Context, key feed.PartitionKey, id string, o storetype.ReadOptions) (storetype.Result, error) {
	if err := c.admit(ctx); err != nil {
		return storetype.Result{Charge: ThrottledShare * readCharge(0)}, err
	}
	var op operation
	if err := c.prepare(&op, key, storetype.Operation{Kind: storetype.OpRead, ID: id, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch}); err != nil {
		return storetype.Result{}, err
	}
	v, s, err := c.open(ctx)
	if err != nil {
		return storetype.Result{}, err
	}
	defer v.release()
	res, err := c.readOne(v, s, &op)
	c.spend(res.Charge)
	if err != nil {
		return res, fmt.Errorf("read: %w", err)
	}
	return res, nil
}

func (c *Container) readOne(v *view, s *state, op *operation) (storetype.Result, error) {
	index := s.meta.find(op.point)
	res := storetype.Result{Partition: s.meta.partitions[index].id, End: s.ends[index], Charge: readCharge(0)}
	e, ok, err := lookup(v.snap, op.key)
	if err != nil {
		return res, c.db.fault(err)
	}
	if !ok || layout.Expired(e.TS, int32(s.meta.props.DefaultTTL), e.TTL, c.db.clock.seconds()) {
		return res, notFound("item %q", op.id)
	}
	if err := c.checkETags(op, version{Entry: e, exists: true}); err != nil {
		return res, err
	}
	stored, err := c.fetch(v.snap, make([]byte, 0, e.Size), e, op.point)
	if err != nil {
		return res, c.db.fault(err)
	}
	res.Charge = readCharge(len(stored))
	res.Item, err = c.item(stored, e.Stamp)
	return res, err
}
