package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/hybridrow"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// dotnetTransaction and dotnetBulk are the headers of .NET's SDK 3.62 for a transaction
// and for a bulk request. That SDK sends no content type.
var (
	dotnetTransaction = headers{"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True", "x-ms-cosmos-batch-ordered": "True", "x-ms-documentdb-partitionkey": `["p"]`}
	dotnetBulk        = headers{"x-ms-cosmos-batch-continue-on-error": "True", "x-ms-cosmos-batch-atomic": "False", "x-ms-cosmos-is-batch-request": "True"}
)

// rowsOf returns the body of a batch in HybridRow with the given operations.
func rowsOf(ops ...hybridrow.Operation) string {
	b := hybridrow.AppendSegment(nil)
	for _, o := range ops {
		if o.ResourceType == 0 {
			o.ResourceType = hybridrow.Document
		}
		b = hybridrow.AppendRecord(b, o)
	}
	return string(b)
}

// results parses the body of an answer in HybridRow.
func row(kind hybridrow.OperationType, key, id, body string) hybridrow.Operation {
	o := hybridrow.Operation{Type: kind, ID: id}
	if key != "" {
		o.PartitionKey = &key
	}
	if body != "" {
		o.Body = []byte(body)
	}
	return o
}

// rows sends a batch in HybridRow and returns its results. It fails the test unless the
// answer has the given status and its operations have the statuses in codes, such as "201
// 409".
func (a response) results() []hybridrow.Result {
	a.t.Helper()
	var all []hybridrow.Result
	r := hybridrow.NewReader(a.body)
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		var result hybridrow.Result
		if err == nil {
			result, err = hybridrow.ParseResult(row)
		}
		if err != nil {
			a.t.Fatalf("%s: %v: %x", a.what, err, a.body)
		}
		all = append(all, result)
	}
}

// rows sends a batch as HybridRow and checks the status of each operation.
func (ts *testServer) rows(h headers, status int, codes string, ops ...hybridrow.Operation) []hybridrow.Result {
	ts.t.Helper()
	a := ts.do("POST", orders+"/docs", h, rowsOf(ops...))
	results := a.want(status, a.batchSub()).results()
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprint(r.Status))
	}
	if strings.Join(got, " ") != codes {
		ts.t.Fatalf("\n got %v\nwant %s\n%+v", got, codes, results)
	}
	return results
}

func TestTransactionOfDotNet(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"old","pk":"p","v":1}`)
	etag := ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"away","pk":"p"}`).header.Get("Etag")
	onlyThis := row(hybridrow.Delete, "", "away", "")
	onlyThis.IfMatch = etag
	quiet := row(hybridrow.Upsert, "", "", `{"id":"b2","pk":"p","v":2}`)
	quiet.Minimal, quiet.IndexingDirective = true, "Exclude"
	r := ts.rows(dotnetTransaction, 200, "201 201 200 200 200 200 204",
		row(hybridrow.Create, "", "", `{"id":"b1","pk":"p"}`), row(hybridrow.Upsert, "", "", `{"id":"b2","pk":"p"}`), quiet,
		row(hybridrow.Read, "", "b1", ""), row(hybridrow.Replace, "", "old", `{"id":"old","pk":"p","v":2}`),
		row(hybridrow.Patch, "", "old", `{"operations":[{"op":"incr","path":"/v","value":40}],"condition":"from c where c.v = 2"}`), onlyThis)
	if !strings.Contains(string(r[0].Body), r[0].ETag[1:len(r[0].ETag)-1]) || r[0].Charge <= 0 || r[2].Body != nil || r[2].ETag == "" || r[2].ETag == r[1].ETag ||
		!strings.Contains(string(r[3].Body), `"id":"b1"`) || !strings.Contains(string(r[5].Body), `"v":42`) || r[6].Body != nil || r[6].ETag != "" {
		t.Errorf("%+v", r)
	}
	ts.do("GET", orders+"/docs/old", pk(`["p"]`), "").want(200).wantBody(`"v":42`)
	ts.do("GET", orders+"/docs/away", pk(`["p"]`), "").want(404)
}

