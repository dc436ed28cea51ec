package server

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/hybridrow"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// These tests send requests as the .NET SDK 3.62 writes them in gateway mode. The
// headers' names, values, spelling and order are taken from the SDK's source:
// GatewayStoreClient and HttpClient determine the order. No .NET client was run.

// dotnetCommon holds the headers that the SDK sends with every request, after the headers
// of the operation.
const dotnetCommon = `x-ms-cosmos-sdk-supportedcapabilities: 11
x-ms-noretry-449: True
x-ms-activity-id: 5a6f1c2e-1f9b-4a8e-9a55-0f8c8a6d7d11
Cache-Control: no-cache
User-Agent: cosmos-netstandard-sdk/3.62.1|1|X64|Ubuntu 22.04.5 LTS|.NET 8.0.10|N|F 00000010|
x-ms-version: 2020-07-15
Accept: application/json
`

// dotnet sends a request as the SDK writes it and returns the answer. own holds the
// headers of the operation, one in each line. The signature covers kind, the resource
// type, and link, the resource's path by names or its rid in lower case.
func (ts *testServer) dotnet(method, path, kind, link, own, body string) response {
	ts.t.Helper()
	date := wire.FormatTime(ts.db.Now())
	signature := ts.key.Sign(wire.Payload(method, kind, link, date, ""))
	// The SDK escapes the signature with HttpUtility.UrlEncode, which writes hexadecimal
	// digits in lower case.
	token := strings.NewReplacer("+", "%2b", "/", "%2f", "=", "%3d").Replace("sig=" + base64.StdEncoding.EncodeToString(signature))
	text := method + " " + path + " HTTP/1.1\nHost: localhost:8081\n" + own + "x-ms-date: " + date + "\nauthorization: type%3dmaster%26ver%3d1.0%26" + token + "\n" + dotnetCommon
	contentType := ""
	if at := strings.Index(text, "Content-Type: "); at >= 0 { // the SDK sends Content-Type with the content, after all other headers
		end := at + strings.IndexByte(text[at:], '\n') + 1
		contentType = text[at:end]
		text = text[:at] + text[end:]
	}
	if body != "" {
		text += contentType + fmt.Sprintf("Content-Length: %d\n", len(body))
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n") + "\r\n" + body)))
	if err != nil {
		ts.t.Fatalf("%v:\n%s", err, text)
	}
	w := httptest.NewRecorder()
	ts.ServeHTTP(w, r.WithContext(ts.t.Context()))
	a := response{t: ts.t, what: method + " " + path, status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	a.checkRules()
	if got := a.header.Get(wire.HeaderActivityID); !a.front() && got != "5a6f1c2e-1f9b-4a8e-9a55-0f8c8a6d7d11" {
		ts.t.Errorf("%s: activity id %s", a.what, got)
	}
	return a
}

// ordersLink is the link of the container orders that signatures cover. ordersDocs is the
// path of its documents.
const (
	ordersLink = "dbs/shop/colls/orders"
	ordersDocs = "/dbs/shop/colls/orders/docs"
)

func TestDotNetStartsAndReadsItsRoutingMap(t *testing.T) {
	ts := newTestServer(t, Options{Partitions: 2}).withOrders()
	var account struct {
		WritableLocations        []struct{ DatabaseAccountEndpoint string }
		UserConsistencyPolicy    struct{ DefaultConsistencyLevel string }
		QueryEngineConfiguration string
	}
	ts.dotnet("GET", "/", "", "", "", "").want(200).decode(&account)
	var limits map[string]any
	if err := json.Unmarshal([]byte(account.QueryEngineConfiguration), &limits); err != nil || len(account.WritableLocations) != 1 ||
		account.WritableLocations[0].DatabaseAccountEndpoint != "http://localhost:8081/" || account.UserConsistencyPolicy.DefaultConsistencyLevel != "Session" {
		t.Errorf("%+v, %v", account, err)
	}

	container := ts.dotnet("GET", "/dbs/shop/colls/orders", "colls", ordersLink, "", "").want(200).object()
	rid := container["_rid"].(string)
	self := "/" + strings.TrimSuffix(container["_self"].(string), "/")
	if again := ts.dotnet("GET", self, "colls", strings.ToLower(rid), "", "").want(200).object(); again["id"] != "orders" {
		t.Errorf("by its rid the container is %v", again)
	}

	// The SDK reads the list of partitions with the last etag until it gets a 304. If the
	// server never answered 304, the SDK would read forever.
	const whole = "x-ms-max-item-count: -1\nA-IM: Incremental Feed\n"
	first := ts.dotnet("GET", self+"/pkranges/", "pkranges", strings.ToLower(rid), whole, "").want(200).wantHeader(wire.HeaderItemCount, "2")
	etag := first.header.Get("Etag")
	ts.dotnet("GET", self+"/pkranges/", "pkranges", strings.ToLower(rid), whole+"If-None-Match: "+etag+"\n", "").want(304).wantHeader("Etag", etag)

	c, err := ts.db.Container(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Split(t.Context(), "0", ""); err != nil {
		t.Fatal(err)
	}
	var more struct{ PartitionKeyRanges []struct{ Parents []string } }
	ts.dotnet("GET", self+"/pkranges/", "pkranges", strings.ToLower(rid), whole+"If-None-Match: "+etag+"\n", "").want(200).decode(&more)
	if len(more.PartitionKeyRanges) != 2 || !slices.Equal(more.PartitionKeyRanges[0].Parents, []string{"0"}) {
		t.Errorf("after the split the ranges are %+v", more)
	}
}

func TestDotNetMakesDatabasesAndContainers(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.dotnet("GET", "/dbs/shop", "dbs", "dbs/shop", "", "").want(404)
	ts.dotnet("POST", "/dbs", "dbs", "", "", `{"id":"shop"}`).want(201)
	ts.dotnet("POST", "/dbs", "dbs", "", "", `{"id":"shop"}`).want(409)
	// This is the SDK's JSON for its class ContainerProperties.
	made := ts.dotnet("POST", "/dbs/shop/colls", "colls", "dbs/shop", `x-ms-cosmos-offer-autopilot-settings: {"maxThroughput":4000}`+"\n",
		`{"indexingPolicy":{"automatic":true,"indexingMode":"Consistent","includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}],"compositeIndexes":[],`+
			`"spatialIndexes":[],"vectorIndexes":[],"fullTextIndexes":[]},"id":"orders","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2},`+
			`"uniqueKeyPolicy":{"uniqueKeys":[]},"conflictResolutionPolicy":{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""},`+
			`"changeFeedPolicy":{"retentionDuration":10},"geospatialConfig":{"type":"Geography"},"computedProperties":[],"defaultTtl":-1}`).want(201).object()
	kind := made["partitionKey"].(map[string]any)
	if made["defaultTtl"] != -1.0 || kind["kind"] != "MultiHash" || kind["version"] != 2.0 || made["_self"] == nil || made["_rid"] == nil || made["indexingPolicy"] == nil {
		t.Errorf("%v", made)
	}
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, `x-ms-documentdb-partitionkey: ["t","u"]`+"\n", `{"id":"1","tenant":"t","user":"u"}`).want(201)
	var found struct{ DocumentCollections, Databases []map[string]any }
	ts.dotnet("POST", "/dbs/shop/colls", "colls", "dbs/shop", "x-ms-max-item-count: -1\nx-ms-documentdb-isquery: True\nContent-Type: application/query+json\n",
		`{"query":"SELECT * FROM c WHERE c.id = 'orders'"}`).want(200).decode(&found)
	ts.dotnet("GET", "/dbs", "dbs", "", "x-ms-max-item-count: -1\n", "").want(200).wantHeader(wire.HeaderItemCount, "1").decode(&found)
	if len(found.DocumentCollections) != 1 || len(found.Databases) != 1 {
		t.Errorf("%+v", found)
	}
	ts.dotnet("DELETE", "/dbs/shop/colls/orders", "colls", ordersLink, "", "").want(204)
	ts.dotnet("DELETE", "/dbs/shop", "dbs", "dbs/shop", "", "").want(204)
}

func TestDotNetWorksOnItems(t *testing.T) {
	ts := newTestServer(t, Options{Partitions: 2}).withOrders()
	const (
		key     = `x-ms-documentdb-partitionkey: ["p"]` + "\n"
		link    = ordersLink + "/docs/1"
		path    = ordersDocs + "/1"
		session = "x-ms-session-token: 0:-1#2,1:-1#2\n"
	)
	created := ts.dotnet("POST", ordersDocs, "docs", ordersLink, key+session, `{"id":"1","pk":"p","v":1}`).want(201).wantBody(`"v":1`)
	if got := created.header.Get(wire.HeaderAltContentPath); got != ordersLink || strings.Count(created.header.Get(wire.HeaderSessionToken), ":") != 1 {
		t.Errorf("the session's container is %q, its token %q", got, created.header.Get(wire.HeaderSessionToken))
	}
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, key, `{"id":"1","pk":"p"}`).want(409).wantBody(`"code":"Conflict"`)
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, key+"x-ms-documentdb-is-upsert: True\nPrefer: return=minimal\n", `{"id":"1","pk":"p","v":2}`).
		want(200).wantHeader("Content-Length", "0")
	// The session token has entries for several partitions, joined by commas. The header
	// with accepted formats is sent by an SDK whose user has enabled binary encoding.
	read := ts.dotnet("GET", path, "docs", link, key+session+"x-ms-consistency-level: Session\nx-ms-cosmos-supported-serialization-formats: CosmosBinary\n", "").
		want(200).wantBody(`"v":2`).wantHeader("Content-Type", "application/json")
	etag := read.header.Get("Etag")
	ts.dotnet("GET", path, "docs", link, key+"If-None-Match: "+etag+"\n", "").want(304)
	ts.dotnet("PUT", path, "docs", link, key+"If-Match: \"other\"\n", `{"id":"1","pk":"p","v":3}`).want(412)
	ts.dotnet("PUT", path, "docs", link, key+"If-Match: "+etag+"\n", `{"id":"1","pk":"p","v":3}`).want(200).wantBody(`"v":3`)
	ts.dotnet("PATCH", path, "docs", link, key+"Content-Type: application/json-patch+json\n",
		`{"condition":"from c where c.v = 3","operations":[{"op":"incr","path":"/v","value":1}]}`).want(200).wantBody(`"v":4`)
	ts.dotnet("GET", path, "docs", link, `x-ms-documentdb-partitionkey: ["q"]`+"\n", "").want(404)
	ts.dotnet("DELETE", path, "docs", link, key, "").want(204)
	// The SDK writes PartitionKey.None as [{}], and PartitionKey.Null as [null].
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, "x-ms-documentdb-partitionkey: [{}]\n", `{"id":"none"}`).want(201)
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, "x-ms-documentdb-partitionkey: [null]\n", `{"id":"null","pk":null}`).want(201)
}

