package server

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/hybridrow"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves POST docs with x-ms-cosmos-is-batch-request: a batch of several
// operations in one request. They are carried out all or none (batch_transaction.go), or
// independently (batch_bulk.go).
//
// Supported: Create, Upsert, Read, Replace, Delete and Patch, with ifMatch, ifNoneMatch
// and minimalReturnPreference. A batch has at most 100 operations and 2 MiB. It is sent
// as JSON or, by .NET, in the binary form HybridRow (batch_encoding.go). The answer has
// the same form. indexingDirective has no effect. An error of the whole request is JSON
// in both forms.

// maxBatchBody limits the body of a batch, in bytes: the documents and their envelope.
const maxBatchBody = engine.MaxBatchSize + 256<<10

// batchEntry is an operation in the form of the protocol.
type batchEntry struct {
	OperationType string          `json:"operationType"`
	ID            string          `json:"id"`
	ResourceBody  json.RawMessage `json:"resourceBody"`
	IfMatch       string          `json:"ifMatch"`
	IfNoneMatch   string          `json:"ifNoneMatch"`
	// PartitionKey is a JSON array in a JSON string. Only bulk requests have it.
	PartitionKey *string `json:"partitionKey"`
	Minimal      bool    `json:"minimalReturnPreference"`
}

// batch holds the operations of a request.
type batch struct {
	ops []batchOp
	// binary reports whether the request has the form HybridRow. The answer has the same
	// form.
	binary bool
}

// batchOp is a parsed operation.
type batchOp struct {
	engine.Operation
	// patch is set instead of Operation.Change.
	patch *itemPatch
	// key is the operation's own key. It is nil if the key is in a header of the request
	// or in the document.
	key feed.PartitionKey
	// err is the result of an invalid operation. It is nil for a valid one.
	err error
}

// batchResult is the result of an operation.
type batchResult struct {
	engine.Result
	err error
}

func (s *Server) runBatch(x *request) error {
	c, err := x.owner()
	if err != nil {
		return err
	}
	body, err := x.body(maxBatchBody)
	if err != nil {
		return err
	}
	if err := x.acquireSlot(readSlots); err != nil { // its answer may be much larger than its body
		return err
	}
	b, err := x.readBatch(c, body)
	if err != nil {
		return err
	}
	x.conditions = &requestConditions{}
	if x.flag(wire.HeaderBatchAtomic) {
		return x.transact(c, b)
	}
	return x.bulk(c, b)
}

// readBatch parses the operations. Its error concerns the whole request.
func (x *request) readBatch(c *engine.Container, body []byte) (batch, error) {
	b := batch{binary: hybridrow.Is(body)}
	parse := parseJSONBatch
	if b.binary {
		parse = parseRowBatch
	}
	entries, err := parse(body)
	if err != nil {
		return b, err
	}
	if len(entries) == 0 {
		return b, badRequest("the batch has no operations")
	}
	if len(entries) > engine.MaxBatchOperations {
		return b, badRequest("Batch request has more operations than what is supported: %d; at most %d are supported", len(entries), engine.MaxBatchOperations)
	}
	var paths [][]string
	b.ops = make([]batchOp, len(entries))
	for i, e := range entries {
		kind, known := batchKinds[strings.ToLower(e.OperationType)]
		if !known {
			return b, badRequest("operation %d of the batch is %.40q; operations are Create, Upsert, Read, Replace, Delete and Patch", i, e.OperationType)
		}
		if kind != engine.OpRead && x.grant == readOnly {
			return b, forbidden("the key that signed the request may only read, but operation %d of the batch is %s", i, e.OperationType)
		}
		if kind == engine.OpChange && paths == nil {
			paths = unpatchable(c)
		}
		b.ops[i] = e.read(kind, paths)
		b.ops[i].NoBody = b.ops[i].NoBody || x.minimal()
	}
	return b, nil
}