func TestFailedTransactionOfDotNetDoesNothingAndReportsTheCause(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"there","pk":"p","v":1}`)
	conditional := func(o hybridrow.Operation, ifMatch, ifNoneMatch string) hybridrow.Operation {
		o.IfMatch, o.IfNoneMatch = ifMatch, ifNoneMatch
		return o
	}
	for _, c := range []struct {
		third hybridrow.Operation
		code  string
	}{
		{row(hybridrow.Create, "", "", `{"id":"there","pk":"p"}`), "409"},
		{row(hybridrow.Read, "", "none", ""), "404"},
		{row(hybridrow.Delete, "", "none", ""), "404"},
		{conditional(row(hybridrow.Replace, "", "there", `{"id":"there","pk":"p"}`), `"other"`, ""), "412"},
		{conditional(row(hybridrow.Upsert, "", "", `{"id":"there","pk":"p"}`), "", "*"), "412"},
		{row(hybridrow.Patch, "", "there", `{"operations":[{"op":"set","path":"/v","value":1}],"condition":"from c where false"}`), "412"},
		{row(hybridrow.Patch, "", "there", `{"operations":[{"op":"remove","path":"/none"}]}`), "400"},
		{row(hybridrow.Patch, "", "there", ""), "400"},
		{row(hybridrow.Create, "", "", `{"id":"x","pk":"q"}`), "400"},
		{row(hybridrow.Create, "", "", `{"id":"x"`), "400"},
		{row(hybridrow.Create, "", "", "\x80\x00 CosmosBinary"), "400"},
		{row(hybridrow.Create, "", "", ""), "400"},
		{row(hybridrow.Create, "nonsense", "", `{"id":"x","pk":"p"}`), "400"},
		{row(hybridrow.Create, `["q"]`, "", `{"id":"x","pk":"p"}`), "400"},
		{row(hybridrow.Read, `["q"]`, "there", ""), "400"},
	} {
		r := ts.rows(dotnetTransaction, 207, "424 424 "+c.code+" 424", row(hybridrow.Create, "", "", `{"id":"b1","pk":"p"}`),
			row(hybridrow.Upsert, "", "", `{"id":"there","pk":"p","v":5}`), c.third, row(hybridrow.Upsert, "", "", `{"id":"b2","pk":"p"}`))
		if !strings.HasPrefix(string(r[2].Body), `{"code":`) || r[0].Body != nil || r[2].ETag != "" {
			t.Errorf("%+v: %+v", c.third, r)
		}
	}
	ts.do("GET", orders+"/docs", nil, "").want(200).wantHeader(wire.HeaderItemCount, "1").wantBody(`"v":1`)
}

func TestBulkOfDotNet(t *testing.T) {
	ts := newTestServer(t, Options{Partitions: 2}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p1"]`), `{"id":"there","pk":"p1","v":1}`)
	onlyNew := row(hybridrow.Read, `["p1"]`, "there", "")
	onlyNew.IfNoneMatch = ts.do("GET", orders+"/docs/there", pk(`["p1"]`), "").header.Get("Etag")
	r := ts.rows(dotnetBulk.with("x-ms-documentdb-partitionkeyrangeid", "1"), 207, "201 409 304 200 404 200 201 400 204",
		row(hybridrow.Upsert, `["p2"]`, "", `{"id":"k2","pk":"p2"}`), row(hybridrow.Create, `["p1"]`, "", `{"id":"there","pk":"p1"}`), onlyNew,
		row(hybridrow.Read, `["p1"]`, "there", ""), row(hybridrow.Read, `["p2"]`, "there", ""),
		row(hybridrow.Patch, `["p1"]`, "there", `{"operations":[{"op":"incr","path":"/v","value":1}]}`),
		row(hybridrow.Create, `[{}]`, "", `{"id":"none","n":1}`), row(hybridrow.Create, "nonsense", "", `{"id":"x","pk":7}`), row(hybridrow.Delete, `["p2"]`, "k2", ""))
	if !strings.Contains(string(r[5].Body), `"v":2`) || !strings.HasPrefix(string(r[1].Body), `{"code":"Conflict"`) || r[2].Body != nil || r[4].Charge <= 0 {
		t.Errorf("%+v", r)
	}
}

