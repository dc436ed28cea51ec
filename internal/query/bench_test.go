package query_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/query"
)

// stored returns n documents of about 1 KB, in the form in which the store keeps them.
func stored(n int) [][]byte {
	docs := make([][]byte, n)
	for i := range docs {
		docs[i] = fmt.Appendf(nil, `{"id":"order-%06d","customer":"c%04d","status":%q,"total":%d.25,"lines":[`+
			`{"sku":"A-100","quantity":2,"price":19.99,"name":"a thing with a name"},{"sku":"B-200","quantity":1,"price":5,"name":"another thing"}],`+
			`"address":{"street":"Main Street 1","city":"Springfield","zip":"12345","country":"US"},"notes":%q,"priority":%d,"tags":["red","green","blue"],"paid":%t,`+
			`"_rid":"Gis8AYAAAAEAAAABAQAAAA==","_self":"dbs/Gis8AA==/colls/Gis8AYAAAAE=/docs/Gis8AYAAAAEAAAABAQAAAA==/","_etag":"\"0000d826-0000-0700-0000-%012x\"","_attachments":"attachments/","_ts":1700000000,"_lsn":%d}`,
			i, i%1000, []string{"open", "closed", "shipped"}[i%3], i, strings.Repeat("lorem ipsum ", 30), i%5, i%2 == 0, i, i)
	}
	return docs
}

func bound(tb testing.TB, text string, params map[string]json.RawMessage) *query.Bound {
	tb.Helper()
	q, err := query.Parse(text)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	b, err := q.Bind(params)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return b
}

// BenchmarkFilterByHand measures a hand-written loop, with which the filter benchmarks
// are compared. It reads every document once with the same decoder, and decodes only the
// two members that the filter needs.
func BenchmarkFilterByHand(b *testing.B) {
	docs := stored(1000)
	b.SetBytes(int64(len(docs[0])))
	b.ReportAllocs()
	var dec jsontext.Decoder
	var buf bytes.Buffer
	found := 0
	for i := 0; b.Loop(); i++ {
		buf = *bytes.NewBuffer(docs[i%len(docs)])
		dec.Reset(&buf)
		var status string
		var priority float64
		if _, err := dec.ReadToken(); err != nil {
			b.Fatal(err)
		}
		for dec.PeekKind() != jsontext.KindEndObject {
			name, err := dec.ReadToken()
			if err != nil {
				b.Fatal(err)
			}
			switch name.String() {
			case "status":
				v, err := dec.ReadToken()
				if err != nil {
					b.Fatal(err)
				}
				status = v.String()
			case "priority":
				v, err := dec.ReadToken()
				if err != nil {
					b.Fatal(err)
				}
				priority, _ = v.Float()
			default:
				if err := dec.SkipValue(); err != nil {
					b.Fatal(err)
				}
			}
		}
		if status == "open" && priority > 2 {
			found++
		}
	}
	if b.N > 1000 && found == 0 {
		b.Fatal("nothing was found")
	}
}

func benchmarkRows(b *testing.B, text string) {
	docs := stored(1000)
	rows := bound(b, text, nil).Rows()
	benchmarkFinding(b, docs, func(doc []byte) (bool, error) {
		_, ok, err := rows.Eval(doc)
		return ok, err
	})
}

// benchmarkFinding measures calls of is, one for each document, and reports the rate in
// bytes.
func benchmarkFinding(b *testing.B, docs [][]byte, is func(doc []byte) (bool, error)) {
	b.SetBytes(int64(len(docs[0])))
	b.ReportAllocs()
	found := 0
	for i := 0; b.Loop(); i++ {
		ok, err := is(docs[i%len(docs)])
		if err != nil {
			b.Fatal(err)
		}
		if ok {
			found++
		}
	}
	if b.N > 1000 && found == 0 {
		b.Fatal("nothing was found")
	}
}

func BenchmarkFilter(b *testing.B) {
	benchmarkRows(b, `SELECT * FROM c WHERE c.status = 'open' AND c.priority > 2`)
}

// BenchmarkFilterOfMissing measures a filter on a member that no document has. So every
// document is read to its end.
func BenchmarkFilterOfMissing(b *testing.B) {
	benchmarkRows(b, `SELECT * FROM c WHERE NOT IS_DEFINED(c.missing)`)
}

func BenchmarkFilterOfPrefix(b *testing.B) {
	benchmarkRows(b, `SELECT * FROM c WHERE STARTSWITH(c.id, 'order-0')`)
}

func BenchmarkSelectAll(b *testing.B) { benchmarkRows(b, `SELECT * FROM c`) }

func BenchmarkProjection(b *testing.B) {
	benchmarkRows(b, `SELECT c.id, c.address.city AS city, c.lines[0].price, c.total + 1 AS more FROM c`)
}

func BenchmarkParse(b *testing.B) {
	const text = `SELECT TOP @Top c.id, c.lines[0].sku AS sku FROM c WHERE STARTSWITH(c.id, @prefix) AND c.ContinuationToken <> null AND (c.n >= 5 OR IS_STRING(c.n)) ORDER BY c._ts DESC`
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := query.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseThousandItems measures parsing the query with which SDKs read a thousand
// items by ID and key.
func BenchmarkParseThousandItems(b *testing.B) {
	text := thousandItems()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := query.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

func thousandItems() string {
	var text strings.Builder
	text.WriteString("SELECT * FROM c WHERE ")
	for i := range 1000 {
		if i > 0 {
			text.WriteString(" OR ")
		}
		fmt.Fprintf(&text, "(c.id = @param_id%d AND c.pk = @param_pk%d0)", i, i)
	}
	return text.String()
}

// BenchmarkFilterOfThousandItems measures a filter by a thousand IDs, which few of the
// documents have.
func BenchmarkFilterOfThousandItems(b *testing.B) {
	params := map[string]json.RawMessage{}
	for i := range 1000 {
		params[fmt.Sprintf("@param_id%d", i)] = json.RawMessage(fmt.Sprintf(`"order-%06d"`, i*2))
		params[fmt.Sprintf("@param_pk%d0", i)] = json.RawMessage(`"p"`)
	}
	docs := stored(1000)
	rows := bound(b, thousandItems(), params).Rows()
	b.SetBytes(int64(len(docs[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, _, err := rows.Eval(docs[i%len(docs)]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJoin measures a join of the elements of an array, several rows for each
// document.
func BenchmarkJoin(b *testing.B) {
	benchmarkEach(b, `SELECT c.id, l.sku FROM c JOIN l IN c.lines WHERE c.status = 'open' AND l.price > 10`)
}

func BenchmarkExists(b *testing.B) {
	benchmarkEach(b, `SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE l FROM l IN c.lines WHERE l.price > 10)`)
}

func BenchmarkLike(b *testing.B) {
	benchmarkEach(b, `SELECT VALUE c.id FROM c WHERE c.notes LIKE '%ipsum lorem_ipsum%'`)
}

func benchmarkEach(b *testing.B, text string) {
	docs := stored(1000)
	rows := bound(b, text, nil).Rows()
	b.SetBytes(int64(len(docs[0])))
	b.ReportAllocs()
	found := 0
	visit := func() bool {
		if _, ok := rows.Row(); ok {
			found++
		}
		return true
	}
	for i := 0; b.Loop(); i++ {
		if err := rows.Each(docs[i%len(docs)], visit); err != nil {
			b.Fatal(err)
		}
	}
	if b.N > 1000 && found == 0 {
		b.Fatal("nothing was found")
	}
}
