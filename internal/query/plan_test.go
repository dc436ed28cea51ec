package query_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
)

// keysOf describes a container with the given partition key paths. Instead of a hash, its
// effective partition keys are readable texts such as E[x].
func keysOf(paths ...string) query.Keys {
	k := query.Keys{EPK: func(key []any) (string, error) { return fmt.Sprintf("E%v", key), nil }}
	for _, p := range paths {
		k.Paths = append(k.Paths, strings.Split(strings.TrimPrefix(p, "/"), "/"))
	}
	return k
}

func planOf(t *testing.T, text string, k query.Keys) (string, error) {
	t.Helper()
	p, err := bound(t, text, map[string]json.RawMessage{"@p": json.RawMessage(`3`), "@k": json.RawMessage(`"key"`)}).Plan(k)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), nil
}

const (
	everywhere = `[{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}]`
	nowhere    = `[{"min":"","max":"","isMinInclusive":true,"isMaxInclusive":true}]`
	planOfRest = `,"offset":null,"limit":null,"orderBy":[],"orderByExpressions":[],"groupByExpressions":[],"groupByAliases":[],"aggregates":[],` +
		`"groupByAliasToAggregateType":{},"rewrittenQuery":"","hasSelectValue":%t,"dCountInfo":null,"hasNonStreamingOrderBy":false},"queryRanges":`
)

func wantPlan(top string, selectValue bool, ranges string) string {
	return `{"partitionedQueryExecutionInfoVersion":2,"queryInfo":{"distinctType":"None","top":` + top + fmt.Sprintf(planOfRest, selectValue) + ranges + `,"hybridSearchQueryInfo":null}`
}

// The JSON of each plan must equal the service's, with every field and in the same order.
// JavaScript's SDK fails if a field is missing.
func TestPlansEqualTheServices(t *testing.T) {
	point := `[{"min":"E[key]","max":"E[key]","isMinInclusive":true,"isMaxInclusive":true}]`
	for text, want := range map[string]string{
		`SELECT * FROM c`:                      wantPlan(`null`, false, everywhere),
		`SELECT c.a, c.b FROM c WHERE c.n > 3`: wantPlan(`null`, false, everywhere),
		`SELECT VALUE c.a FROM c`:              wantPlan(`null`, true, everywhere),
		`SELECT TOP 5 * FROM c`:                wantPlan(`5`, false, everywhere),
		`SELECT TOP 0 * FROM c`:                wantPlan(`0`, false, everywhere),
		`SELECT TOP @p * FROM c WHERE STARTSWITH(c.id, @k) AND c.ContinuationToken <> null`: wantPlan(`3`, false, everywhere),
		`SELECT * FROM c WHERE c.pk = 'key'`:                                                wantPlan(`null`, false, point),
		`SELECT * FROM c WHERE @k = c["pk"] AND c.n IN (1,2)`:                               wantPlan(`null`, false, point),
		`SELECT * FROM c WHERE c.n = 1 AND (c.m = 2 AND c.pk = @k)`:                         wantPlan(`null`, false, point),
		// These conditions do not require a single key, so the plan contains the full
		// range.
		`SELECT * FROM c WHERE c.pk = 'key' OR c.n = 1`: wantPlan(`null`, false, everywhere),
		`SELECT * FROM c WHERE NOT (c.pk = 'key')`:      wantPlan(`null`, false, everywhere),
		`SELECT * FROM c WHERE c.pk != 'key'`:           wantPlan(`null`, false, everywhere),
		`SELECT * FROM c WHERE c.pk >= 'key'`:           wantPlan(`null`, false, everywhere),
		`SELECT * FROM c WHERE c.pk = c.n`:              wantPlan(`null`, false, everywhere),
		`SELECT * FROM c WHERE c.pk = ['key']`:          wantPlan(`null`, false, everywhere),
		`SELECT * FROM c WHERE c.pk = undefined`:        wantPlan(`null`, false, nowhere),
		`SELECT * FROM c WHERE c.pk = 1 AND c.pk = 2`:   wantPlan(`null`, false, nowhere),
		`SELECT * FROM c WHERE false`:                   wantPlan(`null`, false, nowhere),
		// These conditions require one of several keys. The plan contains a point for
		// each, without duplicates and sorted.
		`SELECT * FROM c WHERE c.pk IN ('x', 'key', @k) OR c.pk = 'a'`: wantPlan(`null`, false, `[{"min":"E[a]","max":"E[a]","isMinInclusive":true,"isMaxInclusive":true},`+
			point[1:len(point)-1]+`,{"min":"E[x]","max":"E[x]","isMinInclusive":true,"isMaxInclusive":true}]`),
		`SELECT * FROM c WHERE c.pk.deeper = 'key'`:        wantPlan(`null`, false, everywhere),
		`SELECT * FROM c WHERE c.pk = 'key' ? true : true`: wantPlan(`null`, false, everywhere),
		// The condition requires a single key, so the plan contains a point. The server
		// sorts and limits the rows of that point, and the plan leaves no work to the
		// client.
		`SELECT * FROM c WHERE c.pk = 'key' ORDER BY c.n`:       wantPlan(`null`, false, point),
		`SELECT TOP 2 * FROM c WHERE c.pk = 'key' ORDER BY c.n`: wantPlan(`2`, false, point),
		`SELECT * FROM c WHERE c.pk = 'key' OFFSET 1 LIMIT 2`:   wantPlan(`null`, false, point),
		`SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'key'`:       wantPlan(`null`, true, point),
	} {
		t.Run(text, func(t *testing.T) {
			got, err := planOf(t, text, keysOf("/pk"))
			if err != nil || got != want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, want)
			}
		})
	}
}

