package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestQueriesOfEveryScope(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withItems(2, 40, 8)
	live, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const text = "SELECT VALUE c.v FROM c WHERE c.v >= @low AND c.odd"
	all := ts.ask(nil, text, "@low", 10).rows()
	if len(all) != 15 {
		t.Errorf("whole container: %v", all)
	}
	a := ts.ask(pk(`["k3"]`), text, "@low", 10)
	if got := a.rows(); !slices.Equal(got, []string{"11", "19", "27", "35"}) {
		t.Errorf("by key: %v", got)
	}
	if a.header.Get("x-ms-session-token") == "" || a.header.Get("x-ms-documentdb-partitionkeyrangeid") == "" {
		t.Errorf("by key: headers %v", a.header)
	}
	var apart []string
	for _, p := range live {
		apart = append(apart, ts.ask(inRange(p.ID), text, "@low", 10).rows()...)
		byRange := ts.ask(headers{"x-ms-start-epk": p.Range.Min, "x-ms-end-epk": p.Range.Max}, text, "@low", 10).rows()
		if !slices.Equal(byRange, ts.ask(inRange(c.Identity().ContainerRID+","+p.ID), text, "@low", 10).rows()) {
			t.Errorf("partition %s and its range of keys differ", p.ID)
		}
	}
	if !slices.Equal(apart, all) {
		t.Errorf("by partition %v, all %v", apart, all)
	}
	ts.ask(inRange("9"), text, "@low", 1).want(410, wire.SubPartitionGone)
	ts.ask(inRange("AAAAAYAAAAk=,0"), text, "@low", 1).want(410, wire.SubNameCacheStale)
}

func TestQueriesAreRecognizedInEveryFormThatSDKsSend(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withItems(1, 3, 1)
	for _, h := range []headers{
		{"Content-Type": "application/query+json", "x-ms-documentdb-partitionkeyrangeid": "0"},
		{"Content-Type": "application/query+json; charset=utf-8", "x-ms-documentdb-query-enablecrosspartition": "True"},
		{"Content-Type": "application/query+json", "x-ms-documentdb-query": "True", "x-ms-documentdb-query-enablecrosspartition": "true"},
		{"x-ms-documentdb-isquery": "True", "x-ms-documentdb-query-enablecrosspartition": "True"},
		{"x-ms-documentdb-query": "True", "x-ms-documentdb-partitionkeyrangeid": "0"},
	} {
		got := ts.do("POST", orders+"/docs", h, `{"query":"SELECT * FROM c"}`).rows()
		if len(got) != 3 {
			t.Errorf("%v: %v", h, got)
		}
	}
	// As in the service, a query that is sent as JSON is taken for a document.
	json := headers{"Content-Type": "application/json", "x-ms-documentdb-isquery": "True", wire.HeaderPartitionKey: ""}
	ts.do("POST", orders+"/docs", json, `{"query":"SELECT * FROM c"}`).want(400, 1001).wantText("fewer components than defined in the the collection.")
}

// SELECT * must return each document's own text, unchanged, but without _lsn, which only
// change feeds show.
func TestRowsAreTheDocumentsOwnBytes(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	r := put(t, c, `{"id":"1","pk":"a","v": 1.50,"x":"é<&>\u00fc"}`)
	if got := ts.ask(nil, "SELECT * FROM c").rows(); len(got) != 1 || got[0] != string(r.Body) {
		t.Errorf("row %v, document %s", got, r.Body)
	}
}

