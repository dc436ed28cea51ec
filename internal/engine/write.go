package engine

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
)

// Create writes a new item. key is the logical partition key; nil: it is taken
// from the body, else the two must agree. ctx is looked at before the write is
// queued; from then on it is carried out. That holds for all writes.
//
// Errors: [ErrConflict], when the id exists in the logical partition;
// *[BadRequestError] and *[TooLargeError], when body, id, key or ttl are not
// valid; *feed.ThrottledError, when the provisioned throughput is used up; one
// that wraps feed.ErrNotFound, when the container was deleted.
func (c *Container) Create(ctx context.Context, key feed.PartitionKey, body []byte, o WriteOptions) (Result, error) {
	return c.writeOne(ctx, key, Operation{Kind: OpCreate, Body: body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody})
}

// Upsert creates or replaces an item.
func (c *Container) Upsert(ctx context.Context, key feed.PartitionKey, body []byte, o WriteOptions) (Result, error) {
	return c.writeOne(ctx, key, Operation{Kind: OpUpsert, Body: body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody})
}

// Replace replaces the item id; an error that wraps feed.ErrNotFound: there is
// none. The body has the same id, and its key can't change.
func (c *Container) Replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, o WriteOptions) (Result, error) {
	return c.writeOne(ctx, key, Operation{Kind: OpReplace, ID: id, Body: body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody})
}

// Delete deletes the item id; an error that wraps feed.ErrNotFound: there is none.
func (c *Container) Delete(ctx context.Context, key feed.PartitionKey, id string, o WriteOptions) (Result, error) {
	return c.writeOne(ctx, key, Operation{Kind: OpDelete, ID: id, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody})
}

// Change replaces the item id by what change makes of it, as [Operation].Change: atomically, since no other
// write comes between the two. change is called once, or not at all. Errors: that of change, as it is; one that wraps
// feed.ErrNotFound, when there is no such item; those of Replace.
func (c *Container) Change(ctx context.Context, key feed.PartitionKey, id string, change func(old []byte) ([]byte, error), o WriteOptions) (Result, error) {
	return c.writeOne(ctx, key, Operation{Kind: OpChange, ID: id, Change: change, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody})
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
		return Result{}, err
	}
	if err := c.db.submit(r); err != nil {
		c.bucket.spend(writeCharge(0))
		return Result{Partition: r.partition, End: r.end, Charge: writeCharge(0)}, err
	}
	result, err := c.result(r, op)
	c.bucket.spend(result.Charge)
	return result, err
}

// admit looks at ctx and at the provisioned throughput.
func (c *Container) admit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.bucket.admit(c.db.clock.now())
}

// newRequest returns a request to be given back with freeRequest when its
// answer was taken.
func (db *DB) newRequest(c *Container) *request {
	r, _ := db.requests.Get().(*request)
	if r == nil {
		r = &request{done: make(chan struct{}, 1)}
	}
	r.c = c
	return r
}

func (db *DB) freeRequest(r *request) {
	key := r.one[0].key[:0]
	*r = request{done: r.done}
	r.one[0].key = key
	db.requests.Put(r)
}

// prepare does for one operation all that needs no other write's outcome: it
// checks and measures the document and makes the index key.
func (c *Container) prepare(op *operation, key feed.PartitionKey, o Operation) error {
	op.kind, op.id, op.change = o.Kind, o.ID, o.Change
	op.ifMatch, op.ifNoneMatch, op.noBody = o.IfMatch, o.IfNoneMatch, o.NoBody
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
		if err := c.paths.matchKey(key, &doc); err != nil {
			return nil, err
		}
		op.doc = doc
		if o.Kind == OpReplace && doc.id != o.ID {
			return nil, badRequest(BadID, "the body of item %q has the id %q", o.ID, doc.id)
		}
		op.id = doc.id
		return op.doc.components(), c.prepareUnique(op, o.Body)
	case OpDelete, OpRead, OpChange:
		if err := checkID(o.ID); err != nil {
			return nil, err
		}
		return c.paths.fullKey(key)
	}
	return nil, badRequest(BadBatch, "there is no operation %d", o.Kind)
}

// result makes the caller's answer of an operation's outcome.
func (c *Container) result(r *request, op *operation) (Result, error) {
	res := Result{Created: op.created, Partition: r.partition, End: r.end}
	res.LSN = op.stamp.lsn
	switch op.kind {
	case OpDelete:
		res.Charge = writeCharge(int(op.size))
		return res, nil
	case OpRead:
		res.Charge = readCharge(len(op.stored))
	case OpCreate, OpUpsert, OpReplace, OpChange:
		res.Charge = writeCharge(int(op.size))
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

// item makes an Item of a stored document, in the same memory.
func (c *Container) item(stored []byte, s stamp) (Item, error) {
	// A shorter copy of the bytes onto themselves.
	public, err := appendPublic(stored[:0], stored)
	if err != nil {
		return Item{}, c.db.fault(err)
	}
	return Item{Body: public, ETag: c.tail.etag(s), Modified: unixTime(s.ts), LSN: s.lsn}, nil
}
