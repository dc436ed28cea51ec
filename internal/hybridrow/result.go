package hybridrow

import (
	"encoding/binary"
	"math"
)

// resultLayout is the schema BatchResult.
var resultLayout = layout{
	name: "batch result", schema: 2145473649, columns: []column{
		{"statusCode", codeInt32, fixed},
		{"subStatusCode", codeInt32, fixed},
		{"eTag", codeUTF8, variable},
		{"resourceBody", codeBinary, variable},
		{"retryAfterMilliseconds", codeUint32, sparse},
		{"requestCharge", codeFloat64, sparse},
	},
}

// The indexes of resultLayout's columns.
const (
	resStatus = iota
	resSubStatus
	resETag
	resBody
	resRetryAfter
	resCharge
)

// Result is the result of one operation of a batch. Absent fields are zero.
type Result struct {
	// Status and SubStatus are the codes of the protocol. .NET's SDK does not accept a
	// result without a status.
	Status, SubStatus int32
	// ETag is the item's etag, with its quotes.
	ETag string
	// Body is the item or the error, as JSON text.
	Body []byte
	// RetryAfter is the delay before the next attempt, in milliseconds.
	RetryAfter uint32
	// Charge is the cost of the operation, in request units.
	Charge float64
}

// ParseResult decodes a result. The byte slices of the result are parts of the row.
func ParseResult(row []byte) (Result, error) {
	var r Result
	err := resultLayout.read(row, func(column int, v value) {
		switch column {
		case resStatus:
			r.Status = v.int32()
		case resSubStatus:
			r.SubStatus = v.int32()
		case resETag:
			r.ETag = string(v.bytes)
		case resBody:
			r.Body = v.bytes
		case resRetryAfter:
			r.RetryAfter = uint32(v.number)
		case resCharge:
			r.Charge = v.float64()
		}
	})
	return r, err
}

// Append appends the encoded result. Strings must be UTF-8.
func (r Result) Append(b []byte) []byte {
	at := len(b) + headerSize
	b = resultLayout.appendRow(b, 1<<resStatus|1<<resSubStatus)
	b = appendInt32(b, r.Status)
	b = appendInt32(b, r.SubStatus)
	if r.ETag != "" {
		b = appendBytes(b, r.ETag)
		b[at] |= 1 << resETag
	}
	if r.Body != nil {
		b = appendBytes(b, r.Body)
		b[at] |= 1 << resBody
	}
	l := &resultLayout
	if r.RetryAfter != 0 {
		b = binary.LittleEndian.AppendUint32(l.appendSparse(b, resRetryAfter, codeUint32), r.RetryAfter)
	}
	return binary.LittleEndian.AppendUint64(l.appendSparse(b, resCharge, codeFloat64), math.Float64bits(r.Charge))
}
