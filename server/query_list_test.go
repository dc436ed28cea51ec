package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// askList runs a query over the list at path. It returns the rows, which are in the
// answer's member of that name, and the answer.
func (ts *testServer) askList(path, member string, h headers, text string, params ...any) ([]string, response) {
	ts.t.Helper()
	all := headers{"Content-Type": wire.ContentTypeQuery}
	maps.Copy(all, h)
	a := ts.do("POST", path, all, queryBody(ts.t, text, params...)).want(200)
	var body map[string]json.RawMessage
	var rows []json.RawMessage
	a.decode(&body)
	if err := json.Unmarshal(body[member], &rows); err != nil {
		ts.t.Fatalf("%s: %v: %s", path, err, a.body)
	}
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = string(row)
	}
	if a.header.Get("x-ms-item-count") != fmt.Sprint(len(rows)) || string(body["_count"]) != fmt.Sprint(len(rows)) {
		ts.t.Errorf("%s: counts: %s %v", path, a.body, a.header)
	}
	return texts, a
}

// Each row is the query by which one SDK (JavaScript, Go, .NET, Python or Java) finds the
// throughput of a container. It must return the container's offer.
func TestTheThroughputOfAContainerIsFoundByTheQueryOfEachSDK(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
	for _, id := range []string{"orders", "others"} {
		ts.must("POST", "/dbs/shop/colls", headers{"x-ms-offer-throughput": "500"}, `{"id":"`+id+`","partitionKey":{"paths":["/pk"],"kind":"Hash"}}`)
	}
	c := ts.must("GET", orders, nil, "").object()
	rid, self := c["_rid"].(string), c["_self"].(string)
	for _, tc := range []struct {
		text   string
		params []any
	}{
		{`SELECT * from root where root.resource = "` + self + `"`, nil},
		{`SELECT * FROM c WHERE c.offerResourceId = '` + rid + `'`, nil},
		{`select * from root r where r.offerResourceId= @targetRID`, []any{"@targetRID", rid}},
		{`SELECT * FROM root r WHERE r.resource=@link`, []any{"@link", self}},
		{`select * from c where c.offerResourceId = @resourceId`, []any{"@resourceId", rid}},
	} {
		rows, _ := ts.askList("/offers", "Offers", nil, tc.text, tc.params...)
		if len(rows) != 1 {
			t.Errorf("%s: %v", tc.text, rows)
			continue
		}
		var offer struct {
			OfferResourceID string `json:"offerResourceId"`
			Content         struct {
				OfferThroughput int `json:"offerThroughput"`
			} `json:"content"`
		}
		if err := json.Unmarshal([]byte(rows[0]), &offer); err != nil || offer.OfferResourceID != rid || offer.Content.OfferThroughput != 500 {
			t.Errorf("%s: %s, %v", tc.text, rows[0], err)
		}
	}
	if rows, _ := ts.askList("/offers", "Offers", nil, `SELECT * FROM c WHERE c.offerResourceId = 'none'`); len(rows) != 0 {
		t.Errorf("the offer of nothing: %v", rows)
	}
}