// These are the queries that Java's change feed processor sends to its lease container.
func TestTheQueriesOfJavasLeaseStore(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/id"}, Partitions: 3})
	put(t, c, `{"id":"app..0","Owner":"h","ContinuationToken":"\"7\""}`)
	put(t, c, `{"id":"app..1","Owner":"h","ContinuationToken":null}`)
	put(t, c, `{"id":"app..2","Owner":"h"}`)
	put(t, c, `{"id":"app.info"}`)
	put(t, c, `{"id":"apple..3","ContinuationToken":"\"9\""}`)
	list, _ := ts.askAll(nil, nil, "SELECT * FROM c WHERE STARTSWITH(c.id, @PartitionLeasePrefix)", "@PartitionLeasePrefix", "app..")
	if len(list) != 3 {
		t.Errorf("list: %v", list)
	}
	top, _ := ts.askAll(pk(`["app..0"]`), nil, "SELECT TOP @Top * FROM c WHERE STARTSWITH(c.id, @PartitionLeasePrefix) AND c.ContinuationToken <> null", "@PartitionLeasePrefix", "app..", "@Top", 1)
	if len(top) != 1 || !strings.HasPrefix(top[0], `{"id":"app..0"`) {
		t.Errorf("top: %v", top)
	}
	plan := ts.ask(planRequest(),
		"SELECT TOP @Top * FROM c WHERE STARTSWITH(c.id, @PartitionLeasePrefix) AND c.ContinuationToken <> null", "@PartitionLeasePrefix", "app..", "@Top", 1)
	plan.want(200).wantBody(`"top":1`).wantBody(`"queryRanges":[{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}]`)
}

func TestPagesOfAQueryHaveTheRequestedSizeAndEveryRowOnce(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withItems(3, 230, 7)
	for text, want := range map[string]int{
		"SELECT VALUE c.v FROM c":                            230,
		"SELECT VALUE c.v FROM c WHERE c.odd":                115,
		"SELECT VALUE c.v FROM c WHERE c.v = -1":             0,
		"SELECT VALUE c.v FROM c WHERE STARTSWITH(c.id,'1')": 100,
		"SELECT VALUE c.v FROM c WHERE c.id = '100'":         1,
	} {
		for _, n := range []int{1, 10, 50, 1000} {
			rows, pages := ts.askAll(items(n), nil, text)
			seen := map[string]bool{}
			for _, row := range rows {
				seen[row] = true
			}
			if len(rows) != want || len(seen) != want {
				t.Errorf("%s in pages of %d: %d rows, %d distinct, want %d", text, n, len(rows), len(seen), want)
			}
			// A page never spans two of the three partitions.
			if wantPages := max((want+n-1)/n, 1); pages < wantPages || pages > wantPages+2 {
				t.Errorf("%s in pages of %d: %d pages, want %d", text, n, pages, wantPages)
			}
		}
	}
	one := newTestServer(t, Options{})
	one.withItems(1, 1030, 7)
	for _, size := range []headers{nil, items(0)} {
		if got := len(one.ask(size, "SELECT c.id FROM c").rows()); got != 1000 {
			t.Errorf("the service's own page has 1000 rows, not %d", got)
		}
		if got := one.do("GET", orders+"/docs", size, "").header.Get(wire.HeaderItemCount); got != "1000" {
			t.Errorf("the service's own page has 1000 documents, not %s", got)
		}
	}
	if got := len(one.ask(items(-1), "SELECT c.id FROM c").rows()); got != 1030 {
		t.Errorf("a page of any size has %d rows", got)
	}
	for n, want := range map[int]int{50: 50, 0: 0} {
		for _, size := range []int{1, 10, 1000} {
			text := fmt.Sprintf("SELECT TOP %d VALUE c.v FROM c", n)
			if rows, _ := one.askAll(together(headers{"x-ms-documentdb-partitionkeyrangeid": "0"}, items(size)), nil, text); len(rows) != want {
				t.Errorf("%s in pages of %d: %d rows", text, size, len(rows))
			}
		}
	}
}