// An environment variable makes the SDK send items in a binary encoding. The server must
// refuse such an item with an error that names the variable.
func TestCosmosBinaryIsRefusedByName(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	const binary, key = "\x80\xea\x0a", `x-ms-documentdb-partitionkey: ["p"]` + "\nx-ms-cosmos-supported-serialization-formats: CosmosBinary\n"
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, key, binary).want(400).wantBody("AZURE_COSMOS_BINARY_ENCODING_ENABLED")
	ts.dotnet("PUT", ordersDocs+"/1", "docs", ordersLink+"/docs/1", key, binary).want(400).wantBody("CosmosBinary")
	for _, kind := range []hybridrow.OperationType{hybridrow.Create, hybridrow.Patch} {
		r := ts.rows(dotnetBulk, 207, "400", row(kind, `["p"]`, "1", binary))
		if !strings.Contains(string(r[0].Body), "CosmosBinary") {
			t.Errorf("%s", r[0].Body)
		}
	}
}

func TestDotNetReadsFeeds(t *testing.T) {
	ts := newTestServer(t, Options{Partitions: 2, Versions: time.Hour}).withOrders()
	for i := range 4 {
		ts.must("POST", ordersDocs, nil, fmt.Sprintf(`{"id":"%d","pk":"p%d"}`, i, i))
	}
	c, err := ts.db.Container(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	partitions, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for _, p := range partitions {
		own := "x-ms-documentdb-partitionkeyrangeid: " + p.ID + "\nx-ms-max-item-count: 100\n"
		first := ts.dotnet("GET", ordersDocs, "docs", ordersLink, own+"A-IM: Incremental Feed\n", "").want(200)
		var page struct{ Documents []feedItem }
		first.decode(&page)
		got += len(page.Documents)
		if first.header.Get(wire.HeaderItemCount) != fmt.Sprint(len(page.Documents)) || first.header.Get(wire.HeaderContinuation) != "" {
			t.Errorf("%v", first.header)
		}
		// A 304 must have the same etag as the position in the request, and an item
		// count, which the SDK parses.
		ts.dotnet("GET", ordersDocs, "docs", ordersLink, own+"A-IM: Incremental Feed\nIf-None-Match: "+first.header.Get("Etag")+"\n", "").
			want(304).wantHeader(wire.HeaderItemCount, "0").wantHeader("Etag", first.header.Get("Etag"))
		// This request reads a part of the partition, by a range of effective partition
		// keys.
		part := own + "x-ms-read-key-type: EffectivePartitionKeyRange\nx-ms-start-epk: " + p.Range.Min + "\nx-ms-end-epk: " + p.Range.Max + "\nA-IM: Incremental Feed\n"
		ts.dotnet("GET", ordersDocs, "docs", ordersLink, part, "").want(200).wantHeader(wire.HeaderItemCount, fmt.Sprint(len(page.Documents)))
		// This is the request of a FeedIterator without a query, which reads all items.
		ts.dotnet("GET", ordersDocs, "docs", ordersLink, own+"x-ms-documentdb-populatequerymetrics: True\n", "").want(200).wantHeader(wire.HeaderItemCount, fmt.Sprint(len(page.Documents)))
		ts.dotnet("GET", ordersDocs, "docs", ordersLink, own+"If-None-Match: *\nA-IM: Full-Fidelity Feed\nx-ms-cosmos-changefeed-wire-format-version: 2021-09-15\n", "").want(304)
	}
	if got != 4 {
		t.Errorf("%d changes of 4", got)
	}
	ts.dotnet("GET", ordersDocs, "docs", ordersLink, "x-ms-documentdb-partitionkeyrangeid: 7\nA-IM: Incremental Feed\n", "").want(410, 1002)
	// In previews of the SDK, ChangeFeedQuerySpec sends a query over the changes. It must
	// be refused. Otherwise it would be answered as a query over the items.
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, "A-IM: Incremental Feed\nx-ms-documentdb-isquery: True\nContent-Type: application/query+json\n",
		`{"query":"SELECT * FROM c"}`).want(400).wantBody("change feed")
}

