package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// These tests send queries as .NET's SDK writes them; see dotnet_test.go.

// dotnetQuery holds the headers that .NET sends with each page of a query. dotnetPlan
// holds those of a request for a query plan. Each line is one header.
const (
	dotnetQuery = "x-ms-max-item-count: -1\nx-ms-documentdb-query-iscontinuationexpected: False\nx-ms-documentdb-isquery: True\n" +
		"x-ms-cosmos-correlated-activityid: 3d1f7a5c-2f6d-4f0b-8b86-7c2f6f4f7c10\nx-ms-cosmos-supported-serialization-formats: JsonText,CosmosBinary\n" +
		"x-ms-documentdb-populatequerymetrics: True\nContent-Type: application/query+json\n"
	dotnetPlan = "x-ms-cosmos-is-query-plan-request: True\nx-ms-cosmos-supported-query-features: Aggregate, Distinct, MultipleOrderBy, OffsetAndLimit, OrderBy, Top, " +
		"NonValueAggregate, DCount, NonStreamingOrderBy, CountIf, HybridSearch, WeightedRankFusion, HybridSearchSkipOrderByRewrite, GroupBy, MultipleAggregates\n" +
		"x-ms-cosmos-query-version: 1.0\nx-ms-cosmos-correlated-activityid: 3d1f7a5c-2f6d-4f0b-8b86-7c2f6f4f7c10\nContent-Type: application/query+json\n"
)

func TestDotNetQueries(t *testing.T) {
	ts := newTestServer(t, Options{Partitions: 2}).withOrders()
	for i := range 20 {
		ts.must("POST", ordersDocs, nil, fmt.Sprintf(`{"id":"%d","pk":"p%d","n":%d}`, i, i, i))
	}
	const text = `{"query":"SELECT * FROM c WHERE c.n >= @n","parameters":[{"name":"@n","value":5}]}`
	var plan struct {
		PartitionedQueryExecutionInfoVersion int
		QueryInfo                            struct {
			DistinctType   string
			RewrittenQuery string
			HasSelectValue bool
		}
		QueryRanges []struct {
			Min, Max                       string
			IsMinInclusive, IsMaxInclusive bool
		}
	}
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, dotnetPlan, text).want(200).decode(&plan)
	if plan.PartitionedQueryExecutionInfoVersion != 2 || plan.QueryInfo.DistinctType != "None" || len(plan.QueryRanges) != 1 || plan.QueryRanges[0].Max != feed.MaxEPK {
		t.Errorf("%+v", plan)
	}
	// The SDK requests the rows of each partition separately. The answer must be JSON,
	// even if the client also accepts other formats.
	found := map[string]bool{}
	for _, partition := range []string{"0", "1"} {
		a := ts.dotnet("POST", ordersDocs, "docs", ordersLink, "x-ms-documentdb-query-enablecrosspartition: True\nx-ms-documentdb-partitionkeyrangeid: "+partition+
			"\nx-ms-cosmos-query-optimisticdirectexecute: False\n"+dotnetQuery, text).want(200).wantHeader("Content-Type", "application/json")
		var page struct{ Documents []struct{ ID string } }
		a.decode(&page)
		if a.header.Get(wire.HeaderItemCount) != fmt.Sprint(len(page.Documents)) || a.header.Get(wire.HeaderQueryMetrics) == "" {
			t.Errorf("%v", a.header)
		}
		for _, d := range page.Documents {
			found[d.ID] = true
		}
	}
	if len(found) != 15 {
		t.Errorf("%d of 15: %v", len(found), slices.Sorted(maps.Keys(found)))
	}
	// The SDK's ReadManyItemsAsync reads the items of one partition by a query that names
	// their IDs and keys.
	many := 0
	for _, partition := range []string{"0", "1"} {
		a := ts.dotnet("POST", ordersDocs, "docs", ordersLink, "x-ms-documentdb-partitionkeyrangeid: "+partition+"\nx-ms-cosmos-query-optimisticdirectexecute: False\n"+dotnetQuery,
			`{"query":"SELECT * FROM c WHERE ( ( c.id = @param_id0 AND c[\"pk\"] = @param_pk0 ) OR ( c.id = @param_id1 AND c[\"pk\"] = @param_pk1 ) )","parameters":[`+
				`{"name":"@param_id0","value":"3"},{"name":"@param_pk0","value":"p3"},{"name":"@param_id1","value":"4"},{"name":"@param_pk1","value":"p4"}]}`).want(200)
		var page struct{ Documents []struct{ ID string } }
		a.decode(&page)
		many += len(page.Documents)
	}
	if many != 2 {
		t.Errorf("%d of 2 items", many)
	}
	// This is a query of the SDK's change feed processor for its leases. It builds the
	// text without parameters.
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, "x-ms-documentdb-query-enablecrosspartition: True\nx-ms-documentdb-partitionkeyrangeid: 0\n"+dotnetQuery,
		`{"query":"SELECT * FROM c WHERE STARTSWITH(c.id, '`+"p.host_a==_b==.."+`')"}`).want(200).wantHeader(wire.HeaderItemCount, "0")
}