func TestOrderOffsetAndCountWithinAKeyOrRange(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for i := range 60 {
		// The documents have six values of n, or none, so that many rows have equal sort
		// keys.
		if i%6 == 5 {
			put(t, c, `{"id":"%03d","pk":"a","n":%d}`, i, i)
		} else {
			put(t, c, `{"id":"%03d","pk":"a","n":%d,"x":%d}`, i, i, (60-i)%5)
		}
		put(t, c, `{"id":"%03d","pk":"b","n":%d,"x":1}`, i, i)
	}
	key := pk(`["a"]`)
	whole := ts.ask(items(-1), "SELECT VALUE [c.x, c.n] FROM c WHERE c.pk = 'a' ORDER BY c.x").rows()
	for _, n := range []int{1, 7, 59, 60, 61} {
		paged, _ := ts.askAll(together(key, items(n)), nil, "SELECT VALUE [c.x, c.n] FROM c ORDER BY c.x")
		if !slices.Equal(paged, whole) {
			t.Errorf("pages of %d: %v, want %v", n, paged, whole)
		}
		desc, _ := ts.askAll(together(key, items(n)), nil, "SELECT VALUE [c.x, c.n] FROM c ORDER BY c.x DESC")
		slices.Reverse(desc)
		if !slices.Equal(desc, whole) {
			t.Errorf("descending, pages of %d: %v", n, desc)
		}
		part, _ := ts.askAll(together(key, items(n)), nil, "SELECT VALUE [c.x, c.n] FROM c ORDER BY c.x OFFSET 13 LIMIT 21")
		if !slices.Equal(part, whole[13:34]) {
			t.Errorf("OFFSET 13 LIMIT 21, pages of %d: %v, want %v", n, part, whole[13:34])
		}
		top, _ := ts.askAll(together(key, items(n)), nil, "SELECT TOP 9 VALUE [c.x, c.n] FROM c ORDER BY c.x")
		if !slices.Equal(top, whole[:9]) {
			t.Errorf("TOP 9, pages of %d: %v", n, top)
		}
		plain, _ := ts.askAll(together(key, items(n)), nil, "SELECT VALUE c.n FROM c OFFSET 50 LIMIT 20")
		if len(plain) != 10 || plain[0] != "50" {
			t.Errorf("OFFSET 50 LIMIT 20, pages of %d: %v", n, plain)
		}
		for _, past := range []string{"SELECT * FROM c OFFSET 60 LIMIT 1", "SELECT * FROM c ORDER BY c.x OFFSET 60 LIMIT 1", "SELECT * FROM c ORDER BY c.x OFFSET 0 LIMIT 0"} {
			if rows, pages := ts.askAll(together(key, items(n)), nil, past); len(rows) != 0 || pages != 1 {
				t.Errorf("%s: %v in %d pages", past, rows, pages)
			}
		}
	}
	for _, h := range []headers{key, inRange("0"), {"x-ms-start-epk": "", "x-ms-end-epk": "FF"}} {
		want := "120"
		if h[wire.HeaderPartitionKey] != "" {
			want = "60"
		}
		if got := ts.ask(h, "SELECT VALUE COUNT(1) FROM c").rows(); !slices.Equal(got, []string{want}) {
			t.Errorf("COUNT within %v: %v", h, got)
		}
	}
	if got := ts.ask(nil, "SELECT COUNT(1) AS n FROM c WHERE c.pk = 'b' AND c.n < 10").rows(); !slices.Equal(got, []string{`{"n":10}`}) {
		t.Errorf("COUNT of a key in the condition: %v", got)
	}
}

// A query without a partition key must be refused unless a header allows a query over all
// partitions. The service does the same, because a client that forgets the key would read
// and pay for all documents.
func TestQueryOverAllPartitionsNeedsItsHeader(t *testing.T) {
	for _, partitions := range []int{1, 2} {
		ts := newTestServer(t, Options{})
		ts.withItems(partitions, 10, 5)
		for _, h := range []headers{{wire.HeaderCrossPartition: ""}, {wire.HeaderCrossPartition: "false"}} {
			ts.ask(h, "SELECT * FROM c").want(400).wantBody("Cross partition query is required but disabled")
			if got := ts.ask(h, "SELECT VALUE c.id FROM c WHERE c.pk = 'k1'").rows(); len(got) != 2 {
				t.Errorf("a key in the condition: %v", got)
			}
			if got := ts.ask(h.with(wire.HeaderPartitionKey, `["k1"]`), "SELECT VALUE c.id FROM c").rows(); len(got) != 2 {
				t.Errorf("a key in the header: %v", got)
			}
			ts.ask(h.with(wire.HeaderPartitionID, "0"), "SELECT VALUE c.id FROM c").want(200)
		}
	}
}

