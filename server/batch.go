package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/hybridrow"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file serves POST docs with x-ms-cosmos-is-batch-request: several operations in one
// request. A transaction carries out all of them or none (batch_transaction.go). A bulk
// request carries them out independently (batch_bulk.go).
//
// Supported: Create, Upsert, Read, Replace, Delete and Patch, with ifMatch, ifNoneMatch
// and minimalReturnPreference. A batch has at most 100 operations and 2 MiB. It is sent
// as JSON or, by .NET, in the binary format HybridRow (batch_encoding.go). The answer has
// the format of the request, but an error of the whole request is always JSON.
// indexingDirective has no effect.

// maxBatchBody limits the body of a batch, in bytes. It is the limit of the documents,
// plus room for the JSON around them.
const maxBatchBody = engine.MaxBatchSize + 256<<10

// batchEntry is the JSON form of one operation in a batch.
type batchEntry struct {
	OperationType string          `json:"operationType"`
	ID            string          `json:"id"`
	ResourceBody  json.RawMessage `json:"resourceBody"`
	IfMatch       string          `json:"ifMatch"`
	IfNoneMatch   string          `json:"ifNoneMatch"`
	// PartitionKey is a JSON array, itself encoded as a JSON string. Only bulk requests
	// have it.
	PartitionKey *string `json:"partitionKey"`
	Minimal      bool    `json:"minimalReturnPreference"`
}

// batch holds the parsed operations of one batch request.
type batch struct {
	ops []batchOp
	// binary reports whether the request is in the HybridRow format, and so whether the
	// answer must be.
	binary bool
}

// batchOp is one parsed operation of a batch.
type batchOp struct {
	storetype.Operation
	// patch is the patch of a Patch operation. The Change of the embedded Operation is
	// derived from it before the operation runs.
	patch *itemPatch
	// key is the partition key in the operation itself. It is nil if the key is in a
	// header of the request or in the document.
	key feed.PartitionKey
	// err is the error of an operation that is invalid and is not carried out. It is nil
	// for a valid operation.
	err error
}

