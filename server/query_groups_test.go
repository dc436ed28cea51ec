package server

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// withGroups creates the container orders with 120 documents of key a and 120 of key b.
// Each key has 13 groups by the member g; the documents of one group have no g.
func (ts *testServer) withGroups(partitions int) *engine.Container {
	ts.t.Helper()
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: partitions})
	for i := range 120 {
		g := fmt.Sprintf(`"g":"g%02d",`, i%13)
		if i%13 == 12 {
			g = ""
		}
		for _, key := range []string{"a", "b"} {
			put(ts.t, c, `{"id":"%03d","pk":%q,%s"v":%d}`, i, key, g, i)
		}
	}
	return c
}

// The total of doubles may be infinite. As of 1/0, the page with such a row is refused, and no
// row or member is left out of it. Pages whose rows, and the one after them, are finite are served.
func TestInfiniteAggregatesAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for i, v := range []string{"1", "2", "1", "1", "1e308", "1.7e308", "-1e308", "-1.7e308"} {
		put(t, c, `{"id":"%d","pk":"a","g":"g%d","v":%s}`, i, i/2, v)
	}
	refused := func(h headers, text string) {
		t.Helper()
		ts.ask(h, text).want(400, 4001).wantText("cannot be represented in JSON")
	}
	key := pk(`["a"]`)
	for _, list := range []string{"VALUE SUM(c.v)", "VALUE AVG(c.v)", "VALUE {'s': [SUM(c.v)]}", "SUM(c.v) AS s, COUNT(1) AS n"} {
		for _, where := range []string{"c.v > 2", "c.v < 0"} {
			refused(key, "SELECT "+list+" FROM c WHERE "+where)
		}
	}
	refused(key, "SELECT c.g, SUM(c.v) AS s FROM c GROUP BY c.g")
	refused(key, "SELECT VALUE AVG(c.v) FROM c GROUP BY c.g")
	if got := ts.ask(key, "SELECT COUNT(c.v) AS n, MAX(c.v) AS m FROM c").rows(); !slices.Equal(got, []string{`{"n":8,"m":1.7e+308}`}) {
		t.Errorf("aggregates that are finite: %s", got)
	}

	paged := headers{"x-ms-documentdb-partitionkey": `["a"]`, "x-ms-max-item-count": "1"}
	const text = "SELECT VALUE SUM(c.v) FROM c GROUP BY c.g"
	first := ts.ask(paged, text)
	if rows := first.rows(); !slices.Equal(rows, []string{"3"}) {
		t.Errorf("the first page has the rows %s", rows)
	}
	paged["x-ms-continuation"] = first.header.Get("x-ms-continuation")
	refused(paged, text)
}

