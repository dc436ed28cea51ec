package server

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/storetype"
)

// lookedAt returns the number of documents that the server read for a query, from the
// metrics in the answer.
func (a response) lookedAt() int {
	a.t.Helper()
	_, rest, _ := strings.Cut(a.want(200).header.Get("x-ms-documentdb-query-metrics"), "retrievedDocumentCount=")
	text, _, _ := strings.Cut(rest, ";")
	n, err := strconv.Atoi(text)
	if err != nil {
		a.t.Fatalf("%s: no count of documents in the metrics", a.what)
	}
	return n
}

func (a response) charge() float64 {
	a.t.Helper()
	ru, err := strconv.ParseFloat(a.header.Get("x-ms-request-charge"), 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return ru
}

var withMetrics = headers{"x-ms-documentdb-populatequerymetrics": "True", "x-ms-max-item-count": "-1"}

// total asks for all pages of a query. It returns the number of rows, the number of
// documents that the server has read, and the charge.
func (ts *testServer) total(text string, params ...any) (rows, looked int, charge float64) {
	ts.t.Helper()
	h := maps.Clone(withMetrics)
	for more := true; more; more = h["x-ms-continuation"] != "" {
		a := ts.ask(h, text, params...)
		rows, looked, charge = rows+len(a.rows()), looked+a.lookedAt(), charge+a.charge()
		h["x-ms-continuation"] = a.header.Get("x-ms-continuation")
	}
	return rows, looked, charge
}

// If a WHERE clause names partition keys or IDs, the server must read only the documents
// with these keys and IDs. Each row has a condition, the number of matching documents,
// and the number of documents read.
func TestQueriesReadOnlyTheDocumentsOfTheirKeysAndIDs(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 3})
	for i := range 200 {
		put(t, c, `{"id":"%03d","pk":"k%d","v":%d,"x":%q}`, i, i%10, i, strings.Repeat("x", 4000))
	}
	_, all, scan := ts.total("SELECT VALUE c.v FROM c WHERE c.v + 0 = 17")
	for _, test := range []struct {
		where        string
		rows, looked int
	}{
		{"c.pk = 'k3'", 20, 20},
		{"c.pk = @k AND c.id = @id", 1, 1},
		{"c.pk = @k AND c.id = 'none'", 0, 0},
		{"c.pk IN ('k1', 'k2', 'none')", 40, 40},
		{"c.pk IN ('k1', 'k2') AND c.v < 100", 20, 40},
		{"c.pk = 'k3' AND c.id >= '100'", 10, 10},
		{"c.pk = 'k3' AND c.id > '003' AND c.id < '043'", 3, 3},
		{"c.pk = 'k3' AND c.id BETWEEN '003' AND '043'", 5, 5},
		{"c.pk = 'k3' AND STARTSWITH(c.id, '00')", 1, 1},
		{"c.pk = 'k3' AND c.id IN ('003', '013', '014')", 2, 2},
		{"(c.id = '001' AND c.pk = 'k1') OR (c.id = '002' AND c.pk = 'k2') OR (c.id = '001' AND c.pk = 'k3')", 2, 2},
		// These conditions name IDs without a key. The server finds the documents by the
		// index of IDs.
		{"c.id = '017'", 1, 1},
		{"c.id IN ('017', '018', 'x')", 2, 2},
		{"c.id >= '190'", 10, 10},
		{"STARTSWITH(c.id, '01') AND c.v > 15", 4, 10},
		{"c.pk = 'k3' OR c.id = '004'", 21, 21},
		// These conditions are never true, so no document is read.
		{"c.pk = 'k1' AND c.pk = 'k2'", 0, 0},
		{"c.id = 17 OR false", 0, 0},
		{"c.pk = '" + strings.Repeat("long", 600) + "'", 0, 0},
		// These conditions do not limit the keys or the IDs, so all documents are read.
		{"c.pk = 'k3' OR c.v = 4", 21, 200},
		{"c.pk != 'k3'", 180, 200},
		{"NOT (c.id = '017')", 199, 200},
		{"STARTSWITH(c.id, '01', true)", 10, 200},
	} {
		rows, looked, charge := ts.total("SELECT VALUE c.v FROM c WHERE "+test.where, "@k", "k7", "@id", "017")
		if rows != test.rows || looked != test.looked {
			t.Errorf("%.100s: %d rows of %d documents, want %d of %d", test.where, rows, looked, test.rows, test.looked)
		}
		if test.looked < 100 && charge > scan/2 {
			t.Errorf("%.100s costs %v RU, and a scan %v", test.where, charge, scan)
		}
	}
	if all != 200 {
		t.Errorf("a scan looks at %d documents", all)
	}
}