// The SDK sorts rows of two partitions: it requests the plan, queries each partition with
// the rewritten text, and merges the rows. After any row, it can resume with a filter for
// each partition.
func TestDotNetSortsOverPartitionsAndResumes(t *testing.T) {
	ts := newTestServer(t, Options{Partitions: 2}).withOrders()
	for i := range 20 {
		ts.must("POST", ordersDocs, nil, fmt.Sprintf(`{"id":"%d","pk":"p%d","n":%d}`, i, i, i/3))
	}
	var plan struct {
		QueryInfo struct {
			OrderBy            []string
			OrderByExpressions []string
			RewrittenQuery     string
		}
	}
	ts.dotnet("POST", ordersDocs, "docs", ordersLink, dotnetPlan, `{"query":"SELECT VALUE c.id FROM c ORDER BY c.n DESC"}`).want(200).decode(&plan)
	if !slices.Equal(plan.QueryInfo.OrderBy, []string{"Descending"}) || !slices.Equal(plan.QueryInfo.OrderByExpressions, []string{"c.n"}) {
		t.Fatalf("%+v", plan)
	}
	type found struct {
		sortedRow
		partition string
	}
	ask := func(partition, filter string) (all []found) {
		text, err := json.Marshal(strings.ReplaceAll(plan.QueryInfo.RewrittenQuery, "{documentdb-formattableorderbyquery-filter}", "true"))
		if err != nil {
			t.Fatal(err)
		}
		var page struct{ Documents []sortedRow }
		ts.dotnet("POST", ordersDocs, "docs", ordersLink, "x-ms-documentdb-query-enablecrosspartition: True\nx-ms-documentdb-partitionkeyrangeid: "+partition+
			"\nx-ms-cosmos-query-optimisticdirectexecute: False\n"+dotnetQuery, `{"query":`+string(text)+filter+`}`).want(200).decode(&page)
		for _, r := range page.Documents {
			all = append(all, found{r, partition})
		}
		return all
	}
	merge := func(left, right []found) []found { // if two rows are equal, the row of left comes first
		all := append(left, right...)
		slices.SortStableFunc(all, func(a, b found) int { return strings.Compare(b.values()[0], a.values()[0]) })
		return all
	}
	all := merge(ask("0", ""), ask("1", ""))
	if len(all) != 20 {
		t.Fatalf("%d rows", len(all))
	}
	for i, last := range all {
		value := `,"resumeFilter":{"value":[` + last.values()[0] + `]`
		target := value + `,"rid":"` + last.RID + `","exclude":false}`
		var rest []found
		if last.partition == "0" {
			rest = merge(ask("0", target), ask("1", value+`,"exclude":false}`))
		} else {
			rest = merge(ask("0", value+`,"exclude":true}`), ask("1", target))
		}
		var got, want []string
		for _, r := range rest {
			got = append(got, r.Payload)
		}
		for _, r := range all[i:] {
			want = append(want, r.Payload)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("from row %d, %s of partition %s\n got %v\nwant %v", i, last.Payload, last.partition, got, want)
		}
	}
}