func TestGroupsAndDistinctRowsAreReturnedOnceInPagesOfAnySize(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withGroups(2)
	for text, want := range map[string]int{
		"SELECT c.g, COUNT(1) AS n, SUM(c.v) AS s FROM c GROUP BY c.g":                            13,
		"SELECT c.g, c.pk, AVG(c.v) / 2 + MIN(c.v) AS x FROM c WHERE c.v < 13 GROUP BY c.g, c.pk": 13,
		"SELECT VALUE c.g FROM c GROUP BY c.g":                                                    12,
		"SELECT DISTINCT c.g FROM c":                                                              13,
		"SELECT DISTINCT VALUE c.g FROM c":                                                        12,
		"SELECT DISTINCT VALUE c.g FROM c ORDER BY c.g DESC":                                      12,
		"SELECT DISTINCT TOP 5 VALUE c.g FROM c":                                                  5,
		"SELECT DISTINCT VALUE c.g FROM c OFFSET 3 LIMIT 4":                                       4,
		"SELECT DISTINCT VALUE c.g FROM c ORDER BY c.g OFFSET 10 LIMIT 4":                         2,
		"SELECT c.g FROM c GROUP BY c.g OFFSET 11 LIMIT 50":                                       2,
		"SELECT TOP 0 c.g FROM c GROUP BY c.g":                                                    0,
		"SELECT VALUE COUNT(1) FROM c":                                                            1,
		"SELECT VALUE {n: COUNT(1), half: SUM(c.v) / 2, best: [MAX(c.g), MIN(c.none)]} FROM c":    1,
		"SELECT VALUE COUNT(1) FROM c OFFSET 1 LIMIT 1":                                           0,
		"SELECT VALUE MAX(c.none) FROM c":                                                         0,
		"SELECT VALUE SUM(c.v) FROM c WHERE c.v > 1000":                                           1,
		"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.g FROM c)":                                 1,
		"SELECT DISTINCT VALUE c.g FROM c WHERE c.v > 1000":                                       0,
	} {
		whole := ts.ask(latest(pk(`["a"]`), items(-1)), text).rows()
		if len(whole) != want {
			t.Errorf("%s: %d rows, want %d: %v", text, len(whole), want, whole)
		}
		for _, n := range []int{1, 4, 12, 13, 14} {
			rows, pages := ts.askAll(latest(pk(`["a"]`), items(n)), nil, text)
			if !slices.Equal(rows, whole) {
				t.Errorf("%s in pages of %d: %v, want %v", text, n, rows, whole)
			}
			if most := max((want+n-1)/n, 1) + 1; pages > most {
				t.Errorf("%s in pages of %d: %d pages, want %d", text, n, pages, most)
			}
		}
	}
	for text, want := range map[string]string{
		"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.g FROM c)":                      "13",
		"SELECT COUNT(s) AS n FROM (SELECT DISTINCT VALUE c.g FROM c WHERE c.v < 5) s": `{"n":5}`,
		"SELECT COUNT(1) FROM (SELECT DISTINCT VALUE c.none FROM c)":                   `{"$1":0}`,
	} {
		if got := ts.ask(pk(`["a"]`), text).rows(); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v", text, got)
		}
	}
	got := ts.ask(pk(`["a"]`), "SELECT c.g, COUNT(1) AS n, SUM(c.v) AS s, MAX(c.v) AS last FROM c WHERE c.v < 14 GROUP BY c.g").rows()
	if got[0] != `{"n":1,"s":12,"last":12}` || got[1] != `{"g":"g00","n":2,"s":13,"last":13}` {
		t.Errorf("groups: %v", got)
	}
	if got := ts.ask(pk(`["a"]`), "SELECT VALUE {n: COUNT(1), half: SUM(c.v) / 2, best: [MAX(c.g), MIN(c.none)]} FROM c").rows(); got[0] != `{"n":120,"half":3570,"best":["g11"]}` {
		t.Errorf("aggregates in an expression: %v", got)
	}
}

// Pages of a GROUP BY query are read while groups are added and removed and partitions
// are split and merged. Every group that exists throughout must be returned once. A
// restarted server must accept the continuations of the previous run.
func TestPagesOfGroupsResumeAfterTheLastKey(t *testing.T) {
	for _, text := range []string{
		"SELECT c.g, COUNT(1) AS n FROM c WHERE c.stays GROUP BY c.g", "SELECT DISTINCT c.g, c.stays FROM c WHERE c.stays ORDER BY c.g DESC",
		"SELECT DISTINCT VALUE c.long FROM c WHERE c.stays",
	} {
		ts := newTestServer(t, Options{ServeAllQueries: true})
		c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 2})
		for i := range 60 {
			put(t, c, `{"id":"%03d","pk":"k%d","g":%d,"stays":true,"long":"%s%d"}`, i, i%7, i%20*10, strings.Repeat("long", 100), i%20)
		}
		want, _ := ts.askAll(items(-1), nil, text)
		if len(want) != 20 {
			t.Fatalf("%s: %v", text, want)
		}
		change := func(page int) {
			// Each call adds one group before the current position and one after it, and
			// removes another one.
			put(t, c, `{"id":"new%d","pk":"k1","g":%d,"stays":1,"long":"%s-%d"}`, page, page*10-5, strings.Repeat("long", 100), page)
			live, err := c.Partitions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if page%2 == 0 {
				split(t, c, live[page%len(live)].ID)
			} else {
				merge(t, c, live[0].ID, live[1].ID)
			}
			anew, err := New((*store.DB)(ts.db), Options{ServeAllQueries: true})
			if err != nil {
				t.Fatal(err)
			}
			ts.Server = anew
		}
		rows, pages := ts.askAll(items(3), change, text)
		if !slices.Equal(rows, want) || pages < 7 {
			t.Errorf("%s: %v in %d pages, want %v", text, rows, pages, want)
		}
	}
}

