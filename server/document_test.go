package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestACreatedDocumentHasItsSystemProperties(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	a := ts.do("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p","_ts":5,"_etag":"mine"}`).want(201)
	doc := a.object()
	container := ts.must("GET", orders, nil, "").object()
	rid, _ := doc["_rid"].(string)
	if len(rid) != 24 || doc["_self"] != container["_self"].(string)+"docs/"+rid+"/" || doc["_attachments"] != "attachments/" {
		t.Errorf("system properties: %s", a.body)
	}
	if doc["_etag"] != a.header.Get("Etag") || doc["_etag"] == "mine" || doc["_ts"] == 5.0 || doc["_lsn"] != nil {
		t.Errorf("system properties: %s, etag %s", a.body, a.header.Get("Etag"))
	}
	a.wantHeader(wire.HeaderAltContentPath, "dbs/shop/colls/orders").
		wantHeader(wire.HeaderContentPath, container["_rid"].(string)).
		wantHeader(wire.HeaderSessionToken, "0:-1#1").wantHeader("lsn", "1").
		wantHeader(wire.HeaderPartitionID, "0")
	ts.do("GET", orders+"/docs/1", pk(`["p"]`), "").want(200).wantBody(string(a.body)).wantHeader("Etag", a.header.Get("Etag"))
}

func TestCreateConflictsWithinItsPartitionKeyOnly(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.do("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`).want(201)
	ts.do("POST", orders+"/docs", pk(`["q"]`), `{"id":"1","pk":"q"}`).want(201)
	ts.do("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`).want(409)
	ts.do("GET", orders+"/docs/1", pk(`["r"]`), "").want(404)
}

func TestFailuresReportPositionAndCharge(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	h := pk(`["p"]`)
	etag := ts.must("POST", orders+"/docs", h, `{"id":"1","pk":"p"}`).header.Get("Etag")
	for _, a := range []response{
		ts.do("GET", orders+"/docs/2", h, "").want(404),
		ts.do("GET", orders+"/docs/1", h.with("If-None-Match", etag), "").want(304),
		ts.do("POST", orders+"/docs", h, `{"id":"1","pk":"p"}`).want(409),
		ts.do("PUT", orders+"/docs/1", h.with("If-Match", `"other"`), `{"id":"1","pk":"p"}`).want(412),
		ts.do("DELETE", orders+"/docs/2", h, "").want(404),
	} {
		a.wantHeader(wire.HeaderSessionToken, "0:-1#1")
		if a.header.Get(wire.HeaderRequestCharge) == "0" {
			t.Errorf("%s: %d cost nothing", a.what, a.status)
		}
	}
}

func TestUpsertAnswers201And200(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	upsert := pk(`["p"]`).with(wire.HeaderUpsert, "True")
	first := ts.do("POST", orders+"/docs", upsert, `{"id":"1","pk":"p","v":1}`).want(201)
	ts.do("POST", orders+"/docs", upsert, `{"id":"1","pk":"p","v":2}`).want(200).wantBody(`"v":2`)
	ts.do("POST", orders+"/docs", upsert.with("If-Match", first.header.Get("Etag")), `{"id":"1","pk":"p","v":3}`).want(412)
	ts.do("GET", orders+"/docs/1", pk(`["p"]`), "").want(200).wantBody(`"v":2`)
}

func TestKeysOfEveryKind(t *testing.T) {
	ts := newTestServer(t, Options{Partitions: 3}).withOrders()
	for header, member := range map[string]string{
		`["a/b"]`: `"a/b"`, `[12.5]`: `12.5`, `[true]`: `true`, `[null]`: `null`, `["\u00fc"]`: `"ü"`, `[""]`: `""`, `["a\"b"]`: `"a\"b"`,
	} {
		ts.do("POST", orders+"/docs", pk(header), `{"id":"1","pk":`+member+`}`).want(201)
		ts.do("GET", orders+"/docs/1", pk(header), "").want(200).wantBody(`"pk":` + member)
	}
	ts.do("POST", orders+"/docs", nil, `{"id":"without"}`).want(201)
	ts.do("GET", orders+"/docs/without", pk(`[{}]`), "").want(200)
	ts.do("GET", orders+"/docs/without", pk(`[]`), "").want(200)
	ts.do("POST", orders+"/docs", nil, `{"id":"from the body","pk":7}`).want(201)
	ts.do("GET", orders+"/docs/from%20the%20body", pk(`[7]`), "").want(200)
}

func TestKeyThatDiffersIsRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.do("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"q"}`).want(400, 1001)
	ts.do("POST", orders+"/docs", pk(`["p","q"]`), `{"id":"1","pk":"p"}`).want(400, 1001)
	ts.do("POST", orders+"/docs", pk(`nonsense`), `{"id":"1","pk":"p"}`).want(400)
	const few = "The partition key supplied in x-ms-partitionkey header has fewer components than defined in the the collection."
	ts.do("GET", orders+"/docs/1", nil, "").want(400, 1001).wantText(few)
	ts.do("POST", orders+"/docs", pk(""), `{"id":"1","pk":"p"}`).want(400, 1001).wantText(few).wantHeader(wire.HeaderRequestCharge, "0")
	ts.do("PUT", orders+"/docs/1", nil, `{"id":"1","pk":"p"}`).want(400, 1001).wantText(few)
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
	ts.do("PUT", orders+"/docs/1", pk(`["p"]`), `{"id":"1","pk":"q"}`).want(400, 1001)
	ts.do("PUT", orders+"/docs/1", pk(`["p"]`), `{"id":"2","pk":"p"}`).want(400)
}

func TestHierarchicalKeys(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"hpk","partitionKey":{"paths":["/t","/u"],"version":2,"kind":"MultiHash"}}`)
	const hpk = "/dbs/shop/colls/hpk/docs"
	ts.do("POST", hpk, pk(`["t","u"]`), `{"id":"1","t":"t","u":"u"}`).want(201)
	ts.do("GET", hpk+"/1", pk(`["t","u"]`), "").want(200)
	ts.do("GET", hpk+"/1", pk(`["t"]`), "").want(400, 1001)
	ts.do("GET", hpk, pk(`["t"]`), "").want(200).wantBody(`"id":"1"`)
}

func TestIDsOfEveryKindAreAddressed(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	for path, id := range map[string]string{"o%201+%25%C3%A9": "o 1+%é", "a'b\"=&,;@$": `a'b\"=&,;@$`, "%E2%98%83": "☃"} {
		ts.do("POST", orders+"/docs", pk(`["p"]`), `{"id":"`+id+`","pk":"p"}`).want(201)
		ts.do("GET", orders+"/docs/"+strings.ReplaceAll(path, `"`, "%22"), pk(`["p"]`), "").want(200).wantBody(`"id":"` + id + `"`)
	}
	ts.do("POST", orders+"/docs", pk(`["p"]`), `{"id":"a/b","pk":"p"}`).want(400)
	ts.do("POST", orders+"/docs", pk(`["p"]`), `{"id":"`+strings.Repeat("x", 1024)+`","pk":"p"}`).want(400)
	ts.do("POST", orders+"/docs", pk(`["p"]`), `{"id":7,"pk":"p"}`).want(400)
}

// A document without an ID must be refused. The service generates no IDs either, so code
// that works with this server would otherwise fail with the service.
func TestADocumentWithoutIDIsRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	const missing = "the required properties - 'id; ' - are missing"
	for _, body := range []string{`{"pk":"p","deep":{"id":"no"}}`, ` { "pk" : "p" } `, `{"pk":"p"}`, `{"id":null,"pk":"p"}`, `{"id":"","pk":"p"}`} {
		text := missing
		if strings.Contains(body, `"id":null`) || strings.Contains(body, `"id":""`) {
			text = "invalid id"
		}
		ts.do("POST", orders+"/docs", pk(`["p"]`), body).want(400).wantText(text)
		ts.do("POST", orders+"/docs", pk(`["p"]`).with(wire.HeaderUpsert, "true"), body).want(400).wantText(text)
		for _, kind := range []string{"Create", "Upsert"} {
			op := `[{"operationType":"` + kind + `","partitionKey":"[\"p\"]","resourceBody":` + body + `}]`
			ts.batch(transaction, op, 207, "400")
			ts.batch(inBulk, op, 207, "400")
		}
	}
	ts.do("POST", orders+"/docs", nil, `{}`).want(400)
	ts.do("POST", orders+"/docs", pk(`["p"]`), `{"pk":"p",`).want(400)
	ts.do("POST", orders+"/docs", pk(`["p"]`), `["p"]`).want(400)
	ts.do("POST", orders+"/docs", pk(`["p"]`), ``).want(400)
	ts.do("GET", orders+"/docs", nil, "").want(200).wantHeader(wire.HeaderItemCount, "0")
}