// A query with ORDER BY or aggregates selects one partition. The SDK sends its text
// without a plan, and the server must return the final rows.
func TestDotNetExecutesQueriesOfOnePartitionDirectly(t *testing.T) {
	ts := newTestServer(t, Options{}).withOrders()
	for i := range 6 {
		ts.must("POST", ordersDocs, nil, fmt.Sprintf(`{"id":"%d","pk":"p%d","n":%d,"g":%d}`, i, i, 5-i, i%2))
	}
	const direct = "x-ms-documentdb-query-enablecrosspartition: True\nx-ms-documentdb-partitionkeyrangeid: 0\nx-ms-cosmos-query-optimisticdirectexecute: True\n" + dotnetQuery
	for query, want := range map[string]string{
		"SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 1 LIMIT 2":                      `[1,2]`,
		"SELECT VALUE COUNT(1) FROM c":                                               `[6]`,
		"SELECT TOP 1 c.id FROM c ORDER BY c.n DESC":                                 `[{"id":"0"}]`,
		"SELECT DISTINCT VALUE c.g FROM c ORDER BY c.g":                              `[0,1]`,
		"SELECT c.g, SUM(c.n) AS s, AVG(c.n) AS a FROM c WHERE c.g = 1 GROUP BY c.g": `[{"g":1,"s":6,"a":2}]`,
	} {
		body, err := json.Marshal(map[string]string{"query": query})
		if err != nil {
			t.Fatal(err)
		}
		var page struct{ Documents json.RawMessage }
		ts.dotnet("POST", ordersDocs, "docs", ordersLink, direct, string(body)).want(200).decode(&page)
		if string(page.Documents) != want {
			t.Errorf("%s:\n got %s\nwant %s", query, page.Documents, want)
		}
	}
}

// The SDK converts the prefix of a hierarchical key to a range of effective partition
// keys. It then requests the plan, and the rows of that range.
func TestDotNetQueriesAPrefixOfAHierarchicalKey(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
	ts.must("POST", "/dbs/shop/colls", nil, `{"id":"orders","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}}`)
	for _, u := range []string{"b", "a", "c"} {
		for _, tenant := range []string{"x", "y"} {
			ts.must("POST", ordersDocs, pk(`["`+tenant+`","`+u+`"]`), `{"id":"1","t":"`+tenant+`","u":"`+u+`"}`)
		}
	}
	c, err := ts.db.Container(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := c.KeyRange(feed.PartitionKey{"x"})
	if err != nil {
		t.Fatal(err)
	}
	own := "x-ms-documentdb-partitionkeyrangeid: 0\nx-ms-read-key-type: EffectivePartitionKeyRange\nx-ms-start-epk: " + keys.Min + "\nx-ms-end-epk: " + keys.Max + "\n"
	for query, want := range map[string]string{
		"SELECT VALUE c.u FROM c ORDER BY c.u": `["a","b","c"]`,
		"SELECT VALUE COUNT(1) FROM c":         `[3]`,
	} {
		ts.dotnet("POST", ordersDocs, "docs", ordersLink, own+dotnetPlan, `{"query":"`+query+`"}`).want(200).wantBody("rewrittenQuery")
		var page struct{ Documents json.RawMessage }
		ts.dotnet("POST", ordersDocs, "docs", ordersLink, own+"x-ms-cosmos-query-optimisticdirectexecute: True\n"+dotnetQuery, `{"query":"`+query+`"}`).want(200).decode(&page)
		if string(page.Documents) != want {
			t.Errorf("%s: %s, want %s", query, page.Documents, want)
		}
	}
	ts.dotnet("GET", ordersDocs, "docs", ordersLink, own, "").want(200).wantHeader(wire.HeaderItemCount, "3")
}
