package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// transaction and inBulk are the headers of the JSON SDKs for a transaction and for a
// bulk request.
var (
	transaction = headers{"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True", "x-ms-cosmos-batch-ordered": "True", "x-ms-documentdb-partitionkey": `["p"]`}
	inBulk      = headers{"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "false", "x-ms-cosmos-batch-continue-on-error": "true"}
)

type batchAnswer []struct {
	StatusCode, SubStatusCode, RetryAfterMilliseconds int
	RequestCharge                                     float64
	ETag, Message                                     string
	ResourceBody                                      map[string]any
}

// batch sends a batch in JSON and returns its results. It fails the test unless the
// answer has the given status and its operations have the statuses in codes, such as "201
// 409".
func (ts *testServer) batch(h headers, ops string, status int, codes string) batchAnswer {
	ts.t.Helper()
	var answer batchAnswer
	a := ts.do("POST", orders+"/docs", h, ops)
	a.want(status, a.batchSub()).decode(&answer)
	var got []string
	for _, r := range answer {
		got = append(got, fmt.Sprint(r.StatusCode))
	}
	if strings.Join(got, " ") != codes {
		ts.t.Fatalf("%s:\n got %v\nwant %s\n%s", ops, got, codes, a.body)
	}
	return answer
}

func TestTransactionOfEveryOperation(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	h := pk(`["p"]`)
	ts.must("POST", orders+"/docs", h, `{"id":"old","pk":"p","v":1}`)
	ts.must("POST", orders+"/docs", h, `{"id":"away","pk":"p"}`)
	r := ts.batch(transaction, `[{"operationType":"Create","resourceBody":{"id":"b1","pk":"p"}},{"operationType":"Upsert","resourceBody":{"id":"b2","pk":"p"}},
		{"operationType":"Upsert","resourceBody":{"id":"b2","pk":"p","v":2}},{"operationType":"Read","id":"b1"},{"operationType":"Replace","id":"old","resourceBody":{"id":"old","pk":"p","v":2}},
		{"operationType":"Patch","id":"old","resourceBody":{"operations":[{"op":"incr","path":"/v","value":40}],"condition":"from c where c.v = 2"}},
		{"operationType":"Delete","id":"away"},{"operationType":"Create","resourceBody":{"id":"b3","pk":"p"}}]`, 200, "201 201 200 200 200 200 204 201")
	if r[0].ETag == "" || r[0].ResourceBody["_etag"] != r[0].ETag || r[0].RequestCharge <= 0 || r[3].ResourceBody["id"] != "b1" || r[5].ResourceBody["v"] != 42.0 {
		t.Errorf("%+v", r)
	}
	ts.do("GET", orders+"/docs/old", h, "").want(200).wantBody(`"v":42`)
	ts.do("GET", orders+"/docs/away", h, "").want(404)
	c, err := ts.db.Container(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	page, err := c.Items(t.Context(), engine.ItemsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range page.Items {
		if item.LSN != 3 {
			t.Errorf("%s has LSN %d, and all of the batch 3", item.Body, item.LSN)
		}
	}
}

// The charges of the first two operations are those that the service was recorded to answer.
func TestOperationsOfAFailedTransactionHaveTheirCharges(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"b1","pk":"p","n":10}`)
	const create, conflict, replace = 132.0 / 21, 33.0 / 21, 224.0 / 21
	const first = `[{"operationType":"Create","resourceBody":{"id":"b9","pk":"p","n":10}},`
	for rest, want := range map[string][]float64{
		`{"operationType":"Create","resourceBody":{"id":"b1","pk":"p","n":11}},{"operationType":"Replace","id":"b1","resourceBody":{"id":"b1","pk":"p","n":1}}]`: {create, conflict, replace},
		`{"operationType":"Create","resourceBody":{"id":"b2","pk":"q","n":11}},{"operationType":"Delete","id":"b1"}]`:                                            {create, 26.0 / 21, 0},
	} {
		a := ts.do("POST", orders+"/docs", transaction, first+rest)
		var answer batchAnswer
		a.want(207, a.batchSub()).decode(&answer)
		sum := 0.0
		for i, r := range answer {
			if sum += r.RequestCharge; math.Abs(r.RequestCharge-want[i]) > 1e-9 {
				t.Errorf("%s: operation %d costs %v, want %v", rest, i, r.RequestCharge, want[i])
			}
		}
		if got, err := strconv.ParseFloat(a.header.Get(wire.HeaderRequestCharge), 64); err != nil || math.Abs(got-sum) > 0.006 {
			t.Errorf("%s: the batch costs %v, and its operations %v", rest, got, sum)
		}
	}
}

func TestTransactionThatFailsDoesNothing(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	h := pk(`["p"]`)
	ts.must("POST", orders+"/docs", h, `{"id":"there","pk":"p","v":1}`)
	for third, code := range map[string]string{
		`{"operationType":"Create","resourceBody":{"id":"there","pk":"p"}}`:                                                                          "409",
		`{"operationType":"Read","id":"none"}`:                                                                                                       "404",
		`{"operationType":"Delete","id":"none"}`:                                                                                                     "404",
		`{"operationType":"Replace","id":"there","ifMatch":"\"other\"","resourceBody":{"id":"there","pk":"p"}}`:                                      "412",
		`{"operationType":"Upsert","ifNoneMatch":"*","resourceBody":{"id":"there","pk":"p"}}`:                                                        "412",
		`{"operationType":"Patch","id":"there","resourceBody":{"operations":[{"op":"set","path":"/v","value":1}],"condition":"from c where false"}}`: "412",
		`{"operationType":"Patch","id":"there","resourceBody":[{"op":"remove","path":"/none"}]}`:                                                     "400",
		`{"operationType":"Patch","id":"there","resourceBody":[]}`:                                                                                   "400",
		`{"operationType":"Create","resourceBody":{"id":"x","pk":"q"}}`:                                                                              "400",
		`{"operationType":"Create"}`:                                                                                                                 "400",
		`{"operationType":"Read","id":"there","partitionKey":"[\"q\"]"}`:                                                                             "400",
		`{"operationType":"Upsert","partitionKey":"[\"q\"]","resourceBody":{"id":"x","pk":"p"}}`:                                                     "400",
		`{"operationType":"Delete","id":"there","partitionKey":"[\"p\",\"q\"]"}`:                                                                     "400",
	} {
		r := ts.batch(transaction, `[{"operationType":"Create","resourceBody":{"id":"b1","pk":"p"}},{"operationType":"Upsert","resourceBody":{"id":"there","pk":"p","v":5}},`+
			third+`,{"operationType":"Upsert","resourceBody":{"id":"b2","pk":"p"}}]`, 207, "424 424 "+code+" 424")
		if r[2].Message != "" || r[2].SubStatusCode != 0 || code[:2] == "41" && r[2].RequestCharge <= 0 || r[0].ResourceBody != nil {
			t.Errorf("%s: %+v", third, r)
		}
	}
	ts.do("GET", orders+"/docs", nil, "").want(200).wantHeader(wire.HeaderItemCount, "1").wantBody(`"v":1`)
}

func TestTransactionIsOnOneKeyFromHeaderOrOperation(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.batch(transaction, `[{"operationType":"Create","partitionKey":"[ \"p\" ]","resourceBody":{"id":"1","pk":"p"}},{"operationType":"Read","id":"1"}]`, 200, "201 200")
	without := headers{"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
	ts.batch(without, `[{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"2","pk":"p"}},{"operationType":"Read","partitionKey":"[\"p\"]","id":"1"}]`, 200, "201 200")
	ts.batch(without, `[{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"3","pk":"p"}},{"operationType":"Read","partitionKey":"[\"q\"]","id":"1"}]`, 207, "424 400")
	ts.do("GET", orders+"/docs/3", pk(`["p"]`), "").want(404)
}

func TestTransactionWhoseAnswerIsTooLargeIsRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p","x":"`+strings.Repeat("x", storetype.MaxDocumentSize-100)+`"}`)
	read := strings.Repeat(`,{"operationType":"Read","id":"1"}`, 5)
	ts.do("POST", orders+"/docs", transaction, `[`+read[1:]+`]`).want(413, 3402)
}