// The test sends the requests by which the SDK's change feed processor creates, acquires
// and updates a lease. It also sends those by which the SDK's estimator computes the lag.
func TestDotNetsProcessorKeepsItsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}).withOrders()
		ts.must("POST", "/dbs/shop/colls", nil, `{"id":"leases","partitionKey":{"paths":["/id"],"kind":"Hash","version":2},"defaultTtl":-1}`)
		const link, docs, prefix = "dbs/shop/colls/leases", "/dbs/shop/colls/leases/docs", "plocalhost_shop_orders"
		at := func(id string) (path, signed, key string) {
			return docs + "/" + id, link + "/docs/" + id, `x-ms-documentdb-partitionkey: ["` + id + `"]` + "\n"
		}
		write := func(id, body string) response {
			return ts.dotnet("POST", docs, "docs", link, `x-ms-documentdb-partitionkey: ["`+id+`"]`+"\nPrefer: return=minimal\n", body)
		}

		// The first host to start writes a lock with a time to live of 30 seconds.
		// Another host can write it only after that time.
		path, signed, key := at(prefix + ".info")
		ts.dotnet("GET", path, "docs", signed, key, "").want(404)
		write(prefix+".lock", `{"id":"`+prefix+`.lock","ttl":30}`).want(201)
		write(prefix+".lock", `{"id":"`+prefix+`.lock","ttl":30}`).want(409)
		time.Sleep(31 * time.Second)
		lock := write(prefix+".lock", `{"id":"`+prefix+`.lock","ttl":30}`).want(201)

		lease := func(owner, position string) string {
			return `{"id":"` + prefix + `..0","version":0,"_etag":null,"LeaseToken":"0","FeedRange":null,"Owner":` + owner + `,"ContinuationToken":` + position +
				`,"properties":{},"timestamp":"2026-01-15T09:30:00.0000000Z","Mode":"Incremental Feed"}`
		}
		write(prefix+"..0", lease("null", "null")).want(201)
		write(prefix+".info", `{"id":"`+prefix+`.info"}`).want(201)
		path, signed, key = at(prefix + ".lock")
		ts.dotnet("DELETE", path, "docs", signed, key+"If-Match: "+lock.header.Get("Etag")+"\n", "").want(204)

		var listed struct{ Documents []map[string]any }
		ts.dotnet("POST", docs, "docs", link, "x-ms-documentdb-query-enablecrosspartition: True\nx-ms-documentdb-partitionkeyrangeid: 0\n"+dotnetQuery,
			`{"query":"SELECT * FROM c WHERE STARTSWITH(c.id, '`+prefix+`..')"}`).want(200).decode(&listed)
		if len(listed.Documents) != 1 || listed.Documents[0]["Owner"] != nil || listed.Documents[0]["LeaseToken"] != "0" {
			t.Fatalf("%+v", listed)
		}
		// Two hosts acquire the lease with the etag from the listing. The second must be
		// refused, because the first has changed the etag.
		path, signed, key = at(prefix + "..0")
		guard := key + "Prefer: return=minimal\nIf-Match: " + listed.Documents[0]["_etag"].(string) + "\n"
		acquired := ts.dotnet("PUT", path, "docs", signed, guard, lease(`"host1"`, "null")).want(200).wantHeader("Content-Length", "0")
		ts.dotnet("PUT", path, "docs", signed, guard, lease(`"host2"`, "null")).want(412)

		// For a start from "now", the SDK reads from one second ago. It stores the etag
		// of the answer in the lease.
		ts.must("POST", ordersDocs, nil, `{"id":"1","pk":"p"}`)
		page := ts.dotnet("GET", ordersDocs, "docs", ordersLink, "x-ms-documentdb-partitionkeyrangeid: 0\nA-IM: Incremental Feed\nIf-Modified-Since: "+
			wire.FormatTime(ts.db.Now().Add(-time.Second))+"\n", "").want(200).wantHeader(wire.HeaderItemCount, "1")
		position, err := json.Marshal(page.header.Get("Etag"))
		if err != nil {
			t.Fatal(err)
		}
		ts.dotnet("PUT", path, "docs", signed, key+"Prefer: return=minimal\nIf-Match: "+acquired.header.Get("Etag")+"\n", lease(`"host1"`, string(position))).want(200)

		// The estimator subtracts the LSN of the first unread change from the LSN in the
		// session token.
		ts.must("POST", ordersDocs, nil, `{"id":"2","pk":"p"}`)
		ts.must("POST", ordersDocs, nil, `{"id":"3","pk":"p"}`)
		behind := ts.dotnet("GET", ordersDocs, "docs", ordersLink, "x-ms-documentdb-partitionkeyrangeid: 0\nx-ms-max-item-count: 1\nA-IM: Incremental Feed\nIf-None-Match: "+
			page.header.Get("Etag")+"\n", "").want(200)
		var changes struct {
			Documents []struct {
				LSN int64 `json:"_lsn"`
			}
		}
		behind.decode(&changes)
		_, last, _ := strings.Cut(behind.header.Get(wire.HeaderSessionToken), "#")
		if len(changes.Documents) != 1 || last != fmt.Sprint(changes.Documents[0].LSN+1) {
			t.Errorf("the session is at %s, the first change %+v", last, changes)
		}
	})
}