func TestPlansOfHierarchicalKeysNeedEveryPath(t *testing.T) {
	k := keysOf("/tenant", "/a/b")
	got, err := planOf(t, `SELECT * FROM c WHERE c.a.b = null AND c.tenant = 7`, k)
	if want := wantPlan(`null`, false, `[{"min":"E[7 \u003cnil\u003e]","max":"E[7 \u003cnil\u003e]","isMinInclusive":true,"isMaxInclusive":true}]`); err != nil || got != want {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
	got, err = planOf(t, `SELECT * FROM c WHERE c.tenant = 7`, k)
	if want := wantPlan(`null`, false, everywhere); err != nil || got != want {
		t.Errorf("a prefix: got %s (%v)", got, err)
	}
}

// If the request has a partition key in its header, the plan must contain only the point
// of that key.
func TestPlanOfAHeadersKeyIsAPoint(t *testing.T) {
	k := keysOf("/pk")
	k.Point = "0AFF"
	got, err := planOf(t, `SELECT * FROM c ORDER BY c.n`, k)
	if want := wantPlan(`null`, false, `[{"min":"0AFF","max":"0AFF","isMinInclusive":true,"isMaxInclusive":true}]`); err != nil || got != want {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
}

func TestPlanReturnsTheErrorOfTheHash(t *testing.T) {
	k := keysOf("/pk")
	failure := errors.New("no such hash")
	k.EPK = func([]any) (string, error) { return "", failure }
	if _, err := planOf(t, `SELECT * FROM c WHERE c.pk = 1`, k); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}

func TestKeyFilterOfConditions(t *testing.T) {
	for text, want := range map[string][]any{
		`c.pk = 'x'`: {"x"}, `c.pk = 1.5 AND true`: {1.5}, `c.pk = true`: {true}, `c.pk = false`: {false}, `c.pk = null`: {nil},
		`c.pk = @p`: {float64(3)}, `(c.a = 1 AND (c.b AND ('x' = c['pk'])))`: {"x"}, `c.pk = 'x' AND c.pk = 'y'`: nil,
		`c.pk IN ('x')`: {"x"}, `c.pk IN ('x', 'x') OR c.pk = 'x'`: {"x"}, `c.pk IN ('x', 'y') AND c.pk = 'y'`: {"y"}, `c.pk IN ('x', 'y')`: nil, `c.pk = {}`: nil, `c.pk = 'x' OR true`: nil, `c.a = 'x'`: nil, `IS_DEFINED(c.pk)`: nil, `c.pk[0] = 1`: nil,
	} {
		b := bound(t, `SELECT * FROM c WHERE `+text, map[string]json.RawMessage{"@p": json.RawMessage(`3`)})
		got, ok := b.KeyFilter([][]string{{"pk"}})
		if ok != (want != nil) || ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	if _, ok := bound(t, `SELECT * FROM c`, nil).KeyFilter([][]string{{"pk"}}); ok {
		t.Error("a query without condition has a key")
	}
}

func TestShapeOfQueries(t *testing.T) {
	params := map[string]json.RawMessage{"@t": json.RawMessage(`3`), "@o": json.RawMessage(`0`), "@l": json.RawMessage(`2147483647`)}
	three, zero, most := int64(3), int64(0), int64(2147483647)
	for text, want := range map[string]query.Shape{
		`SELECT * FROM c`:                                           {SelectAll: true},
		`SELECT VALUE c.a FROM c`:                                   {SelectValue: true},
		`SELECT TOP 3 c.a FROM c`:                                   {Top: &three},
		`SELECT TOP @t * FROM c`:                                    {Top: &three, SelectAll: true},
		`SELECT * FROM c OFFSET @o LIMIT @l`:                        {Offset: &zero, Limit: &most, SelectAll: true},
		`SELECT c.a FROM c ORDER BY c.x, c["a b"] DESC, c.l[0] ASC`: {OrderBy: []query.SortKey{{Path: "c.x"}, {Path: `c["a b"]`, Descending: true}, {Path: "c.l[0]"}}},
		`SELECT VALUE COUNT(1) FROM c`:                              {SelectValue: true, Grouped: true, Aggregates: []string{"Count"}},
		`SELECT COUNT(1) AS a, COUNT(c.b) FROM c`:                   {Grouped: true, Aggregates: []string{"Count", "Count"}},
	} {
		if got := bound(t, text, params).Shape(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}