// batchKinds are the kinds of operations by name, in lower case.
var batchKinds = map[string]engine.OpKind{
	"create": engine.OpCreate, "upsert": engine.OpUpsert, "read": engine.OpRead, "replace": engine.OpReplace, "delete": engine.OpDelete,
	"patch": engine.OpChange,
}

func (e batchEntry) read(kind engine.OpKind, unpatchable [][]string) batchOp {
	o := batchOp{Operation: engine.Operation{Kind: kind, ID: e.ID, IfMatch: e.IfMatch, IfNoneMatch: e.IfNoneMatch, NoBody: e.Minimal}}
	if e.PartitionKey != nil {
		if o.key, o.err = parseKey(*e.PartitionKey); o.err != nil {
			o.err = badRequest("the partitionKey of the operation is not a partition key: %v", o.err)
			return o
		}
	}
	if o.err = checkText(e.ResourceBody); o.err != nil {
		return o
	}
	switch kind {
	case engine.OpCreate, engine.OpUpsert, engine.OpReplace:
		o.Body = e.ResourceBody
		if len(o.Body) == 0 {
			o.err = badRequest("the operation has no resourceBody")
		}
	case engine.OpChange:
		o.patch, o.err = parsePatch(e.ResourceBody, unpatchable)
	case engine.OpRead, engine.OpDelete:
	}
	return o
}

// status returns the status of a successful operation.
func (o batchOp) status(r engine.Result) int {
	switch o.Kind {
	case engine.OpCreate:
		return http.StatusCreated
	case engine.OpDelete:
		return http.StatusNoContent
	case engine.OpUpsert:
		if r.Created {
			return http.StatusCreated
		}
	case engine.OpReplace, engine.OpRead, engine.OpChange:
	}
	return http.StatusOK
}

// operationAnswer is the answer to an operation in either encoding.
type operationAnswer struct {
	hybridrow.Result
	// code and message describe the error of the operation. They are empty if it
	// succeeded.
	code, message string
}

func (o batchOp) answer(r batchResult) operationAnswer {
	a := operationAnswer{Result: hybridrow.Result{Charge: r.Charge}}
	if r.err != nil {
		e := answerTo(r.err)
		a.Status, a.SubStatus, a.code, a.message = int32(e.status), int32(e.substatus), e.code, e.message
		if e.retryAfter > 0 {
			a.RetryAfter = uint32(min(max(e.retryAfter.Milliseconds(), 1), math.MaxUint32))
		}
		return a
	}
	a.Status = int32(o.status(r.Result))
	if o.Kind != engine.OpDelete {
		a.ETag, a.Body = r.ETag, r.Body
	}
	return a
}

// sendBatch answers with the results of the operations in their order. The status is 207
// if an operation failed.
func (x *request) sendBatch(b batch, results []batchResult) error {
	status := http.StatusOK
	size, last := 0, map[string]int64{}
	answers := make([]operationAnswer, len(results))
	for i, r := range results {
		answers[i] = b.ops[i].answer(r)
		size += len(answers[i].Body) + 128
		x.charge += r.Charge
		if r.Partition != "" {
			last[r.Partition] = max(last[r.Partition], r.End)
		}
		if r.err != nil {
			status = http.StatusMultiStatus
		}
	}
	// If the request names a partition, the session token covers only this partition.
	// .NET throws an exception for tokens of several partitions.
	named := x.header(wire.HeaderPartitionID)
	if named = named[strings.LastIndexByte(named, ',')+1:]; last[named] != 0 {
		last = map[string]int64{named: last[named]}
	}
	var served []engine.PartitionEnd
	for _, id := range slices.Sorted(maps.Keys(last)) {
		served = append(served, engine.PartitionEnd{ID: id, End: last[id]})
	}
	x.setPartitions(served)
	if b.binary {
		x.contentType = rowContentType
		return x.send(status, appendRowAnswer(make([]byte, 0, size), answers))
	}
	return x.send(status, appendJSONAnswer(make([]byte, 0, size), answers))
}
