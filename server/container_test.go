package server

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestDatabaseLifeCycle(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.do("GET", "/dbs/shop", nil, "").want(404)
	made := ts.do("POST", "/dbs", nil, `{"id":"shop"}`).want(201).object()
	ts.do("POST", "/dbs", nil, `{"id":"shop"}`).want(409)
	if made["_self"] != "dbs/"+made["_rid"].(string)+"/" || made["_colls"] != "colls/" || made["_users"] != "users/" {
		t.Errorf("%v", made)
	}
	read := ts.do("GET", "/dbs/shop", nil, "").want(200)
	if !reflect.DeepEqual(read.object(), made) || read.header.Get("Etag") != made["_etag"] {
		t.Errorf("read %s, made %v", read.body, made)
	}
	ts.do("GET", "/dbs/"+made["_rid"].(string)+"/", nil, "").want(200).wantBody(`"id":"shop"`)
	ts.do("GET", "/dbs/shop", headers{"If-None-Match": made["_etag"].(string)}, "").want(304)
	ts.do("DELETE", "/dbs/shop", headers{"If-Match": `"other"`}, "").want(412)
	ts.do("DELETE", "/dbs/shop", nil, "").want(204)
	ts.do("DELETE", "/dbs/shop", nil, "").want(404)
}

func TestBodiesOfResourcesAreValidated(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	for _, body := range []string{``, `[]`, `{`, `{"id":"a"`, `{"id":"a"} x`, `{"id":"a","id":"b"}`, `{"id":7}`, `{}`, `{"id":""}`, `{"id":"a/b"}`} {
		ts.do("POST", "/dbs", nil, body).want(400)
	}
	for _, body := range []string{
		`{"id":"c"}`, `{"id":"c","partitionKey":{}}`, `{"id":"c","partitionKey":{"paths":["pk"]}}`,
		`{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Range"}}`, `{"id":"c","partitionKey":{"paths":["/pk"],"version":3}}`,
		`{"id":"c","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":1}}`,
		`{"id":"c","partitionKey":{"paths":["/a","/b","/c","/d"],"kind":"MultiHash","version":2}}`,
		`{"id":"c","partitionKey":{"paths":["/a","/b"],"kind":"Hash","version":2}}`, `{"id":"c","partitionKey":{"paths":["/a","/b","/c"],"kind":"Hash","version":1}}`,
		`{"id":"c","partitionKey":{"paths":["/a","/b"]}}`,
		`{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":0}`, `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":"x"}`,
		`{"id":"c","partitionKey":{"paths":["/pk"]},"changeFeedPolicy":{"retentionDuration":1.5}}`,
		`{"id":"c","partitionKey":{"paths":["/pk"]},"changeFeedPolicy":{"retentionDuration":-1}}`,
		`{"id":"c","partitionKey":{"paths":["/pk"]},"changeFeedPolicy":{"retentionDuration":307445735}}`, // as a time.Duration this would overflow to 26 seconds
		`{"id":"c","partitionKey":{"paths":["/pk"]},"changeFeedPolicy":7}`,
	} {
		ts.do("POST", "/dbs/shop/colls", nil, body).want(400)
	}
	// The error must be the server's own. The store's error allows 0 for "off", which is
	// not valid in the protocol.
	for _, ttl := range []string{"0", "-2", "2147483648", `"5"`, "1.5"} {
		ts.do("POST", "/dbs/shop/colls", nil, `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":`+ttl+`}`).want(400).wantBody("a number of seconds from 1 to 2147483647, or -1")
	}
	ts.do("POST", "/dbs", nil, `{"id":"x","y":"`+strings.Repeat("y", maxMetadataBody)+`"}`).want(413)
}

func TestContainersShowKindAndVersionOfTheirKey(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	for sent, want := range map[string]string{
		`{"paths":["/a"]}`:                                     `{"paths":["/a"],"kind":"Hash"}`,
		`{"paths":["/a"],"version":2}`:                         `{"paths":["/a"],"version":2,"kind":"Hash"}`,
		`{"kind":"Hash","paths":["/a"]}`:                       `{"kind":"Hash","paths":["/a"]}`,
		`{"paths":["/a"],"version":1}`:                         `{"paths":["/a"],"version":1,"kind":"Hash"}`,
		`{"paths":["/t","/u"],"version":2,"kind":"MultiHash"}`: `{"paths":["/t","/u"],"version":2,"kind":"MultiHash"}`,
		`{"paths":["/t","/u"],"kind":"MultiHash"}`:             `{"paths":["/t","/u"],"kind":"MultiHash","version":2}`,
		// Java's SDK sends the name of its constant, "V1" or "V2", as the version.
		`{"paths":["/t","/u"],"version":"V2","kind":"MultiHash"}`: `{"paths":["/t","/u"],"version":2,"kind":"MultiHash"}`,
		`{"paths":["/a"],"version":"V1"}`:                         `{"paths":["/a"],"version":1,"kind":"Hash"}`,
		`{"paths":["/\"quoted name\"/x"],"kind":"Hash"}`:          `{"paths":["/\"quoted name\"/x"],"kind":"Hash"}`,
		`{"paths":["/_partitionKey"],"systemKey":true,"kind":""}`: `{"paths":["/_partitionKey"],"systemKey":true,"kind":""}`,
		`{"version":null,"paths":["/a"]}`:                         `{"paths":["/a"],"kind":"Hash"}`,
	} {
		ts.do("POST", "/dbs/shop/colls", nil, `{"id":"c","partitionKey":`+sent+`}`).want(201).wantBody(`"partitionKey":` + want + `,`)
		ts.do("GET", "/dbs/shop/colls/c", nil, "").want(200).wantBody(`"partitionKey":` + want + `,`)
		ts.must("DELETE", "/dbs/shop/colls/c", nil, "")
	}
}