// A bulk request names partition 1 but also writes to partition 0. The session token in
// the answer must cover partition 1 alone, because .NET cannot parse a token of two
// partitions.
func TestBulkOnAPartitionHasItsSessionTokenAlone(t *testing.T) {
	ts := newTestServer(t, Options{Partitions: 2}).withOrders()
	var ops []hybridrow.Operation
	for i := range 8 { // keys of both partitions, as after a split that the client has not seen
		ops = append(ops, row(hybridrow.Create, fmt.Sprintf(`["%d"]`, i), "", fmt.Sprintf(`{"id":"1","pk":"%d"}`, i)))
	}
	c, err := ts.db.Container(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"1", c.Identity().ContainerRID + ",1"} {
		a := ts.do("POST", orders+"/docs", dotnetBulk.with("x-ms-documentdb-partitionkeyrangeid", named), rowsOf(ops...))
		if got := a.header.Get(wire.HeaderSessionToken); !strings.HasPrefix(got, "1:") || strings.Count(got, ":") != 1 {
			t.Errorf("%s: session token %q", named, got)
		}
	}
	if got := ts.do("POST", orders+"/docs", dotnetBulk, rowsOf(ops...)).header.Get(wire.HeaderSessionToken); strings.Count(got, ":") != 2 {
		t.Errorf("without a partition the session token is %q", got)
	}
}

func TestBulkOfDotNetOfAPartitionThatIsGoneIsRefusedAsAWhole(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	c, err := ts.db.Container(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Split(t.Context(), "0", ""); err != nil {
		t.Fatal(err)
	}
	op := row(hybridrow.Create, "[1]", "", `{"id":"a","pk":1}`)
	ts.do("POST", orders+"/docs", dotnetBulk.with("x-ms-documentdb-partitionkeyrangeid", "0"), rowsOf(op)).want(410, 1002)
	ts.do("POST", orders+"/docs", dotnetBulk.with("x-ms-documentdb-partitionkeyrangeid", "AAAAAIAAAAA=,1"), rowsOf(op)).want(410, 1000)
	ts.rows(dotnetBulk.with("x-ms-documentdb-partitionkeyrangeid", c.Identity().ContainerRID+",1"), 200, "201", op)
}

func TestBulkReportsThrottledOperationsToDotNet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServerOver(t, engine.Options{EnforceThroughput: true}, Options{})
		ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
		ts.must("POST", "/dbs/shop/colls", headers{"x-ms-offer-throughput": "400"}, `{"id":"orders","partitionKey":{"paths":["/pk"]}}`)
		var ops []hybridrow.Operation
		for i := range 100 {
			ops = append(ops, row(hybridrow.Create, "[1]", "", fmt.Sprintf(`{"id":"%d","pk":1}`, i)))
		}
		ts.must("POST", orders+"/docs", dotnetBulk, rowsOf(ops...))
		time.Sleep(200 * time.Millisecond)
		throttled := 0
		for _, r := range ts.do("POST", orders+"/docs", dotnetBulk, rowsOf(ops...)).want(207).results() {
			if r.Status == 429 {
				throttled++
				if r.SubStatus != 3200 || r.RetryAfter < 1 {
					t.Fatalf("%+v", r)
				}
			}
		}
		if throttled == 0 {
			t.Error("none of 100 operations is throttled")
		}
	})
}

func TestHybridRowBeyondTheLimitsIsRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	var ops []hybridrow.Operation
	for i := range engine.MaxBatchOperations {
		ops = append(ops, row(hybridrow.Create, "", "", fmt.Sprintf(`{"id":"%d","pk":"p"}`, i)))
	}
	large := func(id string, size int) hybridrow.Operation {
		return row(hybridrow.Create, "", "", `{"id":"`+id+`","pk":"p","x":"`+strings.Repeat("x", size)+`"}`)
	}
	ts.do("POST", orders+"/docs", dotnetTransaction, rowsOf(append(ops, large("more", 1))...)).want(400).wantBody("more operations than what is supported")
	ts.do("POST", orders+"/docs", dotnetTransaction, rowsOf(ops...)).want(200)
	ts.do("POST", orders+"/docs", dotnetTransaction, rowsOf(large("a", engine.MaxBatchSize/2), large("b", engine.MaxBatchSize/2))).want(413)
	ts.do("POST", orders+"/docs", dotnetTransaction, rowsOf(large("c", maxBatchBody))).want(413)
	ts.do("POST", orders+"/docs", dotnetTransaction, rowsOf()).want(400).wantBody("no operations")
}

