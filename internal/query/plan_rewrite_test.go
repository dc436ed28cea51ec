package query_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
)

const orderFilter = `{documentdb-formattableorderbyquery-filter}`

// For each query, the text for the ranges and the fields of queryInfo must be those of
// the service's planner. (P) stands for the placeholder of the resume filter.
func TestQueriesOverSeveralRangesAreRewrittenAsTheServiceDoes(t *testing.T) {
	for _, test := range []struct {
		text, rewritten string
		fields          string // all fields of queryInfo that are not empty, as JSON
	}{
		{`SELECT * FROM c WHERE c.n > 1`, ``, `{}`},
		{`SELECT TOP 5 * FROM c`, ``, `{"top":5}`},
		{`SELECT DISTINCT VALUE c.g FROM c`, ``, `{"distinctType":"Unordered","hasSelectValue":true}`},
		// These queries have ORDER BY.
		{
			`SELECT * FROM Root r ORDER BY r.blah`,
			"SELECT r._rid, [{\"item\": r.blah}] AS orderByItems, r AS payload\nFROM Root AS r\nWHERE (P)\nORDER BY r.blah",
			`{"orderBy":["Ascending"],"orderByExpressions":["r.blah"]}`,
		},
		{
			`SELECT * FROM Root r WHERE r.key = 'key' ORDER BY r.key`,
			"SELECT r._rid, [{\"item\": r.key}] AS orderByItems, r AS payload\nFROM Root AS r\nWHERE ((r.key = \"key\") AND (P))\nORDER BY r.key",
			`{"orderBy":["Ascending"],"orderByExpressions":["r.key"]}`,
		},
		{
			`SELECT TOP 70 r["a"] FROM Root r ORDER BY r.key DESC`,
			"SELECT TOP 70 r._rid, [{\"item\": r.key}] AS orderByItems, {\"a\": r[\"a\"]} AS payload\nFROM Root AS r\nWHERE (P)\nORDER BY r.key DESC",
			`{"orderBy":["Descending"],"orderByExpressions":["r.key"],"top":70}`,
		},
		{
			`SELECT VALUE c.blah FROM Root c ORDER BY c.key`,
			"SELECT c._rid, [{\"item\": c.key}] AS orderByItems, c.blah AS payload\nFROM Root AS c\nWHERE ((P) AND IS_DEFINED(c.blah))\nORDER BY c.key",
			`{"hasSelectValue":true,"orderBy":["Ascending"],"orderByExpressions":["c.key"]}`,
		},
		{
			`SELECT VALUE c.blah FROM c WHERE c.a > @p ORDER BY c.key`,
			"SELECT c._rid, [{\"item\": c.key}] AS orderByItems, c.blah AS payload\nFROM c\nWHERE (((c.a > @p) AND (P)) AND IS_DEFINED(c.blah))\nORDER BY c.key",
			`{"hasSelectValue":true,"orderBy":["Ascending"],"orderByExpressions":["c.key"]}`,
		},
		{
			`SELECT * FROM c ORDER BY c.a, c["a b"] DESC`,
			"SELECT c._rid, [{\"item\": c.a}, {\"item\": c[\"a b\"]}] AS orderByItems, c AS payload\nFROM c\nWHERE (P)\nORDER BY c.a, c[\"a b\"] DESC",
			`{"orderBy":["Ascending","Descending"],"orderByExpressions":["c.a","c[\"a b\"]"]}`,
		},
		{
			`SELECT DISTINCT VALUE c.blah FROM c ORDER BY c.blah`,
			"SELECT c._rid, [{\"item\": c.blah}] AS orderByItems, c.blah AS payload\nFROM c\nWHERE ((P) AND IS_DEFINED(c.blah))\nORDER BY c.blah",
			`{"distinctType":"Ordered","hasSelectValue":true,"orderBy":["Ascending"],"orderByExpressions":["c.blah"]}`,
		},
		{
			// Equal rows need not be adjacent, and a single range cannot decide which of
			// its rows count.
			`SELECT DISTINCT TOP 3 c.a, c.b FROM c ORDER BY c.a`,
			"SELECT c._rid, [{\"item\": c.a}] AS orderByItems, {\"a\": c.a, \"b\": c.b} AS payload\nFROM c\nWHERE (P)\nORDER BY c.a",
			`{"distinctType":"Unordered","orderBy":["Ascending"],"orderByExpressions":["c.a"],"top":3}`,
		},
		{
			`SELECT c.id FROM c WHERE c.n > @p ORDER BY c.n OFFSET @p LIMIT 3`,
			"SELECT c._rid, [{\"item\": c.n}] AS orderByItems, {\"id\": c.id} AS payload\nFROM c\nWHERE ((c.n > @p) AND (P))\nORDER BY c.n\nOFFSET 0 LIMIT 6",
			`{"limit":3,"offset":3,"orderBy":["Ascending"],"orderByExpressions":["c.n"]}`,
		},
		// These queries have OFFSET LIMIT.
		{`SELECT * FROM c WHERE c.blah = 5 OFFSET 1 LIMIT 2`, "SELECT *\nFROM c\nWHERE (c.blah = 5)\nOFFSET 0 LIMIT 3", `{"limit":2,"offset":1}`},
		{`SELECT * FROM c OFFSET 10 LIMIT 2147483647`, "SELECT *\nFROM c\nOFFSET 0 LIMIT 2147483657", `{"limit":2147483647,"offset":10}`},
		// These queries have DISTINCT with TOP or OFFSET LIMIT.
		{`SELECT DISTINCT TOP @p VALUE c.name FROM c`, "SELECT DISTINCT VALUE c.name\nFROM c", `{"distinctType":"Unordered","hasSelectValue":true,"top":3}`},
		{`SELECT DISTINCT c.name FROM c OFFSET 1 LIMIT 2`, "SELECT DISTINCT c.name\nFROM c", `{"distinctType":"Unordered","limit":2,"offset":1}`},
		// These queries have aggregates without GROUP BY.
		{`SELECT VALUE COUNT(1) FROM c`, "SELECT VALUE [{\"item\": COUNT(1)}]\nFROM c", `{"aggregates":["Count"],"hasSelectValue":true}`},
		{`SELECT VALUE sum(c.v) FROM c`, "SELECT VALUE [{\"item\": SUM(c.v)}]\nFROM c", `{"aggregates":["Sum"],"hasSelectValue":true}`},
		{`SELECT VALUE AVG(c.v) FROM c`, "SELECT VALUE [{\"item\": {\"sum\": SUM(c.v), \"count\": COUNT(c.v)}}]\nFROM c", `{"aggregates":["Average"],"hasSelectValue":true}`},
		{`SELECT VALUE MIN(c.v) FROM c WHERE c.k = @k`, "SELECT VALUE [{\"item\": MIN(c.v), \"item2\": {\"min\": MIN(c.v), \"count\": COUNT(c.v)}}]\nFROM c\nWHERE (c.k = @k)", `{"aggregates":["Min"],"hasSelectValue":true}`},
		{`SELECT VALUE MAX(c.v) FROM c`, "SELECT VALUE [{\"item\": MAX(c.v), \"item2\": {\"max\": MAX(c.v), \"count\": COUNT(c.v)}}]\nFROM c", `{"aggregates":["Max"],"hasSelectValue":true}`},
		{
			`SELECT TOP 4 AVG(c.v), COUNT(1) AS k FROM c`,
			"SELECT {\"$1\": {\"item\": {\"sum\": SUM(c.v), \"count\": COUNT(c.v)}}, \"k\": {\"item\": COUNT(1)}} AS payload\nFROM c",
			`{"groupByAliasToAggregateType":{"$1":"Average","k":"Count"},"groupByAliases":["$1","k"],"top":4}`,
		},
		// These queries count the distinct rows of a subquery.
		{
			`SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.x FROM c)`, "SELECT DISTINCT VALUE c.x\nFROM c",
			`{"dCountInfo":{"dCountAlias":""},"distinctType":"Unordered","hasSelectValue":true}`,
		},
		{
			`SELECT COUNT(s) AS n FROM (SELECT DISTINCT c.x, c.y FROM c WHERE c.z > @p) AS s`, "SELECT DISTINCT c.x, c.y\nFROM c\nWHERE (c.z > @p)",
			`{"dCountInfo":{"dCountAlias":"n"},"distinctType":"Unordered"}`,
		},
		// These queries have GROUP BY.
		{
			`SELECT c.team, COUNT(1) AS count, AVG(c.age) FROM c GROUP BY c.team`,
			"SELECT [{\"item\": c.team}] AS groupByItems, {\"team\": c.team, \"count\": {\"item\": COUNT(1)}, \"$1\": {\"item\": {\"sum\": SUM(c.age), \"count\": COUNT(c.age)}}} AS payload\nFROM c\nGROUP BY c.team",
			`{"groupByAliasToAggregateType":{"$1":"Average","count":"Count","team":null},"groupByAliases":["team","count","$1"],"groupByExpressions":["c.team"]}`,
		},
		{
			`SELECT c.a, c.b FROM c GROUP BY c.a, c.b OFFSET 1 LIMIT 2`,
			"SELECT [{\"item\": c.a}, {\"item\": c.b}] AS groupByItems, {\"a\": c.a, \"b\": c.b} AS payload\nFROM c\nGROUP BY c.a, c.b",
			`{"groupByAliasToAggregateType":{"a":null,"b":null},"groupByAliases":["a","b"],"groupByExpressions":["c.a","c.b"],"limit":2,"offset":1}`,
		},
		{
			`SELECT VALUE c.age FROM c GROUP BY c.age`,
			"SELECT [{\"item\": c.age}] AS groupByItems, c.age AS payload\nFROM c\nGROUP BY c.age",
			`{"groupByExpressions":["c.age"],"hasSelectValue":true}`,
		},
		{
			`SELECT VALUE COUNT(1) FROM c GROUP BY c.age`,
			"SELECT [{\"item\": c.age}] AS groupByItems, [{\"item\": COUNT(1)}] AS payload\nFROM c\nGROUP BY c.age",
			`{"aggregates":["Count"],"groupByExpressions":["c.age"],"hasSelectValue":true}`,
		},
	} {
		text, err := planOf(t, test.text, keysOf("/pk"))
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		var plan struct {
			QueryInfo map[string]any
		}
		if err := json.Unmarshal([]byte(text), &plan); err != nil {
			t.Fatal(err)
		}
		info := plan.QueryInfo
		if len(info) != 14 {
			t.Errorf("%s: %d fields", test.text, len(info))
		}
		if want := strings.Replace(test.rewritten, "(P)", "("+orderFilter+")", 1); info["rewrittenQuery"] != want {
			t.Errorf("%s: rewritten\n%s\nwant\n%s", test.text, info["rewrittenQuery"], want)
		}
		delete(info, "rewrittenQuery")
		for name, v := range info {
			empty, _ := json.Marshal(v)
			if slices.Contains([]string{`null`, `[]`, `{}`, `false`, `"None"`}, string(empty)) {
				delete(info, name)
			}
		}
		if fields, _ := json.Marshal(info); string(fields) != test.fields {
			t.Errorf("%s: fields %s, want %s", test.text, fields, test.fields)
		}
		// Clients send the rewritten text, so it must be a valid query.
		if rewritten := strings.ReplaceAll(test.rewritten, "(P)", "(true)"); rewritten != "" {
			if _, err := query.Parse(rewritten); err != nil {
				t.Errorf("%s: %v", rewritten, err)
			}
		}
	}
}

