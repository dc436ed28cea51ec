package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/storetype"
)

// Without a version, the partition key of a container has version 1, as in the service.
// Then keys that agree in their first 101 bytes are one logical partition.
func TestKeysThatVersion1CannotTellApartAreOneLogicalPartition(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
	for i, version := range []string{"", `,"version":1`} {
		if i > 0 {
			ts.must("DELETE", orders, nil, "")
		}
		ts.must("POST", "/dbs/shop/colls", headers{"x-ms-offer-throughput": "40000"},
			`{"id":"orders","partitionKey":{"paths":["/pk"],"kind":"Hash"`+version+`},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}`)
		testOneLogicalPartition(ts)
	}
}

func testOneLogicalPartition(ts *testServer) {
	ts.t.Helper()
	long := strings.Repeat("x", 101)
	header := func(end string) headers { return pk(fmt.Sprintf("[%q]", long+end)) }
	doc := func(id, end, u string) string { return fmt.Sprintf(`{"id":%q,"pk":%q,"u":%q}`, id, long+end, u) }
	docs := orders + "/docs"
	a, b := header("a"), header("b")
	ts.must("POST", docs, a, doc("1", "a", "x"))
	ts.do("POST", docs, b, doc("1", "b", "y")).want(409)
	ts.do("POST", docs, nil, doc("1", "b", "y")).want(409) // the key is taken from the body
	ts.do("POST", docs, b, doc("2", "b", "x")).want(409).wantText("already exists in the system")
	near := long[:99] + "b"
	ts.do("POST", docs, pk(`["`+near+`"]`), `{"id":"1","pk":"`+near+`","u":"x"}`).want(201)
	ts.do("GET", docs+"/1", pk(`["`+long[:99]+`"]`), "").want(404)

	ts.do("GET", docs+"/1", b, "").want(200).wantBody(long + "a")
	ts.do("PATCH", docs+"/1", b, `{"operations":[{"op":"add","path":"/v","value":1}]}`).want(200).wantBody(long + "a")
	ts.batch(transaction.with("x-ms-documentdb-partitionkey", a["x-ms-documentdb-partitionkey"]),
		`[{"operationType":"Read","id":"1"},{"operationType":"Create","partitionKey":"[\"`+long+`b\"]","resourceBody":`+doc("2", "b", "y")+`},
		{"operationType":"Upsert","resourceBody":`+doc("3", "a", "z")+`}]`, 200, "200 201 201")
	ts.do("POST", docs, a.with("x-ms-documentdb-is-upsert", "true"), doc("1", "b", "x")).want(200)
	ts.do("GET", docs+"/1", a, "").want(200).wantBody(long + "b")

	for _, h := range []headers{a, b} {
		if rows := ts.ask(h, "SELECT VALUE c.id FROM c ORDER BY c.id").rows(); !slices.Equal(rows, []string{`"1"`, `"2"`, `"3"`}) {
			ts.t.Errorf("a query with a key returns %v", rows)
		}
		if page := ts.read(h, latest()).page(); len(page) != 3 {
			ts.t.Errorf("the feed of a key has %v", page)
		}
	}
	// A condition compares whole values, in one key as well as in all.
	for _, h := range []headers{nil, a, b} {
		for text, want := range map[string]string{
			"SELECT VALUE c.id FROM c WHERE c.pk = @a":                    `"3"`,
			"SELECT VALUE c.id FROM c WHERE c.pk = @a AND c.id = '3'":     `"3"`,
			"SELECT VALUE COUNT(1) FROM c WHERE c.pk = @a":                "1",
			"SELECT VALUE COUNT(1) FROM c WHERE c.pk = @a AND c.id = '1'": "0",
		} {
			if rows := ts.ask(h, text, "@a", long+"a", "@b", long+"b").rows(); !slices.Equal(rows, []string{want}) {
				ts.t.Errorf("%s: %v, want %s", text, rows, want)
			}
		}
	}
	if rows := ts.ask(a, "SELECT VALUE COUNT(1) FROM c WHERE c.pk IN (@a, @b)", "@a", long+"a", "@b", long+"b").rows(); !slices.Equal(rows, []string{"3"}) {
		ts.t.Errorf("both keys: %v", rows)
	}
	ts.do("DELETE", docs+"/3", b, "").want(204)
	ts.do("GET", docs+"/3", a, "").want(404)
}

// The embedded store's own default stays version 2, which hashes whole strings.
func TestTheStoreDistinguishesKeysByDefault(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.made(storetype.ContainerProperties{ID: "orders"})
	long := strings.Repeat("x", 101)
	for _, key := range []string{long + "a", long + "b"} {
		ts.do("POST", orders+"/docs", pk(`["`+key+`"]`), `{"id":"1","pk":"`+key+`"}`).want(201)
	}
	ts.do("GET", orders, nil, "").want(200).wantBody(`"version":2`)
}
