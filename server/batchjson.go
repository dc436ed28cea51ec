package server

import (
	"encoding/json"
	"strconv"
)

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
