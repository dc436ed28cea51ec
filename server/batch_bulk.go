package server

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file carries out bulk requests: batches without x-ms-cosmos-batch-atomic. Their
// operations are independent, and each has its own partition key.
//
// The request names a physical partition, by which SDKs group their operations. If that
// partition was split or merged, the answer is 410/1002, so that the SDK groups the
// operations again. An operation whose key is in another partition is still carried out,
// because one server has all partitions.
//
// Operations on one item run in order. Others run concurrently, so that they share the
// syncs of the log. Without x-ms-cosmos-batch-continue-on-error, all run in order. If one
// of them fails, the rest are not carried out and have the status 424.
//
// The items in one answer have at most 4 MiB together. An operation whose item does not
// fit has the status 413/3402 and is not carried out. SDKs send it again in another
// batch.

// bulkWorkers is the largest number of operations of one bulk request that run
// concurrently.
const bulkWorkers = 32

// maxBulkAnswer limits the items in the answer to a bulk request, in bytes. .NET's
// BulkExecutionRetryPolicy shows that the service has this limit. A single item is always
// smaller, so every batch makes progress.
const maxBulkAnswer = 4 << 20

// errBulkAnswer is the error of a bulk operation whose item does not fit into the answer.
var errBulkAnswer = failure(http.StatusRequestEntityTooLarge, wire.SubBatchResponseTooLarge,
	"not done, because the answer of the batch would be larger than %d bytes; send the operation again in another batch", maxBulkAnswer)

// bulkItems limits the items that the running operations of one bulk request hold in
// memory, in bytes. The items in the answer are not counted. Small patches are not
// counted either, because the store applies them.
const bulkItems = 16 << 20

// itemMemory is the budget for the items of one bulk request, in memory and in the
// answer. Operations take bytes from it and give them back. A nil itemMemory has no
// limit. It is safe for concurrent use.
type itemMemory struct {
	// answered is the total size of the items in the answer so far, in bytes.
	answered atomic.Int64

	mu    sync.Mutex // guards left
	given sync.Cond
	left  int
}

func newItemMemory() *itemMemory {
	m := &itemMemory{left: bulkItems}
	m.given.L = &m.mu
	return m
}

// take reserves n bytes, and waits until that many are available. The caller returns them
// with give. A caller that already holds bytes must not call take, or callers could
// deadlock. It returns errBulkAnswer if the answer became full meanwhile.
func (m *itemMemory) take(n int) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.left < n {
		m.given.Wait()
	}
	if m.answered.Load() > maxBulkAnswer {
		return errBulkAnswer
	}
	m.left -= n
	return nil
}

// give returns n bytes that the caller reserved with take.
func (m *itemMemory) give(n int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.left += n
	m.mu.Unlock()
	m.given.Broadcast()
}

func (x *request) bulk(c *engine.Container, b batch) error {
	if err := x.checkPartition(c); err != nil {
		return err
	}
	key, err := x.partitionKey()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(b.ops, func(o batchOp) bool { return o.Kind == storetype.OpRead || o.Kind == storetype.OpChange }) {
		if err := x.acquireSlot(bulkSlots); err != nil { // the items may be much larger than the body of the request
			return err
		}
	}
	results := make([]batchResult, len(b.ops))
	x.items = newItemMemory()
	if !x.flag(wire.HeaderBatchContinueOnError) {
		for i, o := range b.ops {
			if i > 0 && results[i-1].err != nil {
				results[i].err = errNotDone
				continue
			}
			results[i] = x.bulkOne(c, key, o)
		}
		return x.sendBatch(b, results)
	}
	var all sync.WaitGroup
	chains := chainsOf(b.ops)
	for n := range min(bulkWorkers, len(chains)) {
		all.Go(func() {
			for at := n; at < len(chains); at += bulkWorkers {
				for _, i := range chains[at] {
					results[i] = x.bulkOne(c, key, b.ops[i])
				}
			}
		})
	}
	all.Wait()
	return x.sendBatch(b, results)
}