// batchResult is the result of one operation of a batch, or its error.
type batchResult struct {
	storetype.Result
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
	if err := x.acquireSlot(readSlots); err != nil { // a batch is small, but the items in its answer may be large
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

// readBatch parses the operations of a batch. An invalid operation is returned with its
// err set. The returned error means that the whole batch is refused.
func (x *request) readBatch(c *engine.Container, body []byte) (batch, error) {
	b := batch{binary: hybridrow.Is(body)}
	parse := parseJSONBatch
	if b.binary {
		parse = parseRowBatch
	}
	refused := func(err error) (batch, error) {
		key, _ := x.partitionKey() // without a key the partition is unknown
		return b, x.setFailure(c.RefuseWrite(x.r.Context(), key), err)
	}
	entries, err := parse(body)
	if err != nil {
		return refused(err)
	}
	if len(entries) == 0 {
		return refused(invalidBatch("the batch has no operations"))
	}
	if len(entries) > engine.MaxBatchOperations {
		x.uncharged = true
		return b, refuse(byBackend, http.StatusBadRequest, wire.SubNone, "Batch request has more operations than what is supported.")
	}
	var paths [][]string
	b.ops = make([]batchOp, len(entries))
	for i, e := range entries {
		kind, known := batchKinds[strings.ToLower(e.OperationType)]
		if !known {
			return refused(invalidBatch("operation %d of the batch is %.40q; operations are Create, Upsert, Read, Replace, Delete and Patch", i, e.OperationType))
		}
		if kind != storetype.OpRead && x.grant == readOnly {
			return b, forbidden("the key that signed the request may only read, but operation %d of the batch is %s", i, e.OperationType)
		}
		if kind == storetype.OpChange && paths == nil {
			paths = unpatchable(c)
		}
		b.ops[i] = e.read(kind, paths)
		b.ops[i].NoBody = b.ops[i].NoBody || x.minimal()
	}
	return b, nil
}

// invalidBatch returns the answer to a batch that cannot be read. A replica reads it.
func invalidBatch(format string, args ...any) error {
	return refuse(byBackend, http.StatusBadRequest, wire.SubNone, fmt.Sprintf(format, args...))
}

// batchKinds maps the lower-case name of an operation type to its kind in the store.
var batchKinds = map[string]storetype.OpKind{
	"create": storetype.OpCreate, "upsert": storetype.OpUpsert, "read": storetype.OpRead, "replace": storetype.OpReplace, "delete": storetype.OpDelete,
	"patch": storetype.OpChange,
}

func (e batchEntry) read(kind storetype.OpKind, unpatchable [][]string) batchOp {
	o := batchOp{Operation: storetype.Operation{Kind: kind, ID: e.ID, IfMatch: e.IfMatch, IfNoneMatch: e.IfNoneMatch, NoBody: e.Minimal, ExactCharge: true}}
	if e.PartitionKey != nil {
		if o.key, o.err = parseKey(*e.PartitionKey); o.err != nil {
			o.err = badRequest("the partitionKey of the operation is not a partition key: %s", keyArray)
			return o
		}
	}
	if o.err = checkText(e.ResourceBody); o.err != nil {
		return o
	}
	switch kind {
	case storetype.OpCreate, storetype.OpUpsert, storetype.OpReplace:
		o.Body = e.ResourceBody
		if len(o.Body) == 0 {
			o.err = badRequest("the operation has no resourceBody")
		}
	case storetype.OpChange:
		o.patch, o.err = parsePatch(e.ResourceBody, unpatchable)
	case storetype.OpRead, storetype.OpDelete:
	}
	return o
}

// status returns the HTTP status of an operation that succeeded: 201 for a created item,
// 204 for a deleted one, otherwise 200.
func (o batchOp) status(r storetype.Result) int {
	switch o.Kind {
	case storetype.OpCreate:
		return http.StatusCreated
	case storetype.OpDelete:
		return http.StatusNoContent
	case storetype.OpUpsert:
		if r.Created {
			return http.StatusCreated
		}
	case storetype.OpReplace, storetype.OpRead, storetype.OpChange:
	}
	return http.StatusOK
}

// operationAnswer is the answer to one operation, from which both the JSON and the
// HybridRow answer are written.
type operationAnswer struct {
	hybridrow.Result
	// code and message describe the error of a failed operation. They are empty if it
	// succeeded.
	code, message string
}

func (o batchOp) answer(r batchResult) operationAnswer {
	a := operationAnswer{Result: hybridrow.Result{Charge: r.Charge}}
	if r.err != nil {
		e := answerTo(r.err, true)
		a.Status, a.SubStatus, a.code, a.message = int32(e.status), int32(e.substatus), e.code, e.message
		if e.retryAfter > 0 {
			a.RetryAfter = uint32(min(max(e.retryAfter.Milliseconds(), 1), math.MaxUint32))
		}
		return a
	}
	a.Status = int32(o.status(r.Result))
	if o.Kind != storetype.OpDelete {
		a.ETag, a.Body = r.ETag, r.Body
	}
	return a
}

// sendBatch answers with the results of the operations, in the order of the request. The
// status is 207 if any operation failed, and 200 otherwise.
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
	// If the request names a partition, the answer has the session token of only that
	// partition. .NET throws an exception for a token with several partitions.
	named := x.header(wire.HeaderPartitionID)
	if named = named[strings.LastIndexByte(named, ',')+1:]; last[named] != 0 {
		last = map[string]int64{named: last[named]}
	}
	var served []engine.PartitionEnd
	for _, id := range slices.Sorted(maps.Keys(last)) {
		served = append(served, engine.PartitionEnd{ID: id, End: last[id]})
	}
	x.setPartitions(served)
	x.count = len(results)
	if b.binary {
		x.contentType = rowContentType
		return x.send(status, appendRowAnswer(make([]byte, 0, size), answers))
	}
	return x.send(status, appendJSONAnswer(make([]byte, 0, size), answers))
}
