package engine

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
)

// Limits of batches.
const (
	// MaxBatchOperations is how many operations a batch has at most.
	MaxBatchOperations = 100
	// MaxBatchSize is how many bytes the bodies of a batch have together at most.
	MaxBatchSize = 2 << 20
	// MaxBatchResult is how many bytes the documents that a batch's changes make and its reads return have
	// together at most: four documents of the largest size. What a batch replaces or deletes isn't counted. In a
	// container with Retention that is kept, too, in one transaction: a batch that deletes a hundred documents of the
	// largest size writes 200 MiB, and one page of the feed has them; each takes several times as much memory.
	MaxBatchResult = 4 * MaxDocumentSize
)

// Batch carries out up to 100 operations on one logical partition, all or
// none. All their writes share one LSN. Each operation sees what the earlier
// ones did. key may be nil when the first operation has a body to take it from.
// *[BatchError] names the operation that failed. *[TooLargeError] with What "batch", alone or in a
// *[BatchError]: the batch exceeds [MaxBatchOperations], [MaxBatchSize] or [MaxBatchResult].
func (c *Container) Batch(ctx context.Context, key feed.PartitionKey, ops []Operation) ([]Result, error) {
	if err := c.admit(ctx); err != nil {
		return nil, err
	}
	r := &request{c: c, ops: make([]operation, len(ops)), batch: true, done: make(chan struct{}, 1)}
	if err := c.prepareBatch(r, key, ops); err != nil {
		return nil, err
	}
	if err := c.db.submit(r); err != nil {
		c.bucket.spend(writeCharge(0))
		return nil, err
	}
	results := make([]Result, len(ops))
	for i := range r.ops {
		var err error
		if results[i], err = c.result(r, &r.ops[i]); err != nil {
			return nil, err
		}
		c.bucket.spend(results[i].Charge)
	}
	return results, nil
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
