package server

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/hybridrow"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Batches as HybridRow, which is what .NET's TransactionalBatch and bulk mode send, whatever formats they accept.
//
// Supported: every field that an application can set. Not supported, and refused by name: effectivePartitionKey, binaryId and
// timeToLiveInSeconds, which the SDK writes for properties that only the service's own tools set.

// rowContentType is that of the answer. The SDK looks at its first byte and at nothing else.
var rowContentType = []string{"application/octet-stream"}

// rowOperations are the names of the types of operations.
var rowOperations = map[hybridrow.OperationType]string{
	hybridrow.Create: "Create", hybridrow.Upsert: "Upsert", hybridrow.Read: "Read", hybridrow.Replace: "Replace",
	hybridrow.Delete: "Delete", hybridrow.Patch: "Patch",
}

// parseRowBatch reads the operations. Bodies are parts of the request's. Reading ends behind as many operations as a batch
// may have and one.
func parseRowBatch(body []byte) ([]batchEntry, error) {
	var entries []batchEntry
	r := hybridrow.NewReader(body)
	for len(entries) <= engine.MaxBatchOperations {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, badRequest("the body of the batch begins as HybridRow does, and isn't that: %v", err)
		}
		o, err := hybridrow.ParseOperation(row)
		if err != nil {
			return nil, badRequest("operation %d of the batch can't be read as HybridRow: %v", len(entries), err)
		}
		e, err := rowEntry(o, len(entries))
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// rowEntry makes an entry of the operation in place n.
func rowEntry(o hybridrow.Operation, n int) (batchEntry, error) {
	name, known := rowOperations[o.Type]
	unknown := ""
	switch {
	case !known:
		return batchEntry{}, badRequest(
			"operation %d of the batch has the type %d; types are Create (0), Patch (1), Read (2), Delete (4), Replace (5) and Upsert (20)", n, o.Type)
	case o.ResourceType != hybridrow.Document:
		return batchEntry{}, badRequest("operation %d of the batch is on resources of type %d; a batch is on documents (%d)", n, o.ResourceType, hybridrow.Document)
	case o.EffectivePartitionKey != nil:
		unknown = "effectivePartitionKey"
	case o.BinaryID != nil:
		unknown = "binaryId"
	case o.TimeToLive != nil:
		unknown = "timeToLiveInSeconds"
	}
	if unknown != "" {
		return batchEntry{}, badRequest("operation %d of the batch has the field %s, which is not supported by this server", n, unknown)
	}
	return batchEntry{
		OperationType: name, ID: o.ID, ResourceBody: o.Body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch,
		PartitionKey: o.PartitionKey, Minimal: o.Minimal,
	}, nil
}

func appendRowAnswer(b []byte, ends []batchEnd) []byte {
	b = hybridrow.AppendSegment(b)
	for _, e := range ends {
		b = hybridrow.AppendRecord(b, e.row())
	}
	return b
}

// row is the record of an operation. What went wrong is told in its body, where the SDK looks for the message of its
// exception; not beside the operations that were only not done, so that nobody takes it for the item.
func (e batchEnd) row() hybridrow.Result {
	r := hybridrow.Result{
		Status: int32(e.failure.status), SubStatus: int32(e.failure.substatus), ETag: e.etag, Body: e.body, Charge: e.charge,
	}
	if !e.failed {
		return r
	}
	if e.failure.retryAfter > 0 {
		r.RetryAfter = uint32(min(max(e.failure.retryAfter.Milliseconds(), 1), math.MaxUint32))
	}
	if e.failure.status >= http.StatusBadRequest && e.failure.status != http.StatusFailedDependency {
		r.Body = wire.ErrorBody{Code: e.failure.code, Message: e.failure.message}.JSON()
	}
	return r
}

// Batches as JSON: an array of operations, and an array of what became of them. So do the SDKs for JavaScript, Go, Python and Java.

func parseJSONBatch(body []byte) ([]batchEntry, error) {
	var entries []batchEntry
	if err := json.Unmarshal(body, &entries); err != nil {
		return nil, badRequest("the body of a batch is a JSON array of operations: %v", err)
	}
	return entries, nil
}

func appendJSONAnswer(b []byte, ends []batchEnd) []byte {
	b = append(b, '[')
	for i, e := range ends {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.appendJSON(b)
	}
	return append(b, ']')
}

func (e batchEnd) appendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"statusCode":`...), int64(e.failure.status), 10)
	b = strconv.AppendFloat(append(b, `,"requestCharge":`...), e.charge, 'f', -1, 64)
	if e.failed {
		if e.failure.substatus != 0 {
			b = strconv.AppendInt(append(b, `,"subStatusCode":`...), int64(e.failure.substatus), 10)
		}
		if e.failure.retryAfter > 0 {
			b = strconv.AppendInt(append(b, `,"retryAfterMilliseconds":`...), max(e.failure.retryAfter.Milliseconds(), 1), 10)
		}
		b = append(append(b, `,"message":`...), text(e.failure.message)...)
	}
	if e.etag != "" {
		b = append(append(b, `,"eTag":`...), text(e.etag)...)
	}
	if e.body != nil {
		b = append(append(b, `,"resourceBody":`...), e.body...)
	}
	return append(b, '}')
}
