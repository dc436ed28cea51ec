package server

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// A batch without x-ms-cosmos-batch-atomic is bulk: its operations are independent, and
// each has its own partition key.
//
// The request names a physical partition, by which SDKs group their operations. If it was
// split or merged, the answer is 410/1002, so that the SDK groups the operations again.
// An operation whose key is in another partition is still carried out, because one server
// has all partitions. Operations on one item are carried out in order. Others run
// concurrently, so that they share the syncs of the log. Without
// x-ms-cosmos-batch-continue-on-error, all run in order. After one fails, the rest are
// answered 424.
//
// The items in an answer have at most 4 MiB together. Operations whose items do not fit
// are answered 413/3402 and not carried out. SDKs send them again in another batch.

// bulkWorkers limits the operations of one request that run concurrently.
const bulkWorkers = 32

// maxBulkAnswer limits the items in an answer, in bytes. It is the limit of the service,
// as seen in .NET's BulkExecutionRetryPolicy. A single item is always smaller, so each
// batch makes progress.
const maxBulkAnswer = 4 << 20

// errBulkAnswer is the result of an operation whose item does not fit into the answer.
var errBulkAnswer = failure(http.StatusRequestEntityTooLarge, wire.SubBatchResponseTooLarge,
	"not done, because the answer of the batch would be larger than %d bytes; send the operation again in another batch", maxBulkAnswer)

// bulkItems limits the items that the operations of one request hold in memory, in bytes.
// It does not count the items of the answer, or small patches, which the store applies.
const bulkItems = 16 << 20

// itemMemory is the memory for the items of a bulk request. A nil itemMemory has no
// limit. It is safe for concurrent use.
type itemMemory struct {
	// answered is the size in bytes of the items in the answer.
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

// take waits for n bytes, which the caller returns with give. A caller that holds bytes
// must not take more, or callers could deadlock. It returns errBulkAnswer if the answer
// became full meanwhile.
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

// give returns n bytes.
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
	if slices.ContainsFunc(b.ops, func(o batchOp) bool { return o.Kind == engine.OpRead || o.Kind == engine.OpChange }) {
		if err := x.acquireSlot(bulkSlots); err != nil { // the items are not in the body
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

// checkPartition returns an error if the partition that the request names is not live.
func (x *request) checkPartition(c *engine.Container) error {
	id, err := x.partitionID(c)
	if err == nil && id != "" {
		_, err = partitionRange(x.r.Context(), c, id)
	}
	return ownerError(err)
}

// chainsOf divides the operations into chains of indexes. Each chain has the operations
// on items of one ID, in order. Items with one ID and two keys share a chain, too, which
// costs only a little time.
func chainsOf(ops []batchOp) [][]int {
	var chains [][]int
	of := map[string]int{}
	for i, o := range ops {
		id := o.ID
		if o.Kind == engine.OpCreate || o.Kind == engine.OpUpsert {
			id = idOf(o.Body)
		}
		at, known := of[id]
		if !known || id == "" { // documents without an id, which the store refuses, share no chain
			at = len(chains)
			of[id] = at
			chains = append(chains, nil)
		}
		chains[at] = append(chains[at], i)
	}
	return chains
}

// bulkOne carries out one operation, if its key is permitted and its item fits into the
// answer.
func (x *request) bulkOne(c *engine.Container, key feed.PartitionKey, o batchOp) (r batchResult) {
	defer func() {
		// This is not the goroutine of the request, which recovers from panics.
		if p := recover(); p != nil {
			x.logPanic(p)
			r = batchResult{err: errInternal}
		}
	}()
	if o.err != nil {
		return batchResult{err: o.err}
	}
	// The size of a read item is known only after the read. An item that does not fit is
	// dropped, because the read changed nothing. It is still counted, so that the server
	// refuses the next reads at once. A write has its item in the request. So only
	// concurrent patches can exceed the limit.
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
	if o.Kind == engine.OpRead {
		if err := x.items.take(engine.MaxDocumentSize); err != nil {
			return batchResult{err: err}
		}
		defer x.items.give(engine.MaxDocumentSize)
	}
	result, err := x.perform(c, key, o)
	if err != nil {
		result.Body = nil // the answer does not include the item of a failed patch
	}
	if size := int64(len(result.Body)); answered.Add(size) > maxBulkAnswer && o.Kind == engine.OpRead {
		result.Body = nil
		return batchResult{Result: result, err: errBulkAnswer}
	}
	return batchResult{Result: result, err: err}
}

// perform calls the store for one operation.
func (x *request) perform(c *engine.Container, key feed.PartitionKey, o batchOp) (engine.Result, error) {
	ctx := x.r.Context()
	w := engine.WriteOptions{IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch, NoBody: o.NoBody}
	switch o.Kind {
	case engine.OpCreate:
		return c.Create(ctx, key, o.Body, w)
	case engine.OpUpsert:
		return c.Upsert(ctx, key, o.Body, w)
	case engine.OpReplace:
		return c.Replace(ctx, key, o.ID, o.Body, w)
	case engine.OpDelete:
		return c.Delete(ctx, key, o.ID, w)
	case engine.OpChange:
		return x.patchItem(c, key, o.ID, o.patch, w)
	case engine.OpRead:
	}
	return c.Read(ctx, key, o.ID, engine.ReadOptions{IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch})
}
