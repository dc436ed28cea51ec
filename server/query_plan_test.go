package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// These are the values of the header in which each SDK lists its supported query
// features.
const (
	javascript = "NonValueAggregate,Aggregate,Distinct,MultipleOrderBy,OffsetAndLimit,OrderBy,Top,CompositeAggregate,GroupBy,MultipleAggregates"
	java       = "Aggregate, CompositeAggregate, MultipleOrderBy, MultipleAggregates, OrderBy, OffsetAndLimit, Distinct, GroupBy, Top, DCount, NonValueAggregate"
	python     = "Aggregate,CompositeAggregate,Distinct,MultipleOrderBy,OffsetAndLimit,OrderBy,Top"
)

// planRequest returns the headers with which Java's SDK requests a query plan.
func planRequest() headers {
	return headers{wire.HeaderQueryPlan: "True", wire.HeaderQueryFeatures: java, "Content-Type": "application/json"}
}

var merged = []string{
	"SELECT * FROM c ORDER BY c.v", "SELECT * FROM c OFFSET 0 LIMIT 1", "SELECT VALUE COUNT(1) FROM c", "SELECT TOP 1 * FROM c ORDER BY c.v DESC",
	"SELECT DISTINCT c.v FROM c", "SELECT c.v FROM c GROUP BY c.v", "SELECT VALUE SUM(c.v) FROM c", "SELECT TOP 2 * FROM c",
}

// A query whose rows must be merged is answered 400/1004 with its plan, for one partition
// and for two. With one partition the plan must be the same, because the client uses it
// after a split, too.
func TestQueriesThatNeedAMergeAreAnsweredWithTheirPlan(t *testing.T) {
	for _, partitions := range []int{1, 2} {
		ts := newTestServer(t, Options{})
		ts.withItems(partitions, 3, 3)
		for _, text := range merged {
			a := ts.ask(nil, text).want(400, wire.SubCrossPartitionQuery)
			var body struct{ Code, Message, AdditionalErrorInfo string }
			a.decode(&body)
			if body.Code != "BadRequest" || !strings.HasPrefix(body.Message, "The provided cross partition query can not be directly served by the gateway.") {
				t.Errorf("%s: %s", text, a.body)
			}
			plan := strings.TrimSpace(string(ts.ask(planRequest(), text).want(200).body))
			if body.AdditionalErrorInfo != plan {
				t.Errorf("%s: the plan is %s, and in the error %s", text, plan, body.AdditionalErrorInfo)
			}
		}
		for _, text := range []string{"SELECT COUNT(1) AS n, MAX(c.v) FROM c", "SELECT c.v, COUNT(1) AS n FROM c GROUP BY c.v"} {
			ts.ask(nil, text).want(400, wire.SubNone).wantBody("Cross partition query only supports 'VALUE")
			ts.ask(planRequest(), text).want(200)
		}
		ts.ask(nil, "SELECT VALUE SUM(c.v) / 2 FROM c").want(400, wire.SubNone).wantBody("Compositions of aggregates and other expressions are not allowed.")
		ts.ask(planRequest(), "SELECT VALUE SUM(c.v) / 2 FROM c").want(400, wire.SubNone).wantBody("Compositions of aggregates")
	}
}

// A client that does not list a feature of a query must get an error instead of the plan.
// Python, for instance, does not support GROUP BY over several partitions and would
// return wrong rows.
func TestPlansThatAClientDoesNotUnderstandAreRefused(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withItems(2, 3, 3)
	as := func(features string) headers {
		return together(planRequest(), headers{wire.HeaderQueryFeatures: features})
	}
	for _, text := range merged {
		ts.ask(as(javascript), text).want(200)
		ts.ask(as(strings.ToUpper(java)), text).want(200)
	}
	for _, text := range merged[:5] {
		ts.ask(as(python), text).want(200)
	}
	ts.ask(as(python), "SELECT c.v FROM c GROUP BY c.v").want(400, wire.SubNone).
		wantBody("Query contained GroupBy, which the calling client does not support.")
	ts.ask(as(python), "SELECT COUNT(1), MAX(c.v) FROM c").want(400, wire.SubNone).
		wantBody("NonValueAggregate").wantBody("MultipleAggregates")
	ts.ask(as(""), "SELECT DISTINCT c.v FROM c").want(400, wire.SubNone).wantBody("Query contained Distinct")
	ts.ask(as(""), "SELECT * FROM c").want(200)

	const byValue = "SELECT VALUE c.v FROM c GROUP BY c.v"
	ts.ask(as(javascript), byValue).want(200)
	ts.ask(together(as(java), headers{"User-Agent": "azsdk-java-cosmos/4.63.0 Linux/5 JRE/21"}), byValue).want(400).wantBody("SELECT VALUE with GROUP BY")
}