// An invalid HybridRow body is answered with a JSON error that names the cause. .NET's
// SDK takes the message of its exception from there.
func TestInvalidHybridRowIsRefusedWithTheCause(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	seconds := int32(5)
	damaged := []byte(rowsOf(row(hybridrow.Read, "", "1", "")))
	damaged[len(damaged)-1]++
	for body, says := range map[string]string{
		"\x81\x00\x00\x00\x00": "HybridRow",
		string(damaged):        "record 0 at byte 10: its checksum",
		rowsOf(row(hybridrow.Read, "", "1", ""), row(7, "", "1", "")):                               "operation 1 of the batch has the type 7",
		rowsOf(hybridrow.Operation{Type: hybridrow.Read, ResourceType: 1, ID: "1"}):                 "resources of type 1",
		rowsOf(hybridrow.Operation{Type: hybridrow.Read, ID: "1", BinaryID: []byte{1}}):             "binaryId",
		rowsOf(hybridrow.Operation{Type: hybridrow.Read, ID: "1", EffectivePartitionKey: []byte{}}): "effectivePartitionKey",
		rowsOf(hybridrow.Operation{Type: hybridrow.Read, ID: "1", TimeToLive: &seconds}):            "timeToLiveInSeconds",
		string(hybridrow.AppendRecord(hybridrow.AppendSegment(nil), hybridrow.Result{Status: 200})): "cannot read operation 0 of the batch",
	} {
		ts.do("POST", orders+"/docs", dotnetTransaction, body).want(400).wantBody(says)
	}
}

