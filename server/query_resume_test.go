package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// sortedRow is a row of the rewritten query in a plan. OrderByItems holds its sort keys,
// by which clients merge the rows of several partitions.
type sortedRow struct {
	RID          string `json:"_rid"`
	OrderByItems []struct {
		Item json.RawMessage `json:"item"`
	} `json:"orderByItems"`
	Payload string `json:"payload"`
}

// resumedHashes has what .NET's SDK sends in place of arrays and objects.
var resumedHashes = map[string]string{
	`[]`:        `{"type":"array","low":-6706074647855398782,"high":9031114912533472255}`,
	`[1]`:       `{"type":"array","low":3156792105152516121,"high":-4093997899287633148}`,
	`["s"]`:     `{"type":"array","low":8255653515244536249,"high":2980632651296008415}`,
	`{}`:        `{"type":"object","low":1457042291250783704,"high":1493060239874959160}`,
	`{"a":"x"}`: `{"type":"object","low":-7247658842639654966,"high":-4693979480466860234}`,
}

// values returns the sort keys of the row as JSON, as in .NET's resumeFilter. There, an
// empty array means undefined.
func (r sortedRow) values() []string {
	var all []string
	for _, i := range r.OrderByItems {
		switch hash, ok := resumedHashes[string(i.Item)]; {
		case i.Item == nil:
			all = append(all, "[]")
		case ok:
			all = append(all, hash)
		default:
			all = append(all, string(i.Item))
		}
	}
	return all
}

// resumed reads all pages of a query with a resumeFilter. Like .NET, it sends the filter
// with every page, together with the continuation.
func (ts *testServer) resumed(query, filter string) []sortedRow {
	ts.t.Helper()
	var all []sortedRow
	h := queryHeaders().with(wire.HeaderPartitionID, "0").with(wire.HeaderMaxItemCount, "7")
	text, err := json.Marshal(query)
	if err != nil {
		ts.t.Fatal(err)
	}
	for {
		var page struct{ Documents []sortedRow }
		a := ts.do("POST", orders+"/docs", h, `{"query":`+string(text)+`,"resumeFilter":`+filter+`}`).want(200).decode(&page)
		all = append(all, page.Documents...)
		next := a.header.Get(wire.HeaderContinuation)
		if next == "" {
			return all
		}
		h = h.with(wire.HeaderContinuation, next)
	}
}

// A sorted query is resumed from each of its rows by a resumeFilter. It must continue
// with that row or after it, or after all rows with the same sort keys, as the filter
// requires.
func TestQueriesResumeFromTheValuesOfAnyRow(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	r := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // the test must be repeatable
	values := []string{`,"a":null`, `,"a":false`, `,"a":true`, `,"a":-1.5`, `,"a":0`, `,"a":10`, `,"a":""`, `,"a":"Z\u0000é"`, ``}
	for text := range resumedHashes {
		values = append(values, `,"a":`+text)
	}
	slices.Sort(values)
	for i := range 40 {
		ts.must("POST", orders+"/docs", nil, fmt.Sprintf(`{"id":"%d","pk":%d%s,"b":%d}`, i, r.IntN(9), values[r.IntN(len(values))], r.IntN(2)))
	}
	for _, order := range []string{"c.a ASC", "c.a DESC", "c.a ASC, c.b DESC", "c.a DESC, c.b ASC"} {
		var items []string
		for _, key := range strings.Split(order, ", ") {
			items = append(items, `{"item": `+strings.Fields(key)[0]+`}`)
		}
		query := `SELECT c._rid, [` + strings.Join(items, ", ") + `] AS orderByItems, c.id AS payload FROM c WHERE (true) ORDER BY ` + order
		all := ts.resumed(query, "null")
		if len(all) != 40 {
			t.Fatalf("%s: %d rows", query, len(all))
		}
		for i := 0; i < len(all); i += 3 {
			at := all[i].values()
			same := func(row sortedRow) bool { return slices.Equal(row.values(), at) }
			first := slices.IndexFunc(all, same)
			behind := first
			for behind < len(all) && same(all[behind]) {
				behind++
			}
			joined := strings.Join(at, ",")
			for filter, from := range map[string]int{
				`{"value":[` + joined + `],"rid":"` + all[i].RID + `","exclude":false}`: i,
				`{"value":[` + joined + `],"exclude":false}`:                            first,
				`{"value":[` + joined + `],"exclude":true}`:                             behind,
			} {
				if got, want := payloads(ts.resumed(query, filter)), payloads(all[from:]); got != want {
					t.Fatalf("ORDER BY %s, %s\n got %s\nwant %s", order, filter, got, want)
				}
			}
		}
	}
}