// A GROUP BY query of one partition is read in pages, and the partition is split in
// between. The client resumes in both children with the parent's continuation. The sums
// over both must be correct.
func TestGroupsOfARangeResumeInItsChildren(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for i := range 200 {
		put(t, c, `{"id":"%03d","pk":"k%d","g":%d}`, i, i, i%20)
	}
	const text = `SELECT [{"item": c.g}] AS groupByItems, {"n": {"item": COUNT(1)}} AS payload FROM c GROUP BY c.g`
	a := ts.ask(latest(inRange("0"), items(7)), text)
	rows, token := a.rows(), a.header.Get("x-ms-continuation")
	for _, child := range split(t, c, "0") {
		more, _ := ts.askAll(latest(inRange(child.ID), items(4), headers{"x-ms-continuation": token}), nil, text)
		rows = append(rows, more...)
	}
	counts := map[float64]int{}
	for _, text := range rows {
		var row struct {
			GroupByItems []struct{ Item float64 }
			Payload      struct{ N struct{ Item int } }
		}
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			t.Fatal(err)
		}
		counts[row.GroupByItems[0].Item] += row.Payload.N.Item
	}
	for g := range 20 {
		if counts[float64(g)] != 10 {
			t.Errorf("group %d has %d documents", g, counts[float64(g)])
		}
	}
}

// An aggregate over a partition without documents must return exactly one row, as clients
// expect. So must an aggregate over undefined values.
func TestAPartitionWithoutDocumentsHasItsRowOfAggregates(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	const avg, lowest = `{"sum": SUM(c.v), "count": COUNT(c.v)}`, `{"item": MIN(c.v), "item2": {"min": MIN(c.v), "count": COUNT(c.v)}}`
	texts := map[string][3]string{ // the rows for no document, for an undefined value, and for a string
		`SELECT VALUE [{"item": COUNT(1)}] FROM c`:                                        {`[{"item":0}]`, `[{"item":1}]`, `[{"item":2}]`},
		`SELECT VALUE [{"item": SUM(c.v)}] FROM c`:                                        {`[{"item":0}]`, `[{"item":0}]`, `[{}]`},
		`SELECT VALUE [{"item": ` + avg + `}] FROM c`:                                     {`[{"item":{"sum":0,"count":0}}]`, `[{"item":{"sum":0,"count":0}}]`, `[{"item":{"count":1}}]`},
		`SELECT VALUE [` + lowest + `] FROM c`:                                            {`[{"item2":{"count":0}}]`, `[{"item2":{"count":0}}]`, `[{"item":"s","item2":{"min":"s","count":1}}]`},
		`SELECT {"$1": {"item": ` + avg + `}, "k": {"item": COUNT(1)}} AS payload FROM c`: {`{"payload":{"$1":{"item":{"sum":0,"count":0}},"k":{"item":0}}}`, `{"payload":{"$1":{"item":{"sum":0,"count":0}},"k":{"item":1}}}`, `{"payload":{"$1":{"item":{"count":1}},"k":{"item":2}}}`},
	}
	for i, document := range []string{"", `{"id":"1","pk":"k"}`, `{"id":"2","pk":"k","v":"s"}`} {
		if document != "" {
			put(t, c, "%s", document)
		}
		for text, want := range texts {
			if got, pages := ts.askAll(latest(inRange("0"), items(1)), nil, text); pages != 1 || !slices.Equal(got, want[i:i+1]) {
				t.Errorf("%s of %d documents: %v on %d pages, want %s", text, i, got, pages, want[i])
			}
		}
	}
	if rows := ts.ask(inRange("0"), "SELECT c.none, COUNT(1) AS n FROM c WHERE c.v = 1 GROUP BY c.none").rows(); len(rows) != 0 {
		t.Errorf("groups of nothing: %v", rows)
	}
}