func TestTransactionWithoutBodies(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	r := ts.batch(transaction.with("Prefer", "return=minimal"), `[{"operationType":"Create","resourceBody":{"id":"1","pk":"p"}},{"operationType":"Read","id":"1"}]`, 200, "201 200")
	if r[0].ResourceBody != nil || r[0].ETag == "" || r[1].ResourceBody["id"] != "1" {
		t.Errorf("%+v", r)
	}
	r = ts.batch(transaction, `[{"operationType":"Upsert","minimalReturnPreference":true,"resourceBody":{"id":"1","pk":"p"}},{"operationType":"Upsert","resourceBody":{"id":"2","pk":"p"}}]`, 200, "200 201")
	if r[0].ResourceBody != nil || r[1].ResourceBody["id"] != "2" {
		t.Errorf("%+v", r)
	}
}

func TestBatchesBeyondTheLimitsAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	op := func(i, size int) string {
		return fmt.Sprintf(`{"operationType":"Create","resourceBody":{"id":"%d","pk":"p","x":"%s"}}`, i, strings.Repeat("x", size))
	}
	var ops []string
	for i := range engine.MaxBatchOperations {
		ops = append(ops, op(i, 1))
	}
	all := strings.Join(ops, ",")
	ts.do("POST", orders+"/docs", transaction, `[`+all+`,`+op(100, 1)+`]`).want(400)
	ts.do("POST", orders+"/docs", transaction, `[`+all+`]`).want(200)
	ts.do("POST", orders+"/docs", transaction, `[`+op(201, engine.MaxBatchSize/2)+`,`+op(202, engine.MaxBatchSize/2)+`]`).want(413)
	ts.do("POST", orders+"/docs", transaction, `[`+op(203, maxBatchBody)+`]`).want(413)
	for _, body := range []string{``, `[]`, `{}`, `[7]`, `[{}]`, `[{"operationType":"Execute"}]`} {
		ts.do("POST", orders+"/docs", transaction, body).want(400)
	}
}