// A client can combine partial aggregates of several ranges, but no expressions that are
// computed from them. Queries with such expressions must have no plan.
func TestCompositionsOfAggregatesHaveNoPlanOverSeveralRanges(t *testing.T) {
	for _, text := range []string{
		`SELECT VALUE SUM(c.a) / 2 FROM c`, `SELECT VALUE IS_NUMBER(AVG(c.a)) FROM c`, `SELECT VALUE {"s": SUM(c.a)} FROM c`, `SELECT VALUE [SUM(c.a)] FROM c`,
		`SELECT COUNT(1) + 1 AS n FROM c`, `SELECT c.g, MAX(c.a) - MIN(c.a) AS d FROM c GROUP BY c.g`,
	} {
		_, err := planOf(t, text, keysOf("/pk"))
		var e *query.PlanError
		if !errors.As(err, &e) || e.Message != `{"Errors":["Compositions of aggregates and other expressions are not allowed."]}` {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := planOf(t, text, query.Keys{Point: "0AFF"}); err != nil {
			t.Errorf("%s within a key: %v", text, err)
		}
	}
}

func TestFeaturesOfPlans(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT * FROM c`:                                       "",
		`SELECT TOP 3 * FROM c`:                                 "Top",
		`SELECT VALUE SUM(c.a) FROM c`:                          "Aggregate",
		`SELECT SUM(c.a) AS s FROM c`:                           "NonValueAggregate",
		`SELECT SUM(c.a) AS s, COUNT(1) AS n FROM c`:            "NonValueAggregate MultipleAggregates",
		`SELECT c.g FROM c GROUP BY c.g`:                        "GroupBy",
		`SELECT c.g, COUNT(1) AS n FROM c GROUP BY c.g`:         "NonValueAggregate GroupBy",
		`SELECT DISTINCT c.g FROM c ORDER BY c.g`:               "Distinct OrderBy",
		`SELECT COUNT(1) FROM (SELECT DISTINCT c.g FROM c)`:     "Distinct DCount",
		`SELECT * FROM c ORDER BY c.a, c.b OFFSET 1 LIMIT 2`:    "OffsetAndLimit MultipleOrderBy",
		`SELECT * FROM c WHERE c.pk = 'x' ORDER BY c.a`:         "",
		`SELECT VALUE COUNT(1) FROM c WHERE c.pk IN ('x', 'y')`: "Aggregate",
	} {
		p, err := bound(t, text, nil).Plan(keysOf("/pk"))
		if got := strings.Join(p.Features(), " "); err != nil || got != want {
			t.Errorf("%s: %q (%v), want %q", text, got, err, want)
		}
	}
}