func TestConditionsOfReadsAndWrites(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	h := pk(`["p"]`)
	ts.do("PUT", orders+"/docs/1", h, `{"id":"1","pk":"p"}`).want(404)
	old := ts.must("POST", orders+"/docs", h, `{"id":"1","pk":"p"}`).header.Get("Etag")
	ts.do("GET", orders+"/docs/1", h.with("If-None-Match", old), "").want(304).wantHeader("Etag", old)
	now := ts.do("PUT", orders+"/docs/1", h.with("If-Match", old), `{"id":"1","pk":"p","v":1}`).want(200).header.Get("Etag")
	ts.do("GET", orders+"/docs/1", h.with("If-None-Match", old), "").want(200).wantHeader("Etag", now)
	ts.do("PUT", orders+"/docs/1", h.with("If-Match", old), `{"id":"1","pk":"p","v":2}`).want(412)
	ts.do("PUT", orders+"/docs/1", h.with("If-Match", "*"), `{"id":"1","pk":"p","v":3}`).want(200)
	ts.do("DELETE", orders+"/docs/1", h.with("If-Match", old), "").want(412)
	ts.do("DELETE", orders+"/docs/1", h.with("If-Match", "*").with("Prefer", "return=minimal"), "").want(204)
	ts.do("DELETE", orders+"/docs/1", h, "").want(404)
	ts.do("POST", orders+"/docs", h.with("x-ms-documentdb-is-upsert", "true").with("If-None-Match", "*"), `{"id":"1","pk":"p"}`).want(201)
	ts.do("POST", orders+"/docs", h.with("x-ms-documentdb-is-upsert", "true").with("If-None-Match", "*"), `{"id":"1","pk":"p"}`).want(412)
}

// A read with an If-Match that differs from the item's etag must succeed. Java's change
// feed processor sends such a read after a write with the same If-Match was refused.
func TestReadIgnoresIfMatch(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	h := pk(`["p"]`)
	old := ts.must("POST", orders+"/docs", h, `{"id":"1","pk":"p"}`).header.Get("Etag")
	now := ts.do("PUT", orders+"/docs/1", h, `{"id":"1","pk":"p","v":1}`).want(200).header.Get("Etag")
	ts.do("GET", orders+"/docs/1", h.with("If-Match", old), "").want(200).wantHeader("Etag", now)
	ts.do("GET", orders+"/docs/1", h.with("If-Match", old).with("If-None-Match", now), "").want(304)
}

func TestMinimalAnswersHaveHeadersAndNoBody(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	h := pk(`["p"]`).with("Prefer", "return=minimal")
	a := ts.do("POST", orders+"/docs", h, `{"id":"1","pk":"p"}`).want(201)
	if len(a.body) != 0 || a.header.Get("Etag") == "" || a.header.Get(wire.HeaderSessionToken) == "" {
		t.Errorf("%v %s", a.header, a.body)
	}
	ts.do("GET", orders+"/docs/1", pk(`["p"]`), "").wantHeader("Etag", a.header.Get("Etag"))
	if a = ts.do("PUT", orders+"/docs/1", h, `{"id":"1","pk":"p"}`).want(200); len(a.body) != 0 {
		t.Errorf("%s", a.body)
	}
}