func TestABatchThatOnlyReadsNeedsNoKeyThatWrites(t *testing.T) {
	const reader = "cmVhZGVy"
	ts := newTestServer(t, Options{ReadOnlyKeys: []string{reader}}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
	key, err := wire.ParseKey(reader)
	if err != nil {
		t.Fatal(err)
	}
	ts.key = key
	ts.batch(transaction, `[{"operationType":"Read","id":"1"}]`, 200, "200")
	ts.do("POST", orders+"/docs", transaction, `[{"operationType":"Read","id":"1"},{"operationType":"Delete","id":"1"}]`).want(403)
	ts.batch(inBulk, `[{"operationType":"Read","id":"1","partitionKey":"[\"p\"]"}]`, 200, "200")
}

func TestBulkDoesEachOperationForItself(t *testing.T) {
	ts := newTestServer(t, Options{Partitions: 2}).withOrders()
	ts.must("POST", orders+"/docs", pk(`["p1"]`), `{"id":"there","pk":"p1","v":1}`)
	r := ts.batch(inBulk.with("x-ms-documentdb-partitionkeyrangeid", "1"), `[
		{"operationType":"Upsert","partitionKey":"[\"p2\"]","resourceBody":{"id":"k2","pk":"p2"}},
		{"operationType":"Create","partitionKey":"[\"p1\"]","resourceBody":{"id":"there","pk":"p1"}},
		{"operationType":"Read","partitionKey":"[\"p1\"]","id":"there"},
		{"operationType":"Read","partitionKey":"[\"p2\"]","id":"there"},
		{"operationType":"Patch","partitionKey":"[\"p1\"]","id":"there","resourceBody":{"operations":[{"op":"incr","path":"/v","value":1}]}},
		{"operationType":"Replace","partitionKey":"[\"p1\"]","id":"there","ifMatch":"\"other\"","resourceBody":{"id":"there","pk":"p1"}},
		{"operationType":"Create","partitionKey":"[{}]","resourceBody":{"id":"none","n":1}},
		{"operationType":"Create","resourceBody":{"id":"body","pk":7}},
		{"operationType":"Create","partitionKey":"nonsense","resourceBody":{"id":"x","pk":7}},
		{"operationType":"Delete","partitionKey":"[7]","id":"body"}]`, 207, "201 409 200 404 200 412 201 201 400 204")
	if r[2].ResourceBody["v"] != 1.0 || r[4].ResourceBody["v"] != 2.0 || r[6].ResourceBody["id"] != "none" || r[1].Message != "" {
		t.Errorf("%+v", r)
	}
	ts.batch(inBulk, `[{"operationType":"Upsert","partitionKey":"[\"p2\"]","resourceBody":{"id":"k2","pk":"p2"}}]`, 200, "200")
}

func TestBulkWithoutContinueOnErrorStopsAtTheFirstFailure(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.batch(inBulk.with("x-ms-cosmos-batch-continue-on-error", "false"), `[{"operationType":"Create","partitionKey":"[1]","resourceBody":{"id":"a","pk":1}},
		{"operationType":"Create","partitionKey":"[1]","resourceBody":{"id":"a","pk":1}},{"operationType":"Create","partitionKey":"[1]","resourceBody":{"id":"b","pk":1}}]`,
		207, "201 409 424")
	ts.do("GET", orders+"/docs/b", pk(`[1]`), "").want(404)
}

func TestBulkKeepsTheOrderOfOperationsOnOneItem(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	var ops []string
	for i := range 50 {
		ops = append(ops, fmt.Sprintf(`{"operationType":"Upsert","partitionKey":"[%d]","resourceBody":{"id":"same","pk":%d,"v":%d}}`, i%2, i%2, i))
	}
	ops = append(ops, `{"operationType":"Read","partitionKey":"[1]","id":"same"}`)
	r := ts.batch(inBulk, `[`+strings.Join(ops, ",")+`]`, 200, "201 201"+strings.Repeat(" 200", 49))
	if last := r[50].ResourceBody["v"]; last != 49.0 {
		t.Errorf("the last of 25 upserts of one item left v %v", last)
	}
}

// A bulk request of a few kilobytes patches 32 items of almost 2 MB. The server must
// limit the items that it holds in memory at once, and the size of the answer.
func TestBulkBoundsTheItemsThatItsPatchesHaveInMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("checks how much memory is used, which the race detector cannot judge")
	}
	const size = 1900 << 10
	ts := newTestServer(t, Options{}).withOrders()
	var ops []string
	for i := range bulkWorkers {
		id := strconv.Itoa(i)
		ts.must("POST", orders+"/docs", pk(`["p"]`), largeDocument(id, size))
		ops = append(ops, `{"operationType":"Patch","partitionKey":"[\"p\"]","id":"`+id+`",
			"resourceBody":{"condition":"FROM c WHERE c.id = '`+id+`'","operations":[{"op":"set","path":"/n","value":1}]}}`)
	}
	a := ts.do("POST", orders+"/docs", inBulk, `[`+strings.Join(ops, ",")+`]`).want(207)
	if most := maxBulkAnswer + bulkItems; len(a.body) > most {
		t.Errorf("the answer has %d bytes, more than %d", len(a.body), most)
	}
	failing := strings.ReplaceAll(strings.Join(ops, ","), "c.id = '", "c.id != '")
	ts.batch(inBulk, `[`+failing+`]`, 207, strings.TrimSpace(strings.Repeat("412 ", len(ops))))
	synctest.Test(t, func(t *testing.T) {
		m := newItemMemory()
		const item = bulkItems / 4
		var held atomic.Int64
		for range 10 {
			go func() {
				if err := m.take(item); err != nil {
					t.Error(err)
				}
				held.Add(1)
			}()
		}
		for i := range 10 {
			synctest.Wait()
			if want := int64(min(4+i, 10)); held.Load() != want {
				t.Errorf("%d items are in memory and %d were given back, want %d", held.Load(), i, want)
			}
			m.give(item)
		}
		synctest.Wait()
		m.answered.Store(maxBulkAnswer + 1)
		if err := m.take(item); !errors.Is(err, errBulkAnswer) || m.left != bulkItems {
			t.Errorf("a full answer: %v, %d bytes left", err, m.left)
		}
	})
}