// If the groups of a query do not fit into memory together, the server must answer with
// several pages. If a single group does not fit, it must answer 400.
func TestGroupsTakeABoundedAmountOfMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("checks how much memory is used, which the race detector cannot judge")
	}
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	long := strings.Repeat("x", 1<<20)
	for i := range 40 {
		put(t, c, `{"id":"%02d","pk":"k","g":%d,"long":"%d%s"}`, i, i, i, long)
	}
	rows, pages := ts.askAll(latest(pk(`["k"]`), items(-1)), nil, "SELECT VALUE {g: c.g, same: MAX(c.long) = MIN(c.long)} FROM c GROUP BY c.g")
	if len(rows) != 40 || pages < 2 {
		t.Errorf("%d rows on %d pages", len(rows), pages)
	}
	for i, row := range rows {
		if row != fmt.Sprintf(`{"g":%d,"same":true}`, i) {
			t.Errorf("row %d is %s", i, row)
		}
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("MAX(c.long || '%d') AS a%d", i, i))
	}
	ts.ask(pk(`["k"]`), "SELECT "+strings.Join(many, ", ")+" FROM c").want(400).wantBody("bytes of memory")
}

// SDKs resume a sorted query from a rid with their own filters. Some compare the number
// in a rid in big-endian and others in little-endian byte order. Rows with equal sort
// keys must be in the same order by both.
func TestTiesAreResumedByTheirRidsWithAnyFilter(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	for i := range 300 {
		put(t, c, `{"id":"%03d","pk":"k%d","n":3}`, (i*7)%300, i%5)
	}
	for i := range 13 {
		put(t, c, `{"id":"m%d","pk":"k","m":%d}`, i, i/3)
	}
	rewritten := func(key, filter string) string {
		return fmt.Sprintf(`SELECT c._rid, [{"item": c.%s}] AS orderByItems, c.id AS payload FROM c WHERE ((IS_DEFINED(c.%s)) AND (%s)) ORDER BY c.%s`, key, key, filter, key)
	}
	for _, direction := range []string{"", " DESC"} {
		rows, _ := ts.askAll(latest(inRange("0"), items(7)), nil, rewritten("n", "true")+direction)
		seen := map[string]bool{}
		var littles, bigs []uint64
		for _, text := range rows {
			var row struct {
				RID     string `json:"_rid"`
				Payload string
			}
			if err := json.Unmarshal([]byte(text), &row); err != nil {
				t.Fatal(err)
			}
			rid, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(row.RID, "-", "/"))
			if err != nil || len(rid) != 16 {
				t.Fatalf("rid %s: %v", row.RID, err)
			}
			littles, bigs = append(littles, binary.LittleEndian.Uint64(rid[8:])), append(bigs, binary.BigEndian.Uint64(rid[8:]))
			seen[row.Payload] = true
		}
		if direction != "" {
			slices.Reverse(littles)
			slices.Reverse(bigs)
		}
		if len(rows) != 300 || len(seen) != 300 || !slices.IsSorted(littles) || !slices.IsSorted(bigs) {
			t.Errorf("%d rows, %d documents; in order: %t, %t", len(rows), len(seen), slices.IsSorted(littles), slices.IsSorted(bigs))
		}
	}
	var all []string
	token, last := "", "true"
	for {
		a := ts.ask(latest(inRange("0"), items(2), headers{"x-ms-continuation": token}), rewritten("m", last))
		rows := a.rows()
		all = append(all, rows...)
		if token = a.header.Get("x-ms-continuation"); token == "" {
			break
		}
		var row struct{ OrderByItems []struct{ Item int } }
		if err := json.Unmarshal([]byte(rows[len(rows)-1]), &row); err != nil {
			t.Fatal(err)
		}
		last = fmt.Sprintf("(c.m >= %d)", row.OrderByItems[0].Item)
	}
	if len(all) != 13 || len(slices.Compact(all)) != 13 {
		t.Errorf("%d rows with a changed filter", len(all))
	}
}

func TestInvalidExpressionsOfGroupsAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.made(storetype.ContainerProperties{ID: "orders"})
	put(t, c, `{"id":"1","pk":"k","s":"%s"}`, strings.Repeat("s", 1<<20))
	ts.ask(pk(`["k"]`), "SELECT CONCAT(MAX(c.s), MIN(c.s), MAX(c.s), MIN(c.s), MAX(c.s)) AS much FROM c").want(400).wantBody("CONCAT")
	ts.ask(pk(`["k"]`), "SELECT CONCAT(c.s, c.s, c.s, c.s, c.s) AS much FROM c GROUP BY c.s").want(400).wantBody("CONCAT")
}
