package server

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file carries out transactions: batches with x-ms-cosmos-batch-atomic: true, on one
// logical partition. Either all operations are carried out, in order and at one LSN, or
// none is. In the second case the operation that failed has its own status, and all
// others have 424.
//
// The partition key is in the header. If the header is missing, the operations may have
// it. Operations on different logical partitions are refused.

// errNotDone is the error of an operation that was not carried out because another one of
// its transaction failed.
var errNotDone = failure(http.StatusFailedDependency, 0, "not done, because another operation of the batch failed")

func (x *request) transact(c *engine.Container, b batch) error {
	key, err := x.partitionKey()
	if err != nil {
		return err
	}
	prepared := make([]storetype.Operation, len(b.ops))
	for i, o := range b.ops {
		switch {
		case o.err != nil:
			return x.sendFailedBatch(b, i, batchResult{c.RefuseWrite(x.r.Context(), key), o.err})
		case key == nil:
			key = o.key
		case o.key != nil && !slices.Equal(o.key, key) && !c.SamePartition(o.key, key):
			return x.sendFailedBatch(b, i, batchResult{c.RefuseWrite(x.r.Context(), key), invalidBatch(
				"the partitionKey of operation %d is %s, but the transaction is on %s; a transaction has one partition key", i, o.key, key)})
		}
		prepared[i] = o.Operation
	}
	results, err := x.commit(c, key, b.ops, prepared)
	if failed := (*storetype.BatchError)(nil); errors.As(err, &failed) {
		if large := (*storetype.TooLargeError)(nil); errors.As(failed.Err, &large) && large.What == "batch" {
			return failure(http.StatusRequestEntityTooLarge, wire.SubBatchResponseTooLarge, "%v", err)
		}
		at := storetype.Result{Partition: failed.Partition, End: failed.End}
		return x.sendFailedBatch(b, failed.Index, batchResult{Result: at, err: failed.Err}, failed.Charges...)
	}
	if errors.As(err, new(*feed.ThrottledError)) {
		x.charge = c.Throttled(key, prepared...)
	}
	if err != nil {
		return ownerError(err)
	}
	done := make([]batchResult, len(results))
	for i, r := range results {
		done[i] = batchResult{Result: r}
	}
	return x.sendBatch(b, done)
}

// commit carries out the operations of a transaction and returns their results.
//
// Small patches without a condition run in the store's sequencer, which runs one write at
// a time. If there is any other patch, commit first prepares all changes outside the
// sequencer. It then commits them, unless a patched item has changed meanwhile.
func (x *request) commit(c *engine.Container, key feed.PartitionKey, ops []batchOp, prepared []storetype.Operation) ([]storetype.Result, error) {
	rehearse := false
	for i, o := range ops {
		if o.patch != nil {
			prepared[i].Change = o.patch.inline
			rehearse = rehearse || o.patch.condition != nil
		}
	}
	if !rehearse {
		results, err := c.Batch(x.r.Context(), key, prepared)
		if !errors.Is(err, errNotInline) {
			return results, err
		}
	}
	var contended *storetype.BatchError
	for range maxPatchAttempts {
		if err := x.prepareChanges(c, key, ops, prepared); err != nil {
			return nil, err
		}
		results, err := c.Batch(x.r.Context(), key, prepared)
		if !errors.As(err, &contended) || !errors.Is(contended.Err, errContended) {
			return results, err
		}
	}
	return nil, contended
}

// prepareChanges evaluates the patches of a transaction outside the sequencer. It
// replaces the Change of each operation by one that returns the evaluated document.
//
// It stops at the first operation that fails. Then the transaction fails at the same
// operation when it is committed, unless an item has changed meanwhile. If an earlier
// operation of the transaction wrote the document, the patch sees the document without
// its new system properties.
func (x *request) prepareChanges(c *engine.Container, key feed.PartitionKey, ops []batchOp, prepared []storetype.Operation) error {
	for i, o := range ops {
		if o.patch != nil {
			prepared[i].Change = func([]byte) ([]byte, error) { return nil, errContended }
		}
	}
	documents := map[string][]byte{} // the documents by ID after the operations so far; nil means deleted
	size := 0
	for i, o := range ops {
		switch o.Kind {
		case storetype.OpCreate, storetype.OpUpsert:
			documents[idOf(o.Body)] = o.Body
		case storetype.OpReplace:
			documents[o.ID] = o.Body
		case storetype.OpDelete:
			documents[o.ID] = nil
		case storetype.OpRead:
		case storetype.OpChange:
			old, written := documents[o.ID]
			etag := ""
			if !written {
				item, err := x.readForPatch(c, key, o.ID, storetype.ReadOptions{})
				if bad := (*storetype.BadRequestError)(nil); errors.Is(err, feed.ErrNotFound) || errors.As(err, &bad) {
					return nil // the commit fails at this operation, too
				} else if err != nil {
					return ownerError(err)
				}
				old, etag = item.Body, item.ETag
			}
			if old == nil {
				return nil
			}
			after, err := x.patched(o.patch, old)
			prepared[i].Change = preparedChange(etag, after, err)
			if size += len(after); err != nil || size > engine.MaxBatchResult {
				return nil
			}
			documents[o.ID] = after
		}
	}
	return nil
}

// preparedChange returns a Change that returns the prepared document after, or err. If
// the stored document no longer has the etag, the Change returns errContended. An empty
// etag means that the transaction itself wrote the document, so it cannot have changed.
func preparedChange(etag string, after []byte, err error) func(old []byte) ([]byte, error) {
	return func(old []byte) ([]byte, error) {
		if etag != "" && !hasETag(old, etag) {
			return nil, errContended
		}
		return after, err
	}
}

// hasETag reports whether a document has an etag. The etag is among the last members of
// the document.
func hasETag(document []byte, etag string) bool {
	const mark = `"_etag":"\"`
	at := bytes.LastIndex(document, []byte(mark))
	return at >= 0 && bytes.HasPrefix(document[at+len(mark):], []byte(strings.Trim(etag, `"`)+`\"`))
}

// sendFailedBatch answers a transaction whose operation at index failed. That operation
// has its own result, and all others have 424. charges has the charge of each operation, or
// nothing if the store did not get the transaction.
func (x *request) sendFailedBatch(b batch, index int, failed batchResult, charges ...float64) error {
	results := make([]batchResult, len(b.ops))
	for i := range results {
		results[i].err = errNotDone
	}
	results[index] = failed
	for i, charge := range charges {
		results[i].Charge = charge
	}
	x.failedBatch = true
	if a := answerTo(failed.err, true); a.substatus == wire.SubPartitionKeyMismatch {
		x.substatus = a.substatus
	}
	return x.sendBatch(b, results)
}