func TestDotNetSendsBatches(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	atomic := ts.dotnet("POST", ordersDocs, "docs", ordersLink, `x-ms-documentdb-partitionkey: ["p"]`+
		"\nx-ms-cosmos-is-batch-request: True\nx-ms-cosmos-batch-atomic: True\nx-ms-cosmos-batch-ordered: True\n",
		rowsOf(row(hybridrow.Create, "", "", `{"id":"1","pk":"p"}`), row(hybridrow.Read, "", "1", ""))).want(200)
	if r := atomic.results(); len(r) != 2 || r[0].Status != 201 || r[1].Status != 200 || atomic.header.Get(wire.HeaderSessionToken) == "" {
		t.Errorf("%+v %v", r, atomic.header)
	}
	bulk := ts.dotnet("POST", ordersDocs, "docs", ordersLink,
		"x-ms-documentdb-partitionkeyrangeid: 0\nx-ms-cosmos-batch-continue-on-error: True\nx-ms-cosmos-batch-atomic: False\nx-ms-cosmos-is-batch-request: True\n",
		rowsOf(row(hybridrow.Create, `["p"]`, "", `{"id":"1","pk":"p"}`), row(hybridrow.Upsert, `["q"]`, "", `{"id":"1","pk":"q"}`))).want(207)
	if r := bulk.results(); len(r) != 2 || r[0].Status != 409 || r[1].Status != 201 {
		t.Errorf("%+v", r)
	}
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, `x-ms-documentdb-partitionkey: ["p"]`+
		"\nx-ms-cosmos-is-batch-request: True\nx-ms-cosmos-batch-atomic: True\nx-ms-cosmos-batch-ordered: True\n", "\x81\x00").want(400).wantBody("HybridRow")
}