// A bulk request reads 32 items of almost 2 MB, of which two fit into the answer. After
// the answer is full, the server must not read the remaining items.
func TestBulkStopsReadingWhenItsAnswerIsFull(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	var ops []string
	for i := range bulkWorkers {
		ts.must("POST", orders+"/docs", pk(`["p"]`), largeDocument(strconv.Itoa(i), 1900<<10))
		ops = append(ops, fmt.Sprintf(`{"operationType":"Read","partitionKey":"[\"p\"]","id":"%d"}`, i))
	}
	var answer batchAnswer
	ts.do("POST", orders+"/docs", inBulk, `[`+strings.Join(ops, ",")+`]`).want(207).decode(&answer)
	read, answered := 0, 0
	for _, r := range answer {
		if r.RequestCharge > 0 {
			read++
		}
		if r.StatusCode == 200 {
			answered++
		}
	}
	// Besides the two items that fit, the server may have read the items that bulkItems
	// allows at once.
	if most := 2 + bulkItems/storetype.MaxDocumentSize; answered != 2 || read > most {
		t.Errorf("%d items of %d were read, more than %d; %d are in the answer, want 2", read, len(ops), most, answered)
	}
}

func TestBulkOfAPartitionThatIsGoneIsRefusedAsAWhole(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	c, err := ts.db.Container(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Split(t.Context(), "0", ""); err != nil {
		t.Fatal(err)
	}
	const op = `[{"operationType":"Create","partitionKey":"[1]","resourceBody":{"id":"a","pk":1}}]`
	ts.do("POST", orders+"/docs", inBulk.with("x-ms-documentdb-partitionkeyrangeid", "0"), op).want(410, 1002)
	ts.do("POST", orders+"/docs", inBulk.with("x-ms-documentdb-partitionkeyrangeid", "AAAAAIAAAAA=,1"), op).want(410, 1000)
	ts.do("POST", orders+"/docs", inBulk.with("x-ms-documentdb-partitionkeyrangeid", "1"), op).want(200)
}

func TestBulkReportsThrottledOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServerOver(t, engine.Options{EnforceThroughput: true}, Options{})
		ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
		ts.must("POST", "/dbs/shop/colls", headers{"x-ms-offer-throughput": "400"}, `{"id":"orders","partitionKey":{"paths":["/pk"]}}`)
		var ops []string
		for i := range 100 {
			ops = append(ops, fmt.Sprintf(`{"operationType":"Create","partitionKey":"[1]","resourceBody":{"id":"%d","pk":1}}`, i))
		}
		// The operations of this request start together, before any of them has a known
		// cost. So they use more throughput than the container has, and the next request
		// is throttled.
		ts.must("POST", orders+"/docs", inBulk, `[`+strings.Join(ops, ",")+`]`)
		time.Sleep(200 * time.Millisecond)
		var answer batchAnswer
		ts.do("POST", orders+"/docs", inBulk, `[`+strings.Join(ops, ",")+`]`).want(207).decode(&answer)
		throttled := 0
		for _, r := range answer {
			if r.StatusCode == 429 {
				throttled++
				if r.SubStatusCode != 0 || r.RetryAfterMilliseconds < 1 {
					t.Fatalf("%+v", r)
				}
			}
		}
		if throttled == 0 {
			t.Errorf("none of 100 operations is throttled: %+v", answer[0])
		}
	})
}