func TestDatabasesAndContainersCanBeQueried(t *testing.T) {
	ts := newTestServer(t, Options{})
	for i := range 5 {
		ts.must("POST", "/dbs", nil, fmt.Sprintf(`{"id":"db%d"}`, i))
		ts.must("POST", "/dbs/db0/colls", nil, fmt.Sprintf(`{"id":"c%d","partitionKey":{"paths":["/pk"],"kind":"Hash"},"defaultTtl":%d}`, i, 100-i/2))
	}
	rows, _ := ts.askList("/dbs", "Databases", nil, "SELECT VALUE d.id FROM root d WHERE d.id > @x", "@x", "db2")
	if !slices.Equal(rows, []string{`"db3"`, `"db4"`}) {
		t.Errorf("databases: %v", rows)
	}
	var all []string
	h := headers{"x-ms-max-item-count": "2"}
	for {
		rows, a := ts.askList("/dbs/db0/colls", "DocumentCollections", h, "SELECT VALUE c.id FROM c ORDER BY c.defaultTtl DESC")
		all = append(all, rows...)
		if a.header.Get("x-ms-continuation") == "" {
			break
		}
		h["x-ms-continuation"] = a.header.Get("x-ms-continuation")
	}
	if !slices.Equal(all, []string{`"c0"`, `"c1"`, `"c2"`, `"c3"`, `"c4"`}) {
		t.Errorf("containers: %v", all)
	}
	for text, want := range map[string][]string{
		"SELECT VALUE COUNT(1) FROM c":                   {"5"},
		"SELECT VALUE c.id FROM c OFFSET 1 LIMIT 2":      {`"c1"`, `"c2"`},
		"SELECT TOP 1 VALUE c.id FROM c":                 {`"c0"`},
		"SELECT VALUE c.id FROM c OFFSET 9 LIMIT 2":      {},
		"SELECT DISTINCT VALUE c.id > 'c1' FROM c":       {"false", "true"},
		"SELECT COUNT(1) AS n, MAX(c.id) AS last FROM c": {`{"n":5,"last":"c4"}`},
		"SELECT VALUE c.id FROM c WHERE c.id = 'c3'":     {`"c3"`},
	} {
		if got, _ := ts.askList("/dbs/db0/colls", "DocumentCollections", nil, text); !slices.Equal(got, want) {
			t.Errorf("%s: %v", text, got)
		}
	}
	ts.do("POST", "/dbs/none/colls", queryHeaders(), `{"query":"SELECT * FROM c"}`).want(404, wire.SubNone)
	ts.do("POST", "/dbs", queryHeaders(), `{"query":"SELECT * FORM c"}`).want(400)
}

// A list has no partitions. A query of a list with a header that selects a partition must
// be refused with an error that names the header.
func TestUnsupportedQueriesOfListsAreRefusedByName(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	for _, path := range []string{"/dbs", "/dbs/shop/colls", "/offers"} {
		for text, what := range map[string]string{
			"SELECT DISTINCT COUNT(1) FROM c":    "DISTINCT",
			"SELECT VALUE MAKELIST(c.id) FROM c": "MAKELIST",
			"SELECT udf.f(c.id) FROM c":          "udf.f",
		} {
			a := ts.do("POST", path, queryHeaders(), queryBody(t, text)).want(400).wantBody(what).wantBody("supported")
			if strings.Contains(string(a.body), "cross partition") {
				t.Errorf("%s of %s: %s", text, path, a.body)
			}
		}
	}
}

// A client with a read-only key may list and query resources and request plans. Creating
// a resource must be refused.
func TestAReadOnlyKeyMayQueryAndPlan(t *testing.T) {
	ts := newTestServer(t, Options{ReadOnlyKeys: []string{"cmVhZGVyLXJlYWRlci1yZWFkZXI="}})
	ts.withItems(1, 3, 1)
	key, err := wire.ParseKey("cmVhZGVyLXJlYWRlci1yZWFkZXI=")
	if err != nil {
		t.Fatal(err)
	}
	ts.key = key
	ts.ask(nil, "SELECT * FROM c").want(200)
	ts.ask(headers{"x-ms-cosmos-is-query-plan-request": "True"}, "SELECT * FROM c").want(200)
	ts.askList("/dbs", "Databases", nil, "SELECT * FROM c")
	ts.read().want(200)
	ts.do("GET", ordersRanges, nil, "").want(200)
	ts.do("POST", orders+"/docs", pk(`["k0"]`), `{"id":"new","pk":"k0"}`).want(403)
}

// A query of a list whose JOINs generate very many rows must be refused before it uses
// much memory.
func TestQueriesOfAListHaveLimitedMemory(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
	const twenty = "(SELECT VALUE [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20])"
	for _, text := range []string{
		"SELECT VALUE REPLICATE('x', 10000) FROM a IN " + twenty + " JOIN b IN " + twenty + " JOIN d IN " + twenty,
		"SELECT DISTINCT VALUE REPLICATE('x', 9000) || TOSTRING(a * 400 + b * 20 + d) FROM a IN " + twenty + " JOIN b IN " + twenty + " JOIN d IN " + twenty,
	} {
		ts.do("POST", "/dbs", queryHeaders(), queryBody(t, text)).want(400).wantBody("take more than 33554432 bytes")
	}
	rows, _ := ts.askList("/dbs", "Databases", nil, "SELECT VALUE a FROM a IN "+twenty)
	if len(rows) != 20 {
		t.Error(rows)
	}
}