func TestDotNetReadsAndReplacesThroughput(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
	ts.dotnet("POST", "/dbs/shop/colls", "colls", "dbs/shop", "x-ms-offer-throughput: 400\n", `{"id":"orders","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`).want(201)
	rid := ts.dotnet("GET", "/dbs/shop/colls/orders", "colls", ordersLink, "", "").want(200).object()["_rid"].(string)
	var offers struct{ Offers []map[string]any }
	ts.dotnet("POST", "/offers", "offers", "", "x-ms-max-item-count: -1\nx-ms-documentdb-isquery: True\nContent-Type: application/query+json\n",
		`{"query":"select * from root r where r.offerResourceId= @targetRID","parameters":[{"name":"@targetRID","value":"`+rid+`"}]}`).want(200).decode(&offers)
	if len(offers.Offers) != 1 {
		t.Fatalf("%+v", offers)
	}
	offer := offers.Offers[0]
	offer["content"].(map[string]any)["offerThroughput"] = 800
	body, err := json.Marshal(offer)
	if err != nil {
		t.Fatal(err)
	}
	self := offer["_self"].(string)
	ts.dotnet("PUT", "/"+self, "offers", strings.ToLower(url.PathEscape(offer["_rid"].(string))), "", string(body)).want(200).wantBody("800")
}