func payloads(rows []sortedRow) string {
	var all []string
	for _, r := range rows {
		all = append(all, r.Payload)
	}
	return strings.Join(all, " ")
}

// After a client has read a row, the row is deleted and another document is written. The
// resumed query must continue at the position of the deleted row. It must return the new
// document only if it sorts after that position.
func TestAResumedQueryContinuesAfterItsRowIsDeleted(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	for i := range 5 {
		ts.must("POST", orders+"/docs", pk(`["p"]`), fmt.Sprintf(`{"id":"%d","pk":"p","a":%d}`, i, i/2))
	}
	const query = `SELECT c._rid, [{"item": c.a}] AS orderByItems, c.id AS payload FROM c WHERE (true) ORDER BY c.a`
	all := ts.resumed(query, "null")
	ts.must("DELETE", orders+"/docs/"+all[2].Payload, pk(`["p"]`), "")
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"before","pk":"p","a":0}`)
	ts.must("POST", orders+"/docs", pk(`["p"]`), `{"id":"beside","pk":"p","a":1}`)
	if got := payloads(ts.resumed(query, `{"value":[1],"rid":"`+all[2].RID+`","exclude":false}`)); got != "3 beside 4" {
		t.Error(got)
	}
}

func TestInvalidResumeFiltersAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"other","partitionKey":{"paths":["/pk"]}}`)
	other := ts.must("POST", "/dbs/shop/colls/other/docs", nil, `{"id":"1","pk":1}`).object()["_rid"].(string)
	const sorted, plain = "SELECT * FROM c ORDER BY c.a", "SELECT * FROM c"
	for _, c := range []struct{ query, filter, says string }{
		{sorted, `7`, `{\"value\": [values]`},
		{sorted, `{}`, "0 values, and ORDER BY has 1"},
		{sorted, `{"value":[1,2]}`, "2 values"},
		{sorted, `{"value":[{"type":"array","low":1}]}`, "hash"},
		{sorted, `{"value":[{"type":"map","low":1,"high":2}]}`, "hash"},
		{sorted, `{"value":[{"type":"array","low":"1","high":2}]}`, "hash"},
		{sorted, `{"value":[[1]]}`, "array"},
		{sorted, `{"value":[1],"rid":"nonsense"}`, "rid"},
		{sorted, `{"value":[1],"rid":"` + other + `"}`, "rid"},
		{sorted + " OFFSET 3 LIMIT 1", `{"value":[1]}`, "OFFSET"},
		{plain, `{"value":[]}`, "ORDER BY"},
		{"SELECT c.a FROM c GROUP BY c.a", `{"value":[]}`, "GROUP BY"},
	} {
		ts.do("POST", orders+"/docs", queryHeaders().with(wire.HeaderPartitionID, "0"), `{"query":"`+c.query+`","resumeFilter":`+c.filter+`}`).want(400).wantBody(c.says)
	}
	ts.do("POST", orders+"/docs", queryHeaders().with(wire.HeaderQueryPlan, "True"), `{"query":"`+sorted+`","resumeFilter":{"value":[1]}}`).want(400).wantBody("resumeFilter")
	ts.do("POST", "/dbs", queryHeaders(), `{"query":"`+plain+`","resumeFilter":{"value":[1]}}`).want(400).wantBody("resumeFilter")
}
