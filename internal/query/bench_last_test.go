package query_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// withPriorityLast returns n documents of about 1 KB, whose last member before the system
// properties is "priority".
func withPriorityLast(n int) [][]byte {
	docs := make([][]byte, n)
	for i := range docs {
		docs[i] = fmt.Appendf(nil, `{"id":"order-%06d","pk":"%03d","status":%q,"total":%d.25,"lines":[{"sku":"A-100","quantity":2,"price":19.99,"name":"a thing with a name"},`+
			`{"sku":"B-200","quantity":1,"price":5,"name":"another thing"}],"address":{"street":"Main Street 1","city":"Springfield","zip":"12345","country":"US"},`+
			`"notes":%q,"tags":["red","green","blue"],"paid":%t,"priority":%d,"_rid":"Gis8AYAAAAEAAAABAQAAAA==","_ts":1700000000}`,
			i, i%997, []string{"open", "closed", "shipped"}[i%3], i, strings.Repeat("lorem ipsum ", 30), i%2 == 0, i%10_000)
	}
	return docs
}

// BenchmarkFilterOfLast measures a filter on the last member of a document.
// BenchmarkFilterOfLastByHand measures a hand-written loop with the same decoder, for
// comparison.
func BenchmarkFilterOfLast(b *testing.B) {
	benchmarkFinding(b, withPriorityLast(1000), bound(b, `SELECT c.id FROM c WHERE c.priority = 500`, nil).Where().Filter(context.Background().Err))
}

func BenchmarkFilterOfLastByHand(b *testing.B) {
	var dec jsontext.Decoder
	var buf bytes.Buffer
	benchmarkFinding(b, withPriorityLast(1000), func(doc []byte) (bool, error) {
		buf = *bytes.NewBuffer(doc)
		dec.Reset(&buf, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if _, err := dec.ReadToken(); err != nil {
			return false, err
		}
		for dec.PeekKind() != jsontext.KindEndObject {
			name, err := dec.ReadValue()
			if err != nil {
				return false, err
			}
			if string(name) != `"priority"` {
				if _, err := dec.ReadValue(); err != nil {
					return false, err
				}
				continue
			}
			v, err := dec.ReadToken()
			if err != nil {
				return false, err
			}
			f, err := v.Float()
			return err == nil && f == 500, nil
		}
		return false, nil
	})
}
