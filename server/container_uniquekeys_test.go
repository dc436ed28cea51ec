package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

const uniqueUsers = "/dbs/shop/colls/users"

// withUsers creates the container users with a unique key on /mail. It has two items in
// the partition key p: item a with mail 1, and item b with mail 2.
func (ts *testServer) withUsers() *testServer {
	ts.t.Helper()
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"users","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]}]}}`)
	ts.must("POST", uniqueUsers+"/docs", pk(`["p"]`), `{"id":"a","pk":"p","mail":1}`)
	ts.must("POST", uniqueUsers+"/docs", pk(`["p"]`), `{"id":"b","pk":"p","mail":2}`)
	return ts
}

func TestUniqueKeyViolationsAreConflicts(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders().withUsers()
	p, docs := pk(`["p"]`), uniqueUsers+"/docs"
	conflict := func(a response) {
		t.Helper()
		a.want(409).wantBody(`"code":"Conflict"`).wantText("Entity with the specified id already exists in the system.")
		if strings.Contains(string(a.body), `"b"`) {
			t.Errorf("the answer names the other item: %s", a.body)
		}
	}
	conflict(ts.do("POST", docs, p, `{"id":"c","pk":"p","mail":2}`))
	upsert := p.with("x-ms-documentdb-is-upsert", "true")
	conflict(ts.do("POST", docs, upsert, `{"id":"c","pk":"p","mail":2}`))
	conflict(ts.do("POST", docs, upsert, `{"id":"a","pk":"p","mail":2}`))
	conflict(ts.do("PUT", docs+"/a", p, `{"id":"a","pk":"p","mail":2}`))
	conflict(ts.do("PATCH", docs+"/a", p, `{"operations":[{"op":"incr","path":"/mail","value":1}]}`))
	conflict(ts.do("POST", docs, p, `{"pk":"p","mail":2.0,"id":"d"}`))
	ts.do("POST", docs, p, `{"id":"a","pk":"p","mail":7}`).want(409).wantBody("already exists")
	ts.do("POST", docs, pk(`["q"]`), `{"id":"a","pk":"q","mail":2}`).want(201)
	ts.do("POST", docs, p, `{"id":"none","pk":"p"}`).want(201)
	conflict(ts.do("POST", docs, p, `{"id":"null","pk":"p","mail":null}`))

	for _, k := range []struct {
		h     headers
		ops   string
		codes string
	}{
		{transaction, `[{"operationType":"Create","resourceBody":{"id":"t1","pk":"p","mail":10}},{"operationType":"Create","resourceBody":{"id":"t2","pk":"p","mail":10}}]`, "424 409"},
		{transaction, `[{"operationType":"Delete","id":"b"},{"operationType":"Create","resourceBody":{"id":"b2","pk":"p","mail":2}},
			{"operationType":"Patch","id":"a","resourceBody":{"operations":[{"op":"set","path":"/mail","value":11}]}},{"operationType":"Upsert","resourceBody":{"id":"b3","pk":"p","mail":1}}]`, "204 201 200 201"},
		{inBulk, `[{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"k1","pk":"p","mail":20}},
			{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"k2","pk":"p","mail":1}},
			{"operationType":"Upsert","partitionKey":"[\"p\"]","resourceBody":{"id":"k3","pk":"p","mail":2}},
			{"operationType":"Create","partitionKey":"[\"q\"]","resourceBody":{"id":"k4","pk":"q","mail":1}}]`, "201 409 409 201"},
	} {
		var results batchAnswer
		ts.do("POST", docs, k.h, k.ops).decode(&results)
		var got []string
		for _, r := range results {
			got = append(got, fmt.Sprint(r.StatusCode))
		}
		if strings.Join(got, " ") != k.codes {
			t.Errorf("%s: got %v, want %s: %s", k.ops, got, k.codes, fmt.Sprint(results))
		}
	}
}

func TestUniqueKeyPoliciesAreValidatedAndCannotBeChanged(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders().withUsers()
	for _, policy := range []string{
		`7`, `{"uniqueKeys":7}`, `{"uniqueKeys":[{"paths":[]}]}`, `{"uniqueKeys":[{}]}`, `{"uniqueKeys":[{"paths":["mail"]}]}`, `{"uniqueKeys":[{"paths":["/a","/a"]}]}`,
		`{"uniqueKeys":[{"paths":["/a/*"]}]}`, `{"uniqueKeys":[{"paths":["/p0","/p1","/p2","/p3","/p4","/p5","/p6","/p7","/p8","/p9","/p10","/p11","/p12","/p13","/p14","/p15","/p16"]}]}`,
		`{"uniqueKeys":[` + strings.Repeat(`{"paths":["/a"]},`, engine.MaxUniqueKeys) + `{"paths":["/a"]}]}`,
	} {
		ts.do("POST", "/dbs/shop/colls", nil, `{"id":"c","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":`+policy+`}`).want(400).wantBody("unique")
	}
	for _, none := range []string{`null`, `{}`, `{"uniqueKeys":null}`, `{"uniqueKeys":[]}`} {
		ts.must("POST", "/dbs/shop/colls", nil, `{"id":"c","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":`+none+`}`)
		ts.must("POST", "/dbs/shop/colls/c/docs", pk(`["p"]`), `{"id":"1","pk":"p"}`)
		ts.must("POST", "/dbs/shop/colls/c/docs", pk(`["p"]`), `{"id":"2","pk":"p"}`)
		ts.must("DELETE", "/dbs/shop/colls/c", nil, "")
	}
	const kept = `"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]}]}`
	for _, policy := range []string{`{"uniqueKeys":[]}`, `{"uniqueKeys":[{"paths":["/other"]}]}`, `{"uniqueKeys":[{"paths":["/mail"]},{"paths":["/other"]}]}`} {
		ts.do("PUT", uniqueUsers, nil, `{"id":"users","uniqueKeyPolicy":`+policy+`}`).want(403).wantText("The unique index cannot be modified.")
	}
	ts.do("PUT", orders, nil, `{"id":"orders",`+kept+`}`).want(403).wantText("The unique index cannot be modified.")
	for _, members := range []string{`"uniqueKeyPolicy":null`, `"defaultTtl":7`} { // as in the service, to leave them out is to change them
		ts.do("PUT", uniqueUsers, nil, `{"id":"users",`+members+`}`).want(403).wantText("The unique index cannot be modified.")
	}
	for _, members := range []string{kept, `"defaultTtl":7,` + kept} {
		ts.do("PUT", uniqueUsers, nil, `{"id":"users",`+members+`}`).want(200).wantBody(kept)
		ts.do("POST", uniqueUsers+"/docs", pk(`["p"]`), `{"id":"c","pk":"p","mail":2}`).want(409)
	}
	ts.do("GET", uniqueUsers, nil, "").want(200).wantBody(kept)
	// A program creates this container through the store. The server must show its unique
	// keys, although no client has sent a unique key policy.
	_, err := ts.db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "own", KeyPaths: []string{"/pk"}, UniqueKeys: [][]string{{"/a", "/b"}}})
	if err != nil {
		t.Fatal(err)
	}
	ts.do("GET", "/dbs/shop/colls/own", nil, "").want(200).wantBody(`"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a","/b"]}]}`)
}
