package jsonscan

import (
	"fmt"
	"strings"
	"testing"
)

// order returns a document of about 1 KB that has values of every JSON type.
func order() []byte {
	var b strings.Builder
	b.WriteString(`{"id":"i00000001","pk":"k1","n":1,"customer":{"name":"Customer 1","city":"Rotterdam","vip":false},"lines":[`)
	for i := range 17 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"SKU-%06d","quantity":%d,"price":%d.%02d}`, i*31, i%9+1, i, i)
	}
	b.WriteString(`],"total":17.50,"state":"shipped","note":null,"_rid":"AAAAAYAAAAEAAAABAQAAAA==","_self":"dbs/AAAAAQ==/colls/AAAAAYAAAAE=/docs/AAAAAYAAAAEAAAABAQAAAA==/",` +
		`"_etag":"\"00000000-0000-0001-0000-000000000001\"","_attachments":"attachments/","_ts":1795285362,"_lsn":1}`)
	return []byte(b.String())
}

func BenchmarkValue(b *testing.B) {
	text := order()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := whole(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMembers(b *testing.B) {
	text := order()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s := New(text, depth)
		for more, err := s.Object(1); more || err != nil; more, err = s.Next('}') {
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.Name(); err != nil {
				b.Fatal(err)
			}
			if err := s.Value(2); err != nil {
				b.Fatal(err)
			}
		}
	}
}
