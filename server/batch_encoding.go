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

// The first part of this file reads and writes batches in HybridRow, a binary format.
// .NET always sends it for TransactionalBatch and bulk mode.
//
// Supported: every field that an application can set. The SDK sets the fields
// effectivePartitionKey, binaryId and timeToLiveInSeconds only for tools of the service.
// An operation with one of them is refused with an error that names the field.

// rowContentType is the content type of an answer in HybridRow. The SDK ignores it and
// recognises the format by the first byte of the body.
var rowContentType = []string{"application/octet-stream"}

// rowOperations maps the type of an operation in HybridRow to its name in JSON.
var rowOperations = map[hybridrow.OperationType]string{
	hybridrow.Create: "Create", hybridrow.Upsert: "Upsert", hybridrow.Read: "Read", hybridrow.Replace: "Replace",
	hybridrow.Delete: "Delete", hybridrow.Patch: "Patch",
}

// parseRowBatch parses a body in HybridRow into operations. The bodies of the operations
// are slices of the request's body. It stops after one operation more than the limit,
// which is enough for the caller to refuse the batch.
func parseRowBatch(body []byte) ([]batchEntry, error) {
	var entries []batchEntry
	r := hybridrow.NewReader(body)
	for len(entries) <= engine.MaxBatchOperations {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, invalidBatch("the body of the batch begins like HybridRow, but is not valid: %v", err)
		}
		o, err := hybridrow.ParseOperation(row)
		if err != nil {
			return nil, invalidBatch("cannot read operation %d of the batch as HybridRow: %v", len(entries), err)
		}
		e, err := rowEntry(o, len(entries))
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// rowEntry converts an operation from HybridRow to the JSON form. n is its index, for
// error messages.
func rowEntry(o hybridrow.Operation, n int) (batchEntry, error) {
	name, known := rowOperations[o.Type]
	unknown := ""
	switch {
	case !known:
		return batchEntry{}, invalidBatch(
			"operation %d of the batch has the type %d; types are Create (0), Patch (1), Read (2), Delete (4), Replace (5) and Upsert (20)", n, o.Type)
	case o.ResourceType != hybridrow.Document:
		return batchEntry{}, invalidBatch("operation %d of the batch is on resources of type %d; a batch is on documents (%d)", n, o.ResourceType, hybridrow.Document)
	case o.EffectivePartitionKey != nil:
		unknown = "effectivePartitionKey"
	case o.BinaryID != nil:
		unknown = "binaryId"
	case o.TimeToLive != nil:
		unknown = "timeToLiveInSeconds"
	}
	if unknown != "" {
		return batchEntry{}, invalidBatch("operation %d of the batch has the field %s, which is not supported by this server", n, unknown)
	}
	return batchEntry{
		OperationType: name, ID: o.ID, ResourceBody: o.Body, IfMatch: o.IfMatch, IfNoneMatch: o.IfNoneMatch,
		PartitionKey: o.PartitionKey, Minimal: o.Minimal,
	}, nil
}

// appendRowAnswer appends the results of the operations to b, in HybridRow. The body of a
// failed operation is the error message, which the SDK reads from there. An operation
// that was not carried out (424) has no body, because the SDK would treat the message as
// an item.
func appendRowAnswer(b []byte, answers []operationAnswer) []byte {
	b = hybridrow.AppendSegment(b)
	for _, a := range answers {
		if a.Status >= http.StatusBadRequest && a.Status != http.StatusFailedDependency {
			a.Body = wire.ErrorBody{Code: a.code, Message: a.message}.JSON()
		}
		b = hybridrow.AppendRecord(b, a.Result)
	}
	return b
}

// The second part of this file reads and writes batches in JSON, as the SDKs for
// JavaScript, Go, Python and Java send them. A batch is an array of operations, and its
// answer an array of results.

func parseJSONBatch(body []byte) ([]batchEntry, error) {
	var entries []batchEntry
	if err := json.Unmarshal(body, &entries); err != nil {
		return nil, invalidBatch("One of the specified inputs is invalid")
	}
	return entries, nil
}

// appendCharge appends the charge of an operation as the service writes it: unrounded, with
// 17 digits.
func appendCharge(b []byte, charge float64) []byte {
	if charge == math.Trunc(charge) {
		return strconv.AppendFloat(b, charge, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, charge, 'g', 17, 64)
}

// appendJSONAnswer appends the results of the operations to b, in JSON. As in the service, a
// failed operation has no message.
func appendJSONAnswer(b []byte, answers []operationAnswer) []byte {
	for i, a := range answers {
		b = append(b, "[,"[min(i, 1)])
		b = strconv.AppendInt(append(b, `{"statusCode":`...), int64(a.Status), 10)
		b = appendCharge(append(b, `,"requestCharge":`...), a.Charge)
		if a.SubStatus == wire.SubBatchResponseTooLarge { // by which SDKs know that they must send it again
			b = strconv.AppendInt(append(b, `,"subStatusCode":`...), int64(a.SubStatus), 10)
		}
		if a.RetryAfter > 0 {
			b = strconv.AppendUint(append(b, `,"retryAfterMilliseconds":`...), uint64(a.RetryAfter), 10)
		}
		if a.ETag != "" {
			b = append(append(b, `,"eTag":`...), jsonString(a.ETag)...)
		}
		if a.Body != nil {
			b = append(append(b, `,"resourceBody":`...), a.Body...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}