func TestAContainersPropertiesAreReturnedAsSent(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	const policy = `"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}`
	const settings = `"indexingPolicy":{"indexingMode":"none","automatic":false,"excludedPaths":[{"path":"/<*>"}]},` +
		`"computedProperties":[{"name":"n","query":"SELECT VALUE 1 FROM c"}],` +
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[]},"fullTextPolicy":{"defaultLanguage":"en-US"},"analyticalStorageTtl":-1,` +
		`"conflictResolutionPolicy":{"mode":"Custom"},"geospatialConfig":{"type":"Geometry"},"materializedViewDefinition":12345678901234567890.10,` +
		`"defaultTtl":60,"changeFeedPolicy":{"retentionDuration":10}`
	check := func(a response) {
		t.Helper()
		var want, got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(`{`+settings+`}`), &want); err != nil {
			t.Fatal(err)
		}
		a.decode(&got)
		for name, value := range want {
			if string(got[name]) != string(value) {
				t.Errorf("%s is %s, was %s", name, got[name], value)
			}
		}
	}
	check(ts.do("POST", "/dbs/shop/colls", nil, `{"id":"c","partitionKey":{"paths":["/pk"]},"_rid":"mine","defaultValues":{"/x":1},`+policy+`,`+settings+`}`).want(201).wantBody(policy))
	read := ts.do("GET", "/dbs/shop/colls/c", nil, "").want(200)
	check(read.wantBody(policy))
	body := read.object()
	if body["defaultValues"] != nil {
		t.Errorf("a member that the service does not know is kept: %s", read.body)
	}
	if body["_rid"] == "mine" || body["_self"] != "dbs/"+read.header.Get(wire.HeaderContentPath)+"/colls/"+body["_rid"].(string)+"/" {
		t.Errorf("%s", read.body)
	}
	check(ts.do("PUT", "/dbs/shop/colls/orders", nil, `{"id":"orders","partitionKey":{"paths":["/pk"]},`+settings+`}`).want(200))
	check(ts.do("GET", "/dbs/shop/colls/orders", nil, "").want(200))
	c, err := ts.db.Container(t.Context(), "shop", "c")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := c.Properties(t.Context()); err != nil || p.DefaultTTL != 60 || p.Retention != 10*time.Minute {
		t.Errorf("the store has %+v (%v)", p, err)
	}
}

func TestContainersHaveDefaultPolicies(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	a := ts.do("GET", orders, headers{"x-ms-documentdb-populatequotainfo": "true"}, "").want(200).
		wantBody(`"indexingPolicy":` + defaultIndexing).wantBody(`"conflictResolutionPolicy":` + defaultConflicts).
		wantBody(`"defaultTtl":-1`).wantBody(`"_docs":"docs/"`).wantBody(`"_conflicts":"conflicts/"`)
	if body := a.object(); body["changeFeedPolicy"] != nil {
		t.Errorf("%s", a.body)
	}
}

func TestRetentionAsAnObjectIsAcceptedAndShownAsANumber(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.do("POST", "/dbs/shop/colls", nil, `{"id":"c","partitionKey":{"paths":["/pk"]},"changeFeedPolicy":{"retentionDuration":{"retentionInMinutes":10}}}`).
		want(201).wantBody(`"changeFeedPolicy":{"retentionDuration":10}`)
}

func TestContainersMadeAndChangedWithoutTheServerAreShown(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ctx := t.Context()
	_, err := ts.db.CreateContainer(ctx, "shop", storetype.ContainerProperties{ID: "own", KeyPaths: []string{"/a", "/b"}, Retention: time.Hour, Throughput: 500})
	if err != nil {
		t.Fatal(err)
	}
	ts.do("GET", "/dbs/shop/colls/own", nil, "").want(200).
		wantBody(`"partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}`).wantBody(`"changeFeedPolicy":{"retentionDuration":60}`)
	c, err := ts.db.Container(ctx, "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Properties(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.DefaultTTL, p.Retention = 0, time.Minute
	if _, err := ts.db.ReplaceContainer(ctx, "shop", p); err != nil {
		t.Fatal(err)
	}
	body := ts.do("GET", orders, nil, "").want(200).wantBody(`"changeFeedPolicy":{"retentionDuration":1}`).object()
	if body["defaultTtl"] != nil {
		t.Errorf("%v", body)
	}
}