// A WHERE clause that names every component of a hierarchical key must limit the
// documents that are read. If the header has a key, too, both apply.
func TestCompleteHierarchicalKeysNarrowQueries(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/tenant", "/user/id"}})
	for i := range 60 {
		put(t, c, `{"id":"%02d","tenant":"t%d","user":{"id":%d},"v":%d}`, i, i%3, i%4, i)
	}
	for _, test := range []struct {
		header, where string
		rows, looked  int
	}{
		{"", "c.tenant = 't1' AND c.user.id = 2", 5, 5},
		{"", "c.tenant IN ('t1', 't2') AND c.user.id IN (0, 1)", 20, 20},
		{"", "c.tenant = 't1'", 20, 60},
		{`["t1"]`, "c.tenant = 't2' AND c.user.id = 1", 0, 0},
		{`["t1"]`, "c.tenant = 't1' AND c.user.id = 1", 5, 5},
		{`["t1",1]`, "c.id >= '30'", 2, 2},
		{`["t1"]`, "c.user.id = 1", 5, 20},
	} {
		h := headers{}
		if test.header != "" {
			h = pk(test.header)
		}
		a := ts.ask(together(withMetrics, h), "SELECT * FROM c WHERE "+test.where)
		if rows := a.rows(); len(rows) != test.rows || a.lookedAt() != test.looked {
			t.Errorf("%s %s: %d rows of %d documents, want %d of %d", test.header, test.where, len(rows), a.lookedAt(), test.rows, test.looked)
		}
	}
}

// A COUNT whose WHERE clause contains only keys and IDs must read no document. With a
// condition on another member, it must read the documents.
func TestCountsReadNoDocument(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for i := range 50 {
		put(t, c, `{"id":"%03d","pk":"k%d","v":%d,"x":%q}`, i, i%5, i, strings.Repeat("x", 4000))
	}
	for _, test := range []struct {
		query, want string
		looked      int
	}{
		{"SELECT VALUE COUNT(1) FROM c", "50", 0},
		{"SELECT VALUE COUNT(c) FROM c", "50", 0},
		{"SELECT COUNT(1) AS n, COUNT('x') AS m FROM root r", `{"n":50,"m":50}`, 0},
		{"SELECT VALUE COUNT(undefined) FROM c", "0", 0},
		{"SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1'", "10", 0},
		{"SELECT VALUE COUNT(1) FROM c WHERE c.id >= '020' AND c.pk IN ('k1', 'k2')", "12", 0},
		{"SELECT VALUE COUNT(1) FROM c WHERE STARTSWITH(c.id, '01')", "10", 0},
		{"SELECT VALUE COUNT(1) FROM c WHERE true", "50", 0},
		{"SELECT VALUE COUNT(1) FROM c WHERE false", "0", 0},
		{"SELECT VALUE COUNT(1) FROM c WHERE c.v < 7", "7", 50},
		{"SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1' AND c.v < 7", "2", 10},
		{"SELECT VALUE COUNT(c.v) FROM c", "50", 50},
		{"SELECT VALUE COUNT(c.none) FROM c", "0", 50},
	} {
		a := ts.ask(together(withMetrics, inRange("0")), test.query)
		if rows := a.rows(); len(rows) != 1 || rows[0] != test.want || a.lookedAt() != test.looked {
			t.Errorf("%s: %v of %d documents, want %s of %d", test.query, rows, a.lookedAt(), test.want, test.looked)
		}
	}
}

