package server

import (
	"errors"
	"net/http"
	"slices"

	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
)

// A batch with x-ms-cosmos-batch-atomic: true is a transaction on one logical partition: all of it is done, in order
// and at one LSN, or nothing. The operation that fails has its own status, all others 424. The key is in the header; an
// operation may repeat it (or, without the header, bring it), but not name another.

// errNotDone is what became of the operations beside the one that failed.
var errNotDone = failure(http.StatusFailedDependency, 0, "not done, because another operation of the batch failed")

func (x *exchange) transact(c *store.Container, b batch) error {
	key, err := x.partitionKey()
	if err != nil {
		return err
	}
	prepared := make([]store.Operation, len(b.ops))
	for i, o := range b.ops {
		switch {
		case o.err != nil:
			return x.sendFailedBatch(b, i, batchResult{err: o.err})
		case key == nil:
			key = o.key
		case o.key != nil && !slices.Equal(o.key, key):
			return x.sendFailedBatch(b, i, batchResult{err: badRequest(
				"the partitionKey of operation %d is %s, and the transaction is on %s: all operations of one are on one partition key", i, o.key, key)})
		}
		prepared[i] = o.Operation
	}
	results, err := c.Batch(x.r.Context(), key, prepared)
	for {
		failed := (*store.BatchError)(nil)
		if !errors.As(err, &failed) {
			break
		}
		// Documents without an id get one. Nothing was done yet: a bad id is found before anything is.
		if !giveID(&prepared[failed.Index], failed.Err) {
			if large := (*store.TooLargeError)(nil); errors.As(failed.Err, &large) && large.What == "batch" {
				return failure(http.StatusRequestEntityTooLarge, wire.SubBatchResponseTooLarge, "%v", err)
			}
			at := store.Result{Partition: failed.Partition, End: failed.End, Charge: failed.Charge}
			return x.sendFailedBatch(b, failed.Index, batchResult{Result: at, err: failed.Err})
		}
		results, err = c.Batch(x.r.Context(), key, prepared)
	}
	if err != nil {
		return above(err)
	}
	done := make([]batchResult, len(results))
	for i, r := range results {
		done[i] = batchResult{Result: r}
	}
	return x.sendBatch(b, done)
}

// giveID gives a new id to the document of a create or upsert that failed because it has none; false: that wasn't why.
func giveID(o *store.Operation, err error) bool {
	bad := (*store.BadRequestError)(nil)
	if !errors.As(err, &bad) || bad.Kind != store.BadID || o.Kind != store.OpCreate && o.Kind != store.OpUpsert {
		return false
	}
	with, missing := withID(o.Body)
	if missing {
		o.Body = with
	}
	return missing
}

// sendFailedBatch answers that nothing was done, because one operation failed.
func (x *exchange) sendFailedBatch(b batch, index int, failed batchResult) error {
	results := make([]batchResult, len(b.ops))
	for i := range results {
		results[i].err = errNotDone
	}
	results[index] = failed
	return x.sendBatch(b, results)
}
