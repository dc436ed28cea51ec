package server

import (
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// old is the header of the last version of the REST API whose clients know containers
// without a partition key, and modern that of a version that sees a system key.
func old() headers { return headers{wire.HeaderVersion: "2018-09-17", wire.HeaderPartitionKey: ""} }

func modern() headers { return headers{wire.HeaderVersion: "2020-07-15", wire.HeaderPartitionKey: ""} }

const fixed = "/dbs/shop/colls/fixed"

// withFixed creates a container without a partition key, as an old client does.
func (ts *testServer) withFixed() *testServer {
	ts.t.Helper()
	ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
	ts.do("POST", "/dbs/shop/colls", old().with(wire.HeaderOfferThroughput, "10000"), `{"id":"fixed"}`).want(201).wantNoBody(`partitionKey`)
	return ts
}

func (r response) wantNoBody(text string) response {
	r.t.Helper()
	if strings.Contains(string(r.body), text) {
		r.t.Errorf("the body has %s: %s", text, r.body)
	}
	return r
}

// Old clients see no partition key, and newer ones a system key. Only old clients can create
// such a container without naming that key. It has one partition.
func TestContainersWithoutAPartitionKeyAreShownASystemKey(t *testing.T) {
	const key = `"partitionKey":{"paths":["/_partitionKey"],"kind":"Hash","version":2,"systemKey":true}`
	ts := newTestServer(t, Options{Partitions: 3}).withFixed()
	ts.do("GET", fixed, old(), "").want(200).wantNoBody("partitionKey")
	ts.do("GET", "/dbs/shop/colls", old(), "").want(200).wantNoBody("partitionKey")
	ts.do("GET", fixed, modern(), "").want(200).wantBody(key)
	ts.do("GET", "/dbs/shop/colls", modern(), "").want(200).wantBody(key)
	ts.do("GET", fixed+"/pkranges", modern(), "").want(200).wantBody(`"_count":1`)
	// Both may replace its settings, and the key stays.
	ts.do("PUT", fixed, old(), `{"id":"fixed","defaultTtl":-1}`).want(200).wantNoBody("partitionKey").wantBody(`"defaultTtl":-1`)
	ts.do("PUT", fixed, modern(), `{"id":"fixed",`+key+`}`).want(200).wantBody(key)
	ts.do("PUT", fixed, modern(), `{"id":"fixed","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`).want(400)
	for _, version := range []string{"2018-12-31", "2020-07-15", ""} {
		ts.do("POST", "/dbs/shop/colls", headers{wire.HeaderVersion: version}, `{"id":"none"}`).want(400).wantBody("should have a partition key")
	}
	ts.do("POST", "/dbs/shop/colls", modern(), `{"id":"shown",`+key+`}`).want(201).wantBody(key)
	ts.do("GET", "/dbs/shop/colls/shown", old(), "").want(200).wantNoBody("partitionKey")
	ts.do("POST", "/dbs/shop/colls", modern(), `{"id":"bad","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2,"systemKey":true}}`).want(400).wantBody("leave out systemKey")
	// A container that names the same path, as the SDK for JavaScript creates them, is an
	// ordinary one, also for old clients.
	ts.do("POST", "/dbs/shop/colls", modern(), `{"id":"js","partitionKey":{"paths":["/_partitionKey"]}}`).want(201).wantNoBody("systemKey")
	ts.do("GET", "/dbs/shop/colls/js", old(), "").want(200).wantBody("/_partitionKey")
	ts.do("PUT", "/dbs/shop/colls/js", modern(), `{"id":"js",`+key+`}`).want(400)
	ts.plainAdmin("POST", fixed[1:]+"/partitions/0/split", "").want(400).wantBody("has no partition key, so it cannot be split")
}

// Old clients send no key, and newer ones [], for the same documents.
func TestDocumentsWithoutAKeyAreOneLogicalPartition(t *testing.T) {
	for name, h := range map[string]headers{
		"old": old(), "modern": together(modern(), pk("[]")), "undefined": together(modern(), pk("[{}]")),
	} {
		for by, other := range map[string]headers{"old": old(), "modern": together(modern(), pk("[]"))} {
			ts := newTestServer(t, Options{}).withFixed()
			docs := fixed + "/docs"
			ts.do("POST", docs, h, `{"id":"a","n":1}`).want(201)
			ts.do("POST", docs, other, `{"id":"a","n":9}`).want(409)
			ts.do("GET", docs+"/a", other, "").want(200).wantBody(`"n":1`)
			ts.do("PUT", docs+"/a", other, `{"id":"a","n":2}`).want(200)
			ts.do("POST", docs, together(other, headers{wire.HeaderUpsert: "true"}), `{"id":"a","n":3}`).want(200)
			ts.do("POST", docs, together(h, headers{wire.HeaderUpsert: "true"}), `{"id":"b","n":1}`).want(201)
			ts.do("GET", docs, other, "").want(200).wantBody(`"n":3`).wantBody(`"_count":2`)
			ts.do("GET", docs, together(other, headers{wire.HeaderAIM: wire.AIMIncremental}), "").want(200).wantBody(`"n":3`).wantBody(`"_count":2`)
			ts.do("GET", docs, together(other, headers{wire.HeaderAIM: wire.AIMIncremental, wire.HeaderPartitionID: "0"}), "").want(200).wantBody(`"_count":2`)
			// One request serves every query, because there is one logical partition.
			ts.do("POST", docs, together(other, queryHeaders()), `{"query":"SELECT VALUE c.n FROM c ORDER BY c.n"}`).want(200).wantBody(`[1,3]`)
			ts.do("POST", docs, together(other, queryHeaders()), `{"query":"SELECT VALUE COUNT(1) FROM c"}`).want(200).wantBody(`[2]`)
			ts.do("DELETE", docs+"/a", other, "").want(204)
			ts.do("GET", docs+"/a", h, "").want(404)
			if t.Failed() {
				t.Fatalf("written by %s, and used by %s", name, by)
			}
		}
	}
}

// A document that a newer client writes with a _partitionKey is out of reach of old clients,
// as in the service.
func TestDocumentsOfContainersWithoutAKeyMayHaveOne(t *testing.T) {
	ts := newTestServer(t, Options{}).withFixed()
	docs := fixed + "/docs"
	ts.do("POST", docs, old(), `{"id":"a","n":1}`).want(201)
	ts.do("POST", docs, together(modern(), pk(`["x"]`)), `{"id":"a","_partitionKey":"x","n":2}`).want(201)
	ts.do("POST", docs, together(modern(), pk(`["y"]`)), `{"id":"a","_partitionKey":"x"}`).want(400, wire.SubPartitionKeyMismatch)
	ts.do("POST", docs, old(), `{"id":"c","_partitionKey":"x"}`).want(400, wire.SubPartitionKeyMismatch)
	ts.do("GET", docs+"/a", together(modern(), pk(`["x"]`)), "").want(200).wantBody(`"n":2`)
	ts.do("GET", docs+"/a", together(modern(), pk(`[]`)), "").want(200).wantBody(`"n":1`)
	ts.do("GET", docs+"/a", modern(), "").want(400, wire.SubPartitionKeyMismatch) // a newer client must name the key
	all := headers{wire.HeaderCrossPartition: "true"}
	ts.do("POST", docs, together(modern(), queryHeaders(), all), `{"query":"SELECT VALUE c.n FROM c"}`).want(200).wantBody(`"_count":2`)
	ts.do("POST", docs, together(modern(), queryHeaders()), `{"query":"SELECT VALUE c.n FROM c"}`).want(400)
	ts.do("GET", docs, together(modern(), headers{wire.HeaderAIM: wire.AIMIncremental}), "").want(200).wantBody(`"_count":2`)
	ts.do("POST", docs, together(old(), queryHeaders(), all), `{"query":"SELECT VALUE c.n FROM c"}`).want(200).wantBody(`[1]`)
	ts.do("GET", docs, together(old(), headers{wire.HeaderAIM: wire.AIMIncremental}), "").want(200).wantBody(`"_count":1`)
	// In a container with a key of its own, an old client must name it, too.
	ts.do("POST", "/dbs/shop/colls", old(), `{"id":"keyed","partitionKey":{"paths":["/pk"]}}`).want(201)
	ts.do("GET", "/dbs/shop/colls/keyed/docs/a", old(), "").want(400, wire.SubPartitionKeyMismatch)
}

func TestBatchesWriteDocumentsWithoutAKey(t *testing.T) {
	ts := newTestServer(t, Options{}).withFixed()
	docs := fixed + "/docs"
	batch := headers{wire.HeaderBatch: "True", wire.HeaderVersion: "2020-07-15"}
	ts.do("POST", docs, together(batch, pk("[]"), headers{wire.HeaderBatchAtomic: "True"}),
		`[{"operationType":"Create","resourceBody":{"id":"a"}},{"operationType":"Create","resourceBody":{"id":"b"}}]`).want(200)
	ts.do("POST", docs, together(batch, pk("[]"), headers{wire.HeaderBatchAtomic: "True"}),
		`[{"operationType":"Create","resourceBody":{"id":"c"}},{"operationType":"Create","resourceBody":{"id":"a"}}]`).want(207).wantBody(`"statusCode":409`)
	ts.do("POST", docs, together(batch, headers{wire.HeaderBatchAtomic: "False", wire.HeaderBatchContinueOnError: "True", wire.HeaderPartitionKey: ""}),
		`[{"operationType":"Create","partitionKey":"[]","resourceBody":{"id":"d"}},{"operationType":"Delete","partitionKey":"[]","id":"a"}]`).want(200).wantBody(`"statusCode":204`)
	ts.do("POST", docs, together(old(), queryHeaders()), `{"query":"SELECT VALUE c.id FROM c"}`).want(200).wantBody(`["b","d"]`)
}