func TestAContainersNameAndKeyCantBeReplaced(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	etag := ts.must("GET", orders, nil, "").header.Get("Etag")
	for _, body := range []string{
		`{"id":"other","partitionKey":{"paths":["/pk"]}}`, `{"partitionKey":{"paths":["/pk"]}}`, `{"id":"orders","partitionKey":{"paths":["/other"]}}`,
		`{"id":"orders","partitionKey":{"paths":["/pk"],"version":1}}`, `{"id":"orders","partitionKey":{"paths":["/pk"],"kind":"MultiHash"}}`,
	} {
		ts.do("PUT", orders, nil, body).want(400)
	}
	ts.do("GET", orders, nil, "").wantHeader("Etag", etag)
	body := ts.do("PUT", orders, headers{"If-Match": etag}, `{"id":"orders","partitionKey":{"paths":["/pk"],"kind":"Hash"}}`).want(200).object()
	if body["defaultTtl"] != nil || body["_etag"] == etag {
		t.Errorf("%v", body)
	}
	ts.do("PUT", orders, headers{"If-Match": etag}, `{"id":"orders","partitionKey":{"paths":["/pk"]}}`).want(412)
	ts.do("PUT", "/dbs/shop/colls/none", nil, `{"id":"none","partitionKey":{"paths":["/pk"]}}`).want(404)
}

func TestListsAreReturnedInPages(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	for _, id := range []string{"a", "b", "c"} {
		ts.must("POST", "/dbs/shop/colls", nil, `{"id":"`+id+`","partitionKey":{"paths":["/pk"]}}`)
	}
	ts.do("GET", "/dbs", headers{"x-ms-max-item-count": "-1"}, "").want(200).wantBody(`{"_rid":"","Databases":[{"id":"shop"`).wantBody(`"_count":1`)
	var ids []string
	h := headers{"x-ms-max-item-count": "3"}
	for {
		var page struct{ DocumentCollections []struct{ ID string } }
		a := ts.do("GET", "/dbs/shop/colls", h, "").want(200).decode(&page)
		for _, c := range page.DocumentCollections {
			ids = append(ids, c.ID)
		}
		if a.header.Get(wire.HeaderContinuation) == "" {
			break
		}
		h = h.with(wire.HeaderContinuation, a.header.Get(wire.HeaderContinuation))
	}
	if strings.Join(ids, " ") != "a b c orders" {
		t.Errorf("listed %v", ids)
	}
	ts.do("GET", "/dbs/shop/colls", headers{"x-ms-continuation": "%"}, "").want(400)
}

func TestContainersAreAddressedByRID(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	self, _ := ts.must("GET", orders, nil, "").object()["_self"].(string)
	ts.do("GET", "/"+self, nil, "").want(200).wantBody(`"id":"orders"`)
	ts.do("POST", "/"+self+"docs/", pk(`["p"]`), `{"id":"1","pk":"p"}`).want(201)
	ts.must("POST", "/dbs", nil, `{"id":"other"}`)
	other, _ := ts.must("GET", "/dbs/other", nil, "").object()["_self"].(string)
	ts.do("GET", "/"+other+strings.TrimPrefix(self[strings.Index(self, "colls"):], "/"), nil, "").want(404)
	ts.do("DELETE", "/"+self, nil, "").want(204)
	ts.do("GET", orders, nil, "").want(404)
}

func partitionsOf(ts *testServer, id string) int {
	ts.t.Helper()
	c, err := ts.db.Container(ts.t.Context(), "shop", id)
	parts, listErr := c.Partitions(ts.t.Context())
	if err := errors.Join(err, listErr); err != nil {
		ts.t.Fatal(err)
	}
	return len(parts)
}

func TestThroughputDeterminesTheNumberOfPartitions(t *testing.T) {
	for _, c := range []struct {
		h     headers
		least int
		want  int
	}{
		{nil, 0, 1},
		{headers{"x-ms-offer-throughput": "10000"}, 0, 1},
		{headers{"x-ms-offer-throughput": "10100"}, 0, 2},
		{headers{"x-ms-offer-throughput": "20000"}, 4, 4},
		{headers{"x-ms-offer-throughput": "50000"}, 4, 5},
		{headers{"x-ms-cosmos-offer-autopilot-settings": `{"maxThroughput":21000}`}, 0, 3},
	} {
		ts := newTestServer(t, Options{Partitions: c.least})
		ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
		ts.must("POST", "/dbs/shop/colls", c.h, `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
		if got := partitionsOf(ts, "c"); got != c.want {
			t.Errorf("%v, at least %d: %d partitions, want %d", c.h, c.least, got, c.want)
		}
	}
}