// A query by keys and IDs and an equivalent query that scans all documents are read in
// pages, and partitions are split in between. Both must return the same rows in the same
// order.
func TestPagesByKeysAndIDsEqualThoseOfAScan(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withItems(1, 120, 7)
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // the test must be repeatable
		var terms []string
		for range 1 + r.IntN(12) {
			terms = append(terms, []string{
				fmt.Sprintf("(c.id = '%03d' AND c.pk = 'k%d')", r.IntN(130), r.IntN(8)), fmt.Sprintf("(c.pk = 'k%d' AND c.id > '%03d')", r.IntN(8), r.IntN(130)),
				fmt.Sprintf("(c.pk IN ('k%d', 'k%d') AND STARTSWITH(c.id, '0%d'))", r.IntN(8), r.IntN(8), r.IntN(10)),
			}[r.IntN(3)])
		}
		where := strings.Join(terms, " OR ")
		size := headers{"x-ms-max-item-count": strconv.Itoa(1 + r.IntN(9))}
		between := func(page int) {
			if page == 2 && seed%4 == 0 {
				live, err := c.Partitions(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Split(t.Context(), live[0].ID, ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, _ := ts.askAll(size, between, "SELECT VALUE c.v FROM c WHERE "+where)
		// The server does not analyse conditional expressions, so this equivalent query
		// scans all documents.
		want, _ := ts.askAll(size, nil, "SELECT VALUE c.v FROM c WHERE ("+where+") ? true : false")
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", where, got, want)
		}
	}
}

// The store appends the member _lsn to each document. Queries must not see it: neither
// the text of a row nor a condition may contain it.
func TestConditionsDoNotSeeTheStoresOwnMember(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for i := range 20 {
		put(t, c, `{"id":"%03d","pk":"k","v":%d,"list":[{"_lsn":1}]}`, i, i)
	}
	for _, test := range []struct {
		where string
		rows  int
	}{
		{"IS_DEFINED(c._lsn)", 0},
		{"NOT IS_DEFINED(c['_lsn'])", 20},
		{"c['_lsn'] > 0", 0},
		{"NOT CONTAINS(ToString(c), ',\"_lsn\":')", 20},
		{"c._lsn = 1 OR c.v = 3", 1},
		{"CONTAINS(ToString(c), '_lsn') AND c.v >= 0", 20}, // the 20 documents with _lsn in their list
		{"CONTAINS(ToString(c), ',\"_lsn\":')", 0},
		{"ARRAY_LENGTH(c.list) = 1 AND c.list[0]._lsn = 1", 20},
		{"EXISTS(SELECT VALUE x FROM x IN c.list WHERE x._lsn = 1)", 20},
		{"EXISTS(SELECT VALUE 1 WHERE IS_DEFINED(c._lsn))", 0},
	} {
		if rows := ts.ask(withMetrics, "SELECT VALUE c.id FROM c WHERE "+test.where).rows(); len(rows) != test.rows {
			t.Errorf("%s: %d rows, want %d", test.where, len(rows), test.rows)
		}
	}
}

// A condition compares RAND() with 0.5. About half of the documents must match, whether
// the server finds them by key, by ID or by a scan. So each condition is evaluated once
// for each document.
func TestHalfOfTheItemsHaveRANDBelowAHalf(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 1})
	const n = 1000
	for i := range n {
		put(t, c, `{"id":"%d","pk":"k"}`, i)
	}
	for _, text := range []string{
		"SELECT VALUE 1 FROM c WHERE RAND() < 0.5",
		"SELECT VALUE 1 FROM c JOIN (SELECT VALUE RAND()) r WHERE r < 0.5",
	} {
		// If the condition were evaluated twice, only a quarter would match. Fewer than
		// 0.4 or more than 0.6 occur by chance once in 10^9 runs.
		rows, _ := ts.askAll(latest(pk(`["k"]`), page(n)), nil, text)
		if len(rows) < n*4/10 || len(rows) > n*6/10 {
			t.Errorf("%s: %d of %d rows", text, len(rows), n)
		}
	}
}