// checkPartition returns a 410 error if the request names a partition that is not live.
func (x *request) checkPartition(c *engine.Container) error {
	id, err := x.partitionID(c)
	if err == nil && id != "" {
		_, err = partitionRange(x.r.Context(), c, id)
	}
	return ownerError(err)
}

// chainsOf groups the operations by the ID of their item. Each chain is a list of indexes
// into ops, in order. The operations of one chain run one after the other, those of
// different chains concurrently. Items with the same ID and different keys needlessly
// share a chain, which costs little time.
func chainsOf(ops []batchOp) [][]int {
	var chains [][]int
	of := map[string]int{}
	for i, o := range ops {
		id := o.ID
		if o.Kind == storetype.OpCreate || o.Kind == storetype.OpUpsert {
			id = idOf(o.Body)
		}
		at, known := of[id]
		if !known || id == "" { // the store refuses documents without an ID, so each is a chain of its own
			at = len(chains)
			of[id] = at
			chains = append(chains, nil)
		}
		chains[at] = append(chains[at], i)
	}
	return chains
}

// bulkOne carries out one operation of a bulk request and returns its result. If the
// operation fails, r.err is the reason. It also fails if the key is not permitted or the
// item does not fit into the answer.
func (x *request) bulkOne(c *engine.Container, key feed.PartitionKey, o batchOp) (r batchResult) {
	defer func() {
		// A panic here must be recovered here. The goroutine of the request recovers only
		// from its own panics.
		if p := recover(); p != nil {
			x.logPanic(p)
			r = batchResult{err: errInternal}
		}
	}()
	// The size of an item is known only after it is read. An item that does not fit into
	// the answer is dropped, because a read changes nothing. It is still counted, so that
	// the following reads are refused without being carried out.
	//
	// The item of a write is in the request, so its size is known before. Only concurrent
	// patches can make the answer longer than the limit.
	answered := &x.items.answered
	if answered.Load() > maxBulkAnswer {
		return batchResult{err: errBulkAnswer}
	}
	if o.key != nil {
		key = o.key
	}
	if err := x.permitsKey(key); err != nil {
		return batchResult{err: err}
	}
	if o.err != nil {
		return batchResult{c.RefuseWrite(x.r.Context(), key), o.err}
	}
	if o.Kind == storetype.OpRead {
		if err := x.items.take(storetype.MaxDocumentSize); err != nil {
			return batchResult{err: err}
		}
		defer x.items.give(storetype.MaxDocumentSize)
	}
	result, err := x.perform(c, key, o)
	if err != nil {
		result.Body = nil // the answer to a failed patch has no item
	}
	if size := int64(len(result.Body)); answered.Add(size) > maxBulkAnswer && o.Kind == storetype.OpRead {
		result.Body = nil
		return batchResult{Result: result, err: errBulkAnswer}
	}
	return batchResult{Result: result, err: err}
}

// perform calls the method of the store for one operation and returns its result.
func (x *request) perform(c *engine.Container, key feed.PartitionKey, o batchOp) (storetype.Result, error) {
	ctx := x.r.Context()
	w := storetype.WriteOptions{IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody, ExactCharge: true}
	switch o.Kind {
	case storetype.OpCreate:
		return c.Create(ctx, key, o.Body, w)
	case storetype.OpUpsert:
		return c.Upsert(ctx, key, o.Body, w)
	case storetype.OpReplace:
		return c.Replace(ctx, key, o.ID, o.Body, w)
	case storetype.OpDelete:
		return c.Delete(ctx, key, o.ID, w)
	case storetype.OpChange:
		return x.patchItem(c, key, o.ID, o.patch, w)
	case storetype.OpRead:
	}
	return c.Read(ctx, key, o.ID, storetype.ReadOptions{IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch})
}