func TestMissingOwnersHaveNoSubStatus(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	h := pk(`["p"]`)
	ts.do("GET", orders+"/docs/1", h, "").want(404)
	ts.do("GET", "/dbs/shop/colls/none/docs/1", h, "").want(404, 0)
	ts.do("GET", "/dbs/none/colls/orders/docs/1", h, "").want(404, 0)
	ts.do("POST", "/dbs/shop/colls/none/docs", h, `{"id":"1","pk":"p"}`).want(404, 0)
	ts.do("GET", "/dbs/none/colls/orders", nil, "").want(404, 0)
	ts.do("GET", "/dbs/shop/colls/none", nil, "").want(404)
	ts.do("POST", "/dbs/none/colls", nil, `{"id":"c","partitionKey":{"paths":["/pk"]}}`).want(404, 0)
	ts.do("GET", "/dbs/none", nil, "").want(404)
	ts.do("GET", "/dbs/none/colls", nil, "").want(404, 0)
}

// A write costs the same whether its container or the item itself is missing.
func TestWritesToAMissingOwnerCostWhatFailedWritesCost(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	h := pk(`["p"]`)
	const body, patch = `{"id":"1","pk":"p"}`, `{"operations":[{"op":"set","path":"/n","value":1}]}`
	batch := together(h, headers{wire.HeaderBatch: "true", wire.HeaderBatchAtomic: "true"})
	for _, owner := range []string{orders, "/dbs/shop/colls/none", "/dbs/none/colls/orders"} {
		for _, a := range []response{
			ts.do("PUT", owner+"/docs/1", h, body), ts.do("PATCH", owner+"/docs/1", h, patch), ts.do("DELETE", owner+"/docs/1", h, ""),
		} {
			a.want(404, 0).wantHeader(wire.HeaderRequestCharge, "1.24")
		}
		if owner == orders {
			continue
		}
		ts.do("DELETE", owner, nil, "").want(404, 0).wantHeader(wire.HeaderRequestCharge, "1.24")
		ts.do("POST", owner+"/docs", h, body).want(404, 0).wantHeader(wire.HeaderRequestCharge, "1.24")
		ts.do("POST", owner+"/docs", h.with(wire.HeaderUpsert, "true"), body).want(404, 0).wantHeader(wire.HeaderRequestCharge, "1.24")
		ts.do("POST", owner+"/docs", batch, `[{"operationType":"Create","resourceBody":`+body+`}]`).want(404, 0).wantHeader(wire.HeaderRequestCharge, "1.24")
		ts.do("GET", owner+"/docs/1", h, "").want(404, 0).wantHeader(wire.HeaderRequestCharge, "2")
		ts.do("POST", owner+"/docs", queryHeaders(), `{"query":"SELECT * FROM c"}`).want(404, 0).wantHeader(wire.HeaderRequestCharge, "2")
	}
}

func TestAnotherContainerThanTheIntendedIsRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	rid, _ := ts.must("GET", orders, nil, "").object()["_rid"].(string)
	h := pk(`["p"]`).with("x-ms-cosmos-intended-collection-rid", rid)
	ts.do("POST", orders+"/docs", h, `{"id":"1","pk":"p"}`).want(201)
	ts.must("DELETE", orders, nil, "")
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"orders","partitionKey":{"paths":["/pk"]}}`)
	ts.do("POST", orders+"/docs", h, `{"id":"1","pk":"p"}`).want(400, 1024)
}

func TestDocumentsLargerThanTheLimitAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	body := func(n int) string {
		head := `{"id":"1","pk":"p","x":"`
		return head + strings.Repeat("x", n-len(head)-2) + `"}`
	}
	ts.do("POST", orders+"/docs", pk(`["p"]`), body(storetype.MaxDocumentSize)).want(201)
	ts.do("PUT", orders+"/docs/1", pk(`["p"]`), body(storetype.MaxDocumentSize+1)).want(413)
	ts.do("PUT", orders+"/docs/1", pk(`["p"]`), body(maxDocumentBody+1)).want(413)
}