func TestAReadOnlyKeyMayReadByHybridRow(t *testing.T) {
	const reader = "cmVhZGVy"
	ts := newTestServer(t, Options{ReadOnlyKeys: []string{reader}}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
	key, err := wire.ParseKey(reader)
	if err != nil {
		t.Fatal(err)
	}
	ts.key = key
	ts.rows(dotnetTransaction, 200, "200", row(hybridrow.Read, "", "1", ""))
	ts.do("POST", orders+"/docs", dotnetTransaction, rowsOf(row(hybridrow.Read, "", "1", ""), row(hybridrow.Delete, "", "1", ""))).want(403).wantBody("Delete")
}

// FuzzBatchRow sends random bytes as a batch in HybridRow. The batch must be refused as a
// whole, or have one result for each operation.
func FuzzBatchRow(f *testing.F) {
	condition := row(hybridrow.Patch, "", "1", `{"operations":[{"op":"incr","path":"/v","value":1}],"condition":"from c where c.v > 1"}`)
	condition.IfNoneMatch = "*"
	for _, o := range []hybridrow.Operation{row(hybridrow.Upsert, `["p"]`, "", `{"id":"1","pk":"p","v":2}`), condition, row(hybridrow.Delete, "[{}]", "1", "")} {
		o.ResourceType = hybridrow.Document
		f.Add(o.Append(nil), true)
		f.Add(o.Append(nil), false)
	}
	ts := newTestServer(f, Options{}).withOrders()
	f.Fuzz(func(t *testing.T, operation []byte, atomic bool) {
		here := *ts
		here.t = t
		h := dotnetBulk
		if atomic {
			h = dotnetTransaction
		}
		a := here.do("POST", orders+"/docs", h, string(hybridrow.AppendRecord(hybridrow.AppendSegment(nil), rawRow(operation))))
		if a.status >= 500 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if a.status < 400 && len(a.results()) != 1 {
			t.Fatalf("%d results of one operation", len(a.results()))
		}
	})
}

// rawRow is an already encoded row, valid or not.
type rawRow []byte

func (r rawRow) Append(b []byte) []byte { return append(b, r...) }

// The items of a bulk request do not fit into one answer. Operations beyond the limit
// must have the status 413/3402 and change nothing, so that .NET sends them again.
func TestAnswersToBulkAreBounded(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	large := strings.Repeat("x", storetype.MaxDocumentSize-1000)
	var reads, patches []hybridrow.Operation
	for i := range 6 {
		id := fmt.Sprint(i)
		ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"`+id+`","pk":"p","v":0,"x":"`+large+`"}`)
		reads = append(reads, row(hybridrow.Read, `["p"]`, id, ""))
		patches = append(patches, row(hybridrow.Patch, `["p"]`, id, `{"operations":[{"op":"incr","path":"/v","value":1}]}`))
	}
	done := 0
	for _, r := range ts.do("POST", orders+"/docs", dotnetBulk, rowsOf(reads...)).want(207).results() {
		switch {
		case r.Status == 200 && len(r.Body) > len(large):
			done++
		case r.Status != 413 || r.SubStatus != 3402 || len(r.Body) > 300:
			t.Fatalf("%d/%d with %d bytes", r.Status, r.SubStatus, len(r.Body))
		}
	}
	if done < 1 || done > 2 {
		t.Errorf("%d of 6 items of 2 MiB are in an answer of 4", done)
	}

	// The operations run in order here, so that the test can predict which of them
	// succeed.
	inOrder := dotnetBulk.with("x-ms-cosmos-batch-continue-on-error", "False")
	r := ts.rows(inOrder, 207, "200 200 200 413 424 424", patches...)
	if r[3].SubStatus != 3402 {
		t.Errorf("%d", r[3].SubStatus)
	}
	ts.do("GET", orders+"/docs/2", pk(`["p"]`), "").want(200).wantBody(`"v":1,`)
	ts.do("GET", orders+"/docs/3", pk(`["p"]`), "").want(200).wantBody(`"v":0,`)

	// If the client wants no items in the answer, their size does not count.
	for i := range patches {
		patches[i].Minimal = true
	}
	ts.rows(dotnetBulk, 200, "200 200 200 200 200 200", patches...)
}

// The test sends the same random batches as JSON to one container and as HybridRow to
// another. Each operation must have the same result in both.
func TestBothFormsOfABatchDoTheSame(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"binary","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`)
	kinds := []hybridrow.OperationType{hybridrow.Create, hybridrow.Upsert, hybridrow.Replace, hybridrow.Patch, hybridrow.Read, hybridrow.Delete}
	r := rand.New(rand.NewPCG(3, 9)) //nolint:gosec // a fixed seed makes the test repeatable
	for n := range 150 {
		var (
			texts []string
			ops   []hybridrow.Operation
		)
		for range 1 + r.IntN(4) {
			o := hybridrow.Operation{Type: kinds[r.IntN(len(kinds))], ID: fmt.Sprint(r.IntN(4)), Minimal: r.IntN(3) == 0}
			entry := map[string]any{"operationType": rowOperations[o.Type], "minimalReturnPreference": o.Minimal}
			switch o.Type {
			case hybridrow.Create, hybridrow.Upsert, hybridrow.Replace:
				o.Body = fmt.Appendf(nil, `{"id":"%s","pk":"p","n":%d}`, o.ID, r.IntN(9))
			case hybridrow.Patch:
				o.Body = fmt.Appendf(nil, `{"operations":[{"op":"incr","path":"/n","value":1}],"condition":"from c where c.n < %d"}`, r.IntN(12))
			case hybridrow.Read, hybridrow.Delete:
			}
			if o.Body != nil {
				entry["resourceBody"] = json.RawMessage(o.Body)
			}
			if o.Type == hybridrow.Create || o.Type == hybridrow.Upsert {
				o.ID = ""
			} else {
				entry["id"] = o.ID
			}
			if r.IntN(8) == 0 {
				o.IfMatch = `"stale"`
				entry["ifMatch"] = o.IfMatch
			}
			key := `["p"]`
			o.PartitionKey, entry["partitionKey"] = &key, key
			text, err := json.Marshal(entry)
			if err != nil {
				t.Fatal(err)
			}
			texts, ops = append(texts, string(text)), append(ops, o)
		}
		h := inBulk
		if n%2 == 0 {
			h = transaction
		}
		var want batchAnswer
		text := ts.do("POST", orders+"/docs", h, "["+strings.Join(texts, ",")+"]").decode(&want)
		rows := ts.do("POST", "/dbs/shop/colls/binary/docs", h, rowsOf(ops...)).want(text.status)
		got := rows.results()
		if len(got) != len(want) || rows.header.Get(wire.HeaderRequestCharge) != text.header.Get(wire.HeaderRequestCharge) {
			t.Fatalf("%s\n got %+v, %v\nwant %+v, %v", texts, got, rows.header, want, text.header)
		}
		for i, w := range want {
			g := got[i]
			var body map[string]any
			if g.Status < 300 && g.Body != nil {
				if err := json.Unmarshal(g.Body, &body); err != nil {
					t.Fatal(err)
				}
			}
			if int(g.Status) != w.StatusCode || int(g.SubStatus) != w.SubStatusCode || g.Charge != w.RequestCharge || (g.ETag == "") != (w.ETag == "") ||
				body["n"] != w.ResourceBody["n"] || (body == nil) != (w.ResourceBody == nil) || g.Status >= 400 && g.Status != 424 && !strings.Contains(string(g.Body), "message") {
				t.Fatalf("%s, operation %d\n got %+v %s\nwant %+v", texts, i, g, g.Body, w)
			}
		}
	}
}
