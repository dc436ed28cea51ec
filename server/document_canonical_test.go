package server

import (
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// The answers are those that the service gave to the same requests, without the system
// properties. Patches, batches and the change feed are not among the recorded requests;
// they store and return the same form.
func TestDocumentsHaveTheFormOfTheService(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	const (
		sent = `{"id":"nums","pk":"t","i64":9007199254740993,"u64":18446744073709551615,"i64min":-9223372036854775808,"ovr":18446744073709551616,"huge":123456789012345678901234567890,` +
			`"dec":0.1000000000000000055511151231257827,"one":1.0,"negzero":-0.0,"big":1.7976931348623157e308,"tiny":5e-324,"under":1e-400,"frac":12345678901234567890.123}`
		read = `{"id":"nums","pk":"t","i64":9007199254740993,"u64":18446744073709551615,"i64min":-9223372036854775808,"ovr":1.8446744073709552e+019,"huge":1.2345678901234568e+029,` +
			`"dec":0.1,"one":1,"negzero":0,"big":1.7976931348623157e+308,"tiny":4.94065645841247e-324,"under":0,"frac":1.2345678901234567e+019,"_rid":"`
		projected = `[{"i64":9007199254740993,"u64":1.8446744073709552e+19,"i64min":-9223372036854775808,"ovr":1.8446744073709552e+19,"huge":1.2345678901234568e+29,` +
			`"dec":0.1,"one":1,"negzero":0,"tiny":4.94065645841247e-324,"under":0,"frac":1.2345678901234567e+19}]`
	)
	h := pk(`["t"]`)
	ts.do("POST", orders+"/docs", h, sent).want(201).wantBody(read)
	ts.do("GET", orders+"/docs/nums", h, "").want(200).wantBody(read)
	ts.do("PUT", orders+"/docs/nums", h, strings.ReplaceAll(sent, ",", " ,\n")).want(200).wantBody(read)
	ts.read().want(200).wantBody(read)
	ts.ask(nil, `SELECT * FROM c`).want(200).wantBody(strings.NewReplacer("e+019", "e+19", "e+029", "e+29").Replace(read))
	ts.ask(nil, `SELECT c.i64, c.u64, c.i64min, c.ovr, c.huge, c.dec, c.one, c.negzero, c.tiny, c.under, c.frac FROM c WHERE c.id = 'nums'`).want(200).wantBody(projected)
	ts.ask(nil, `SELECT 1/3 AS a, 0.1 + 0.2 AS b, 1e300 AS c`).want(200).wantBody(`{"a":0.33333333333333331,"b":0.30000000000000004,"c":1e+300}`)

	for _, body := range []string{`{"id":"e1","pk":"t","e":1e400}`, `{"id":"e1","pk":1e400}`} {
		ts.do("POST", orders+"/docs", h, body).want(400).wantText("The request payload is invalid. Ensure to provide a valid request payload.")
	}
	ts.do("POST", orders+"/docs", h, `{"id":"e2","pk":"t","s":"a\u0000b"}`).want(201).wantBody(`"s":"a\u0000b"`)
	ts.do("POST", orders+"/docs", h, `{"id":"e5","pk":"t","s":"a\ud800b"}`).want(201).wantBody(`"s":"a` + "\uFFFD" + `b"`)

	patched := ts.do("PATCH", orders+"/docs/nums", h, `{"operations":[{"op":"set","path":"/new","value":[ 1.50, 1E-7 ]},{"op":"incr","path":"/one","value":0.5},{"op":"incr","path":"/ovr","value":1e300}]}`).want(200)
	patched.wantBody(`"new":[1.5,1e-007]`).wantBody(`"one":1.5`).wantBody(`"ovr":1e+300`)
	ts.do("PATCH", orders+"/docs/nums", h, `{"operations":[{"op":"set","path":"/new","value":1e400}]}`).
		want(400).wantText("the patch cannot be read: the number 1e400 is beyond the range of a double")
	ts.do("POST", orders+"/docs", queryHeaders().with(wire.HeaderPartitionKey, `["t"]`), `{"query":"SELECT @n","parameters":[{"name":"@n","value":1e400}]}`).
		want(400).wantText("the query's parameter @n cannot be read: the number 1e400 is beyond the range of a double")
	a := ts.do("POST", orders+"/docs", transaction.with("x-ms-documentdb-partitionkey", `["t"]`),
		`[{"operationType":"Upsert","resourceBody":{ "id":"b1", "pk":"t", "v":2.0e19 }},{"operationType":"Read","id":"b1"}]`).want(200)
	const row = `"resourceBody":{"id":"b1","pk":"t","v":2e+019,"_rid":"`
	if n := strings.Count(string(a.body), row); n != 2 {
		t.Errorf("%d operations of the batch return %s: %s", n, row, a.body)
	}
}