// FuzzBatch sends random JSON as a batch. The batch must be refused as a whole, or have
// one result for each operation.
func FuzzBatch(f *testing.F) {
	f.Add([]byte(`[{"operationType":"Create","resourceBody":{"id":"1","pk":"p"}},{"operationType":"Read","id":"1","ifNoneMatch":"*"}]`), true)
	f.Add([]byte(`[{"operationType":"Patch","id":"1","partitionKey":"[\"p\"]","resourceBody":{"operations":[{"op":"incr","path":"/v","value":1}],"condition":"from c where c.v > 1"}}]`), false)
	f.Add([]byte(`[{"operationType":"Upsert","partitionKey":"[{}]","resourceBody":{}},{"operationType":"Delete","id":"1","partitionKey":"[]"}]`), false)
	ts := newTestServer(f, Options{}).withOrders()
	f.Fuzz(func(t *testing.T, body []byte, atomic bool) {
		here := *ts
		here.t = t
		h := inBulk
		if atomic {
			h = transaction
		}
		a := here.do("POST", orders+"/docs", h, string(body))
		if a.status >= 500 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if a.status >= 400 {
			return
		}
		var ops, results []json.RawMessage
		if err := json.Unmarshal(body, &ops); err != nil {
			t.Fatal(err)
		}
		a.decode(&results)
		if len(ops) != len(results) {
			t.Fatalf("%d results of %d operations: %s", len(results), len(ops), a.body)
		}
	})
}