func TestDocumentsAreAddressedByRID(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	h := pk(`["p"]`)
	doc := ts.must("POST", orders+"/docs", h, `{"id":"1","pk":"p"}`).object()
	self := "/" + strings.TrimSuffix(doc["_self"].(string), "/")
	ts.do("GET", self, h, "").want(200).wantBody(`"id":"1"`)
	ts.do("GET", self, nil, "").want(400, 1001)
	ts.do("PUT", self, h, `{"id":"1","pk":"p","v":1}`).want(200).wantBody(`"v":1`)
	ts.do("PUT", self, nil, `{"id":"1","pk":"p","v":2}`).want(400, 1001)
	// This item's ID is the rid of another item. A path with this text must address the
	// item with the ID.
	ts.must("POST", orders+"/docs", h, `{"id":"`+doc["_rid"].(string)+`","pk":"p"}`)
	ts.do("DELETE", self, h, "").want(204)
	ts.do("GET", orders+"/docs/1", h, "").want(200)
	ts.do("DELETE", self, h, "").want(204)
	ts.do("GET", orders+"/docs/1", h, "").want(404)
	ts.do("GET", self, h, "").want(404)
}

func TestTriggersAreRefusedByName(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.do("POST", orders+"/docs", pk(`["p"]`).with("x-ms-documentdb-pre-trigger-include", "t"), `{"id":"1","pk":"p"}`).
		want(400).wantBody("trigger")
	ts.do("GET", orders+"/docs/1", pk(`["p"]`), "").want(404)
}

func TestExpiredDocumentsAreGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}).withOrders()
		h := pk(`["p"]`)
		ts.must("POST", orders+"/docs", h, `{"id":"1","pk":"p","ttl":10}`)
		ts.do("POST", orders+"/docs", h, `{"id":"2","pk":"p","ttl":0}`).want(400)
		time.Sleep(9 * time.Second)
		ts.do("GET", orders+"/docs/1", h, "").want(200)
		time.Sleep(2 * time.Second)
		ts.do("GET", orders+"/docs/1", h, "").want(404)
		ts.do("POST", orders+"/docs", h, `{"id":"1","pk":"p"}`).want(201)
	})
}

func TestReadFeedHasEveryDocumentOnceOverASplit(t *testing.T) {
	ts := newTestServer(t, Options{Partitions: 2}).withOrders()
	for _, id := range strings.Split("a b c d e f g h i j", " ") {
		ts.must("POST", orders+"/docs", nil, `{"id":"`+id+`","pk":"`+id+`"}`)
	}
	seen := map[string]int{}
	h := headers{"x-ms-max-item-count": "3"}
	for pages := 1; ; pages++ {
		a := ts.do("GET", orders+"/docs", h, "").want(200)
		var page struct {
			Count     int    `json:"_count"`
			RID       string `json:"_rid"`
			Documents []struct{ ID string }
		}
		a.decode(&page)
		if page.Count != len(page.Documents) || page.Count > 3 || page.RID != a.header.Get(wire.HeaderContentPath) {
			t.Errorf("page: %s", a.body)
		}
		for _, d := range page.Documents {
			seen[d.ID]++
		}
		if pages == 2 {
			c, err := ts.db.Container(t.Context(), "shop", "orders")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Split(t.Context(), "1", ""); err != nil {
				t.Fatal(err)
			}
		}
		next := a.header.Get(wire.HeaderContinuation)
		if next == "" {
			break
		}
		h = h.with(wire.HeaderContinuation, next)
	}
	if len(seen) != 10 {
		t.Errorf("read %v", seen)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was read %d times", id, n)
		}
	}
	ts.do("GET", orders+"/docs", headers{"x-ms-documentdb-partitionkeyrangeid": "1"}, "").want(410, 1002)
	ts.do("GET", orders+"/docs", headers{"x-ms-continuation": "%%"}, "").want(400)
	ts.do("GET", orders+"/docs", headers{"x-ms-max-item-count": "-2"}, "").want(400)
	ts.do("GET", orders+"/docs", pk(`["a"]`), "").want(200).wantHeader(wire.HeaderItemCount, "1")
	for _, token := range strings.Split(ts.do("GET", orders+"/docs", nil, "").want(200).header.Get(wire.HeaderSessionToken), ",") {
		if id, _, ok := strings.Cut(token, ":-1#"); !ok || id == "1" {
			t.Errorf("session token %q", token)
		}
	}
}

func TestThroughputIsEnforcedIfEnabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServerOver(t, engine.Options{EnforceThroughput: true}, Options{})
		ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
		ts.must("POST", "/dbs/shop/colls", headers{"x-ms-offer-throughput": "400"}, `{"id":"orders","partitionKey":{"paths":["/pk"]}}`)
		var refused response
		for i := range 200 {
			if refused = ts.do("POST", orders+"/docs", nil, fmt.Sprintf(`{"id":"%d","pk":"p"}`, i)); refused.status != http.StatusCreated {
				break
			}
		}
		refused.want(429, 3200).wantHeader("x-ms-request-charge", "0.06") // a hundredth of such a create
		wait, err := time.ParseDuration(refused.header.Get(wire.HeaderRetryAfter) + "ms")
		if err != nil || wait <= 0 {
			t.Fatalf("retry after %q", refused.header.Get(wire.HeaderRetryAfter))
		}
		time.Sleep(wait)
		ts.do("POST", orders+"/docs", nil, `{"id":"last","pk":"p"}`).want(201)
	})
}

// The server reuses the buffers of request bodies. Concurrent requests with different
// documents must each store and return their own bytes.
func TestBodiesOfRequestsAtTheSameTimeStayApart(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	upsert := pk(`["p"]`).with(wire.HeaderUpsert, "True")
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for i := range 60 {
				own := fmt.Sprintf(`"v":"%s"`, strings.Repeat(fmt.Sprintf("<%d.%d>", w, i), 1+i*i%1000))
				body := fmt.Sprintf(`{"id":"%d","pk":"p",%s}`, w, own)
				h := upsert
				if i%2 == 0 {
					h = h.with("Prefer", "return=minimal")
				}
				if a := ts.do("POST", orders+"/docs", h, body); a.status/100 != 2 || i%2 == 1 && !bytes.Contains(a.body, []byte(own)) {
					t.Errorf("%d %.200s", a.status, a.body)
				}
				// The buffer is also reused after a request that is refused, and after
				// one whose body ends too early.
				if a := ts.do("POST", orders+"/docs", upsert.with("If-Match", "other"), body); a.status != 412 {
					t.Errorf("%d %.200s", a.status, a.body)
				}
				cut := ts.request("POST", orders+"/docs", upsert, body)
				cut.Body = io.NopCloser(io.MultiReader(strings.NewReader(body[:len(body)/2]), iotest.ErrReader(errors.New("gone"))))
				answer := httptest.NewRecorder()
				if ts.ServeHTTP(answer, cut); answer.Code != 400 || strings.Contains(answer.Body.String(), "<") {
					t.Errorf("%d %.200s", answer.Code, answer.Body)
				}
				if a := ts.do("GET", fmt.Sprintf("%s/docs/%d", orders, w), pk(`["p"]`), ""); !bytes.Contains(a.body, []byte(own)) {
					t.Errorf("%d %.200s", a.status, a.body)
				}
			}
		})
	}
	workers.Wait()
}

func TestMemoryOfLargeBodiesIsNotKept(t *testing.T) {
	x := &request{w: httptest.NewRecorder(), memory: &unlimited}
	for _, size := range []int{10, keptBody, storetype.MaxDocumentSize} {
		for _, length := range []int64{int64(size), -1} {
			x.r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("x", size)))
			x.r.ContentLength = length
			b, err := x.readDocumentBody()
			if err != nil || len(b.text) != size {
				t.Fatalf("%d bytes of %d: %v", len(b.text), size, err)
			}
			b.release()
			if kept, _ := documentBodies.Get().(*documentBody); kept != nil && cap(kept.text) > keptBody {
				t.Errorf("after a body of %d bytes, %d are kept", size, cap(kept.text))
			}
		}
	}
}