// A query selects a prefix of a hierarchical key, whose documents may be in several
// partitions. The plan must contain a range. If it were a single point, clients would
// query only one partition.
func TestPlanOfAKeyPrefixIsNotAPoint(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.made(storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/a", "/b", "/c"}, Partitions: 2})
	planned := headers{wire.HeaderQueryPlan: "True", wire.HeaderQueryFeatures: java}
	for key, point := range map[string]bool{`["x"]`: false, `["x","y"]`: false, `["x","y","z"]`: true} {
		for _, text := range []string{"SELECT * FROM c", "SELECT * FROM c ORDER BY c.v", "SELECT * FROM c WHERE c.a = 'x' AND c.b = 'y'"} {
			var plan struct{ QueryRanges []query.Range }
			ts.ask(together(planned, pk(key)), text).want(200).decode(&plan)
			if len(plan.QueryRanges) != 1 || (plan.QueryRanges[0].Min == plan.QueryRanges[0].Max) != point {
				t.Errorf("%s of %s is asked of %+v", text, key, plan.QueryRanges)
			}
		}
	}
}

func TestAPlanOfOneKeyLeavesEverythingToTheServer(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withItems(2, 30, 3)
	planned := headers{"x-ms-cosmos-is-query-plan-request": "True", "x-ms-continuation": `{"of":"the client"}`, "x-ms-max-item-count": "-1"}
	point := `"queryRanges":[{"min":"32E9366E637A71B4E710384B2F4970A0","max":"32E9366E637A71B4E710384B2F4970A0","isMinInclusive":true,"isMaxInclusive":true}]`
	ts.ask(planned, "SELECT * FROM c WHERE c.pk = '' ORDER BY c.v").want(200).wantBody(point).wantBody(`"orderBy":[]`)
	ts.ask(together(planned, pk(`[""]`)), "SELECT VALUE COUNT(1) FROM c").want(200).wantBody(point).wantBody(`"aggregates":[]`)
	ts.ask(together(planned, headers{"Content-Type": "application/json"}), "SELECT c.v FROM c WHERE c.v > @x", "@x", 1).want(200).
		wantBody(`"partitionedQueryExecutionInfoVersion":2`).wantBody(`"rewrittenQuery":""`)
	// No document can have such a long key, but there must be a plan.
	ts.ask(planned, "SELECT * FROM c WHERE c.pk = @k", "@k", strings.Repeat("x", 5000)).want(200).wantBody(`"queryRanges":[{"min":"","max":"",`)
	ts.ask(nil, "SELECT * FROM c WHERE c.pk = @k", "@k", strings.Repeat("x", 5000)).want(200)
}

func TestAnInvalidQueryIsAnsweredInTheServicesWords(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withItems(1, 1, 1)
	for _, h := range []headers{nil, {"x-ms-cosmos-is-query-plan-request": "True"}} {
		ts.ask(h, "SELECT * FORM c").want(400).wantBody("Syntax error, incorrect syntax near 'FORM'.").wantBody("SC1001")
		ts.ask(h, "SELECT TOP @none * FROM c").want(400).wantBody("@none")
		ts.ask(h, "SELECT * FROM c WHERE udf.f(c)").want(400).wantBody("not supported")
		ts.ask(h, "SELECT * FROM c JOIN x IN c.xs").want(400).wantBody("single input set")
		ts.ask(h, "SELECT TOP @n * FROM c", "@n", "many").want(400)
	}
	for _, body := range []string{``, `[]`, `{}`, `{"query":1}`, `{"query":"SELECT * FROM c","parameters":{}}`, `{"query":null}`} {
		ts.do("POST", orders+"/docs", queryHeaders(), body).want(400).wantBody("query")
	}
	ts.do("POST", orders+"/docs", queryHeaders(), `{"query":"`+strings.Repeat(" ", maxQueryBody)+`"}`).want(413)
	ts.do("POST", "/dbs/shop/colls/none/docs", queryHeaders(), `{"query":"SELECT * FROM c"}`).want(404, wire.SubNone)
}

func TestAContinuationOfSomethingElseIsRefused(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withItems(1, 10, 1)
	key := pk(`["k0"]`)
	scan := ts.ask(together(key, items(2)), "SELECT * FROM c").header.Get("x-ms-continuation")
	ordered := ts.ask(together(key, items(2)), "SELECT * FROM c ORDER BY c.v").header.Get("x-ms-continuation")
	if scan == "" || ordered == "" {
		t.Fatal("no continuation")
	}
	refused := func(text, token string) {
		t.Helper()
		ts.ask(together(key, headers{"x-ms-continuation": token}), text).want(400).wantBody("ontinuation")
	}
	refused("SELECT * FROM c ORDER BY c.v", scan)
	refused("SELECT * FROM c", ordered)
	for _, token := range []string{"x", "null", "~~~~", scan + "~", strings.Replace(scan, "~", "~x", 1), `{"token":1}`, scan[:len(scan)-1] + "!"} {
		refused("SELECT * FROM c", token)
	}
	if err := ts.db.DeleteContainer(t.Context(), "shop", "orders"); err != nil {
		t.Fatal(err)
	}
	ts.withItems(1, 10, 1)
	refused("SELECT * FROM c", scan)
	refused("SELECT * FROM c ORDER BY c.v", ordered)
}

// Pages of a query are read while documents are written and partitions are split and
// merged. Every document that exists throughout must be returned exactly once.
func TestPagesSurviveWritesSplitsAndMerges(t *testing.T) {
	for _, text := range []string{
		"SELECT VALUE c.v FROM c", "SELECT VALUE c.v FROM c WHERE NOT c.odd", "SELECT VALUE c.v FROM c WHERE c.pk = 'k1' ORDER BY c.w",
		"SELECT VALUE c.v FROM c WHERE c.pk = 'k1' ORDER BY c.w DESC",
	} {
		ts := newTestServer(t, Options{})
		c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
		r := rand.New(rand.NewPCG(7, uint64(len(text))))
		for i := range 100 {
			put(t, c, `{"id":"stays%03d","pk":"k%d","v":%d,"w":%d,"odd":%t}`, i, i%4, i, r.IntN(5), i%2 == 1)
		}
		want, _ := ts.askAll(nil, nil, text)
		change := func(page int) {
			put(t, c, `{"id":"new%d","pk":"k%d","v":-1,"w":%d}`, page, page%4, page%5)
			if page > 3 {
				if _, err := c.Delete(t.Context(), []any{fmt.Sprintf("k%d", (page-3)%4)}, fmt.Sprintf("new%d", page-3), storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			live, err := c.Partitions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if page%2 == 0 {
				split(t, c, live[page%len(live)].ID)
			} else {
				merge(t, c, live[0].ID, live[1].ID)
			}
		}
		rows, pages := ts.askAll(items(3), change, text)
		rows = slices.DeleteFunc(rows, func(row string) bool { return row == "-1" })
		if !slices.Equal(rows, want) || pages < 5 {
			t.Errorf("%s: %v in %d pages, want %v", text, rows, pages, want)
		}
	}
}

// A partition is split between two pages of a query. The client gets a 410, lists the
// partitions and sends the parent's continuation to both children. Each document must be
// returned once.
func TestTheContinuationOfARangeIsValidForItsChildren(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withItems(1, 90, 30)
	a := ts.ask(together(inRange("0"), items(20)), "SELECT VALUE c.v FROM c")
	rows, token := a.rows(), a.header.Get("x-ms-continuation")
	children := split(t, c, "0")
	ts.ask(together(inRange("0"), headers{"x-ms-continuation": token}), "SELECT VALUE c.v FROM c").want(410, wire.SubPartitionGone)
	for _, child := range children {
		more, _ := ts.askAll(together(inRange(child.ID), items(7), headers{"x-ms-continuation": token}), nil, "SELECT VALUE c.v FROM c")
		rows = append(rows, more...)
	}
	slices.Sort(rows)
	if len(rows) != 90 || len(slices.Compact(rows)) != 90 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestTheChargeOfAQueryGrowsWithTheDocumentsItReads(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for i := range 200 {
		put(t, c, `{"id":"%d","pk":"k%d","x":"%s"}`, i, i%10, strings.Repeat("x", 1000))
	}
	charge := func(h headers, text string) (n float64) {
		t.Helper()
		if _, err := fmt.Sscan(ts.ask(h, text).want(200).header.Get("x-ms-request-charge"), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const unindexed = "SELECT * FROM c WHERE c.y + 0 = 1"
	one, key, all := charge(pk(`["k1"]`), "SELECT * FROM c WHERE c.id = '1'"), charge(pk(`["k1"]`), unindexed), charge(nil, unindexed)
	if one < 1 || key <= one || all < 4*key {
		t.Errorf("charges: one document %v, a key %v, all %v", one, key, all)
	}
	// The service reads no document that an indexed condition drops, and none for COUNT. The
	// charges are recorded ones.
	for _, x := range []struct {
		h    headers
		text string
		want float64
	}{
		{nil, "SELECT * FROM c WHERE c.y = 1", 2.8},
		{nil, "SELECT * FROM c WHERE c.id = '1'", 2.82},
		{headers{"x-ms-documentdb-partitionkeyrangeid": "0"}, "SELECT VALUE COUNT(1) FROM c", 2.89},
		{pk(`["k1"]`), "SELECT VALUE COUNT(1) FROM c", 2.99},
		{nil, "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1'", 2.99},
		{pk(`["k1"]`), "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1'", 2.99},
	} {
		if got := charge(x.h, x.text); got != x.want {
			t.Errorf("%v %s costs %v RU, want %v", x.h, x.text, got, x.want)
		}
	}
}

// A page of large rows must end before it has the requested number of rows, so that it
// does not use too much memory.
func TestAPageOfLargeRowsIsShort(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for i := range 8 {
		put(t, c, `{"id":"%02d","pk":"a","v":%d,"x":"%s"}`, i, i, strings.Repeat("x", 1_000_000))
	}
	for _, text := range []string{"SELECT * FROM c", "SELECT * FROM c ORDER BY c.v"} {
		a := ts.ask(together(pk(`["a"]`), items(-1)), text)
		if n := len(a.rows()); n != 4 || len(a.body) > 4<<20 {
			t.Errorf("%s: %d rows, %d bytes", text, n, len(a.body))
		}
		rows, _ := ts.askAll(together(pk(`["a"]`), items(-1)), nil, text)
		for i, row := range rows {
			if !strings.HasPrefix(row, fmt.Sprintf(`{"id":"%02d"`, i)) {
				t.Errorf("%s: row %d is %.20s", text, i, row)
			}
		}
		if len(rows) != 8 {
			t.Errorf("%s: %d rows", text, len(rows))
		}
	}
	// A continuation cannot contain a sort key of this length. The error advises the
	// client to request the largest page, unless the client already does.
	const largest = "x-ms-max-item-count: -1"
	ts.ask(together(pk(`["a"]`), items(2)), "SELECT c.id FROM c ORDER BY c.x").want(400).wantBody("sort key").wantBody(largest)
	for _, size := range []int{-1, 6} {
		a := ts.ask(together(pk(`["a"]`), items(size)), "SELECT * FROM c ORDER BY c.x").want(400).wantBody("sort key").wantBody("return less of each item")
		if strings.Contains(string(a.body), largest) {
			t.Errorf("pages of %d: %s", size, a.body)
		}
	}
}