// pages reads all rows of a query from one partition, in pages of the given size.
func (ts *testServer) pages(partition, text string, size int) []string {
	ts.t.Helper()
	h := inRange(partition)
	h["x-ms-max-item-count"] = fmt.Sprint(size)
	rows, _ := ts.askAll(h, nil, text)
	return rows
}

// TestServedAndMergedQueriesAreTheSame compares two answers to each query. One is from a
// server with ServeAllQueries. The other is merged by the test, as an SDK merges, from
// the rows of each partition.
func TestServedAndMergedQueriesAreTheSame(t *testing.T) {
	ts := newTestServer(t, Options{ServeAllQueries: true})
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 3})
	for i := range 90 {
		put(t, c, `{"id":"%03d","pk":"k%d","v":%d,"g":"g%d","s":%s}`, i, i%17, i, i%7, []string{`"a"`, "3", "null", "[1]", `{"x":1}`, "true"}[i%6])
	}
	put(t, c, `{"id":"none","pk":"k1"}`)
	live, err := c.Partitions(t.Context())
	if err != nil || len(live) != 3 {
		t.Fatal(live, err)
	}
	for _, text := range []string{
		"SELECT VALUE COUNT(1) FROM c", "SELECT VALUE SUM(c.v) FROM c", "SELECT VALUE AVG(c.v) FROM c WHERE c.v > 3", "SELECT VALUE MIN(c.g) FROM c",
		"SELECT VALUE MAX(c.v) FROM c WHERE c.v < 0", "SELECT VALUE SUM(c.g) FROM c", "SELECT VALUE MAX(c.s) FROM c", "SELECT VALUE SUM(c.v) FROM c WHERE c.v < 0",
		"SELECT COUNT(1) AS n, AVG(c.v), MAX(c.nothing) AS none FROM c", "SELECT c.g, COUNT(1) AS n, SUM(c.v) AS s, AVG(c.v), MIN(c.v) AS low FROM c GROUP BY c.g",
		"SELECT c.g FROM c GROUP BY c.g, c.pk", "SELECT DISTINCT VALUE c.s FROM c", "SELECT DISTINCT c.g, c.pk FROM c",
		"SELECT VALUE c.id FROM c ORDER BY c.s, c.v DESC", "SELECT c.id, c.v FROM c WHERE c.v > 5 ORDER BY c.v DESC OFFSET 3 LIMIT 11",
		"SELECT TOP 9 * FROM c ORDER BY c.g", "SELECT DISTINCT VALUE c.g FROM c ORDER BY c.g DESC", "SELECT DISTINCT TOP 3 VALUE c.g FROM c ORDER BY c.g",
	} {
		served, _ := ts.askAll(headers{"x-ms-max-item-count": "4"}, nil, text)
		var plan query.Plan
		ts.ask(planRequest(), text).want(200).decode(&plan)
		var ranges [][]string
		for _, p := range live {
			rewritten := strings.ReplaceAll(plan.QueryInfo.RewrittenQuery, "{documentdb-formattableorderbyquery-filter}", "true")
			if rewritten == "" {
				rewritten = text
			}
			ranges = append(ranges, ts.pages(p.ID, rewritten, 4))
		}
		got := mergeRows(t, plan.QueryInfo, ranges)
		if len(plan.QueryInfo.OrderBy) == 0 {
			slices.Sort(got)
			slices.Sort(served)
		}
		if len(served) == 0 && !strings.Contains(text, "MAX(c.v)") && !strings.Contains(text, "(c.g)") && !strings.Contains(text, "MAX(c.s)") {
			t.Errorf("%s: no rows", text)
		}
		if !slices.Equal(got, served) {
			t.Errorf("%s\nmerged %v\nserved %v", text, got, served)
		}
	}
}

// sortedJSON returns the JSON of v with sorted members, for comparisons.
func sortedJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
