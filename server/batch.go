package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
)

// POST docs with x-ms-cosmos-is-batch-request: several operations in one request; all or none of them (transaction.go), or each
// for itself (bulk.go).
//
// Supported: Create, Upsert, Read, Replace, Delete and Patch as JSON, at most 100 of them and 2 MiB; ifMatch, ifNoneMatch,
// minimalReturnPreference. Not supported: the binary form HybridRow, in which .NET writes its batches.

// maxBatchBody bounds the body of a batch: the documents, and what is around them.
const maxBatchBody = store.MaxBatchSize + 256<<10

// hybridRow is the first byte of a batch in binary form.
const hybridRow = 0x81

// batchEntry is an operation as it is sent.
type batchEntry struct {
	OperationType string          `json:"operationType"`
	ID            string          `json:"id"`
	ResourceBody  json.RawMessage `json:"resourceBody"`
	IfMatch       string          `json:"ifMatch"`
	IfNoneMatch   string          `json:"ifNoneMatch"`
	// PartitionKey is a JSON array in a JSON string, in bulk.
	PartitionKey *string `json:"partitionKey"`
	Minimal      bool    `json:"minimalReturnPreference"`
}

// batchOp is an operation that was read.
type batchOp struct {
	store.Operation
	// key is the operation's own; nil: it is the request's, or in the document.
	key     feed.PartitionKey
	minimal bool
	// err is what is wrong with it already.
	err error
}

// batchResult is what became of an operation.
type batchResult struct {
	store.Result
	err error
}

func (s *Server) runBatch(x *exchange) error {
	c, err := x.owner()
	if err != nil {
		return err
	}
	body, err := x.body(maxBatchBody)
	if err != nil {
		return err
	}
	ops, err := x.readBatch(c, body)
	if err != nil {
		return err
	}
	if x.flag(wire.HeaderBatchAtomic) {
		return x.transact(c, ops)
	}
	return x.bulk(c, ops)
}

// readBatch reads the operations. The error is that of the request as a whole.
func (x *exchange) readBatch(c *store.Container, body []byte) ([]batchOp, error) {
	if len(body) > 0 && body[0] == hybridRow {
		return nil, unsupported("a batch in the binary form HybridRow (the .NET SDK's transactional batch and bulk mode)")
	}
	var entries []batchEntry
	if err := json.Unmarshal(body, &entries); err != nil {
		return nil, badRequest("the body of a batch is a JSON array of operations: %v", err)
	}
	if len(entries) == 0 {
		return nil, badRequest("the batch has no operations")
	}
	if len(entries) > store.MaxBatchOperations {
		return nil, badRequest("Batch request has more operations than what is supported: %d; at most %d are", len(entries), store.MaxBatchOperations)
	}
	var paths [][]string
	ops := make([]batchOp, len(entries))
	for i, e := range entries {
		kind, known := batchKinds[strings.ToLower(e.OperationType)]
		if !known {
			return nil, badRequest("operation %d of the batch is %.40q; operations are Create, Upsert, Read, Replace, Delete and Patch", i, e.OperationType)
		}
		if kind != store.OpRead && x.grant == readOnly {
			return nil, forbidden("the key that signed the request may only read; operation %d of the batch is %s", i, e.OperationType)
		}
		if kind == store.OpChange && paths == nil {
			var err error
			if paths, err = unpatchable(x, c); err != nil {
				return nil, err
			}
		}
		ops[i] = e.read(kind, paths)
		ops[i].minimal = ops[i].minimal || x.minimal()
	}
	return ops, nil
}

// batchKinds are the types of operations, in lower case.
var batchKinds = map[string]store.OpKind{
	"create": store.OpCreate, "upsert": store.OpUpsert, "read": store.OpRead, "replace": store.OpReplace, "delete": store.OpDelete,
	"patch": store.OpChange,
}

func (e batchEntry) read(kind store.OpKind, unpatchable [][]string) batchOp {
	o := batchOp{minimal: e.Minimal, Operation: store.Operation{Kind: kind, ID: e.ID, IfMatch: e.IfMatch, IfNoneMatch: e.IfNoneMatch}}
	if e.PartitionKey != nil {
		if o.key, o.err = parseKey(*e.PartitionKey); o.err != nil {
			o.err = badRequest("the partitionKey of the operation is no partition key: %v", o.err)
			return o
		}
	}
	switch kind {
	case store.OpCreate, store.OpUpsert, store.OpReplace:
		o.Body = e.ResourceBody
		if len(o.Body) == 0 {
			o.err = badRequest("the operation has no resourceBody")
		}
	case store.OpChange:
		o.Change, o.err = patchBy(e.ResourceBody, unpatchable)
	case store.OpRead, store.OpDelete:
	}
	return o
}

// status is the code of an operation that was done.
func (o batchOp) status(r store.Result) int {
	switch o.Kind {
	case store.OpCreate:
		return http.StatusCreated
	case store.OpDelete:
		return http.StatusNoContent
	case store.OpUpsert:
		if r.Created {
			return http.StatusCreated
		}
	case store.OpReplace, store.OpRead, store.OpChange:
	}
	return http.StatusOK
}

// sendBatch answers with what became of each operation, in their order: 207 when one failed.
func (x *exchange) sendBatch(ops []batchOp, results []batchResult) error {
	status := http.StatusOK
	size, ends := 0, map[string]int64{}
	for i := range results {
		size += len(results[i].Body) + 128
	}
	body := append(make([]byte, 0, size), '[')
	for i, r := range results {
		if i > 0 {
			body = append(body, ',')
		}
		x.charge += r.Charge
		if r.Partition != "" {
			ends[r.Partition] = max(ends[r.Partition], r.End)
		}
		if r.err != nil {
			status = http.StatusMultiStatus
			body = appendFailure(body, answerTo(r.err), r.Charge)
			continue
		}
		body = ops[i].appendDone(body, r.Result)
	}
	var served []store.PartitionEnd
	for _, id := range slices.Sorted(maps.Keys(ends)) {
		served = append(served, store.PartitionEnd{ID: id, End: ends[id]})
	}
	x.servedBy(served)
	return x.send(status, append(body, ']'))
}

func (o batchOp) appendDone(b []byte, r store.Result) []byte {
	b = appendEntry(b, o.status(r), r.Charge)
	if o.Kind != store.OpDelete {
		b = append(append(b, `,"eTag":`...), text(r.ETag)...)
		if !o.minimal || o.Kind == store.OpRead {
			b = append(append(b, `,"resourceBody":`...), r.Body...)
		}
	}
	return append(b, '}')
}

func appendFailure(b []byte, a statusError, charge float64) []byte {
	b = appendEntry(b, a.status, charge)
	if a.substatus != 0 {
		b = strconv.AppendInt(append(b, `,"subStatusCode":`...), int64(a.substatus), 10)
	}
	if a.retryAfter > 0 {
		b = strconv.AppendInt(append(b, `,"retryAfterMilliseconds":`...), max(a.retryAfter.Milliseconds(), 1), 10)
	}
	return append(append(append(b, `,"message":`...), text(a.message)...), '}')
}

func appendEntry(b []byte, status int, charge float64) []byte {
	b = strconv.AppendInt(append(b, `{"statusCode":`...), int64(status), 10)
	return strconv.AppendFloat(append(b, `,"requestCharge":`...), charge, 'f', -1, 64)
}
