package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// FuzzQuery parses and evaluates random texts. The result must be rows or an error, never
// a panic. Texts with invalid UTF-8 are skipped, because a request cannot contain them.
func FuzzQuery(f *testing.F) {
	for _, text := range []string{
		`SELECT * FROM c`, `SELECT TOP @Top * FROM c WHERE STARTSWITH(c.id, @PartitionLeasePrefix) AND c.ContinuationToken <> null`,
		`SELECT DISTINCT TOP 5 c.a AS x, c["a b"][0].d FROM Root r JOIN x IN r.children WHERE NOT c.a = - -1 ORDER BY c.x DESC OFFSET 1 LIMIT @l`,
		`SELECT VALUE {"a": [1, 'it\u0027s', undefined], b: EXISTS(SELECT VALUE x FROM x IN c.a)} FROM (SELECT * FROM c) AS s`,
		`SELECT udf.f(c.a) FROM c WHERE c.a NOT LIKE '%x' ESCAPE '!' AND c.b NOT BETWEEN 1 AND 2 OR c.c NOT IN (1, 2) GROUP BY c.a`,
		`SELECT c.a ?? (c.b ? ~1 : +c) || 'x' FROM c ORDER BY RANK FullTextScore(c.a, 'x') -- end`,
		`from c where c.v = 3 and c["w"] > -1.5e-7`, `SELECT LEFT(c.left, 1) FROM c.x[1]["y"] first`,
		`SELECT VALUE ARRAY(SELECT DISTINCT VALUE x.b FROM x IN c.a) FROM c JOIN (SELECT VALUE y FROM y IN c.a WHERE y LIKE "[^a-b]_%") z JOIN c.id WHERE ALL(SELECT 1)`,
		`SELECT x.b n, COUNT(1) + 0xF AS k FROM x IN c.a GROUP BY x.b`, `SELECT VALUE (SELECT VALUE MAX(x) FROM x IN c.a) << 1 >> c.b >>> -1`,
		`SELECT VALUE FIRST(SELECT * FROM c.a) FROM c WHERE EXISTS(SELECT VALUE LAST(SELECT VALUE b FROM b IN (SELECT VALUE [c, 2])))`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func(string) (*syntax.Select, error){syntax.Parse, syntax.ParseCondition} {
			q, err := read(text)
			if err != nil || check(text, q) != nil {
				continue
			}
			if b, err := bind(q, nil); err == nil {
				evaluates(t, text, b)
			}
		}
	})
}

// evaluates evaluates the query b for an item. It fails the test unless every row is
// valid JSON or the evaluation returns an error. It ends a join that takes too long.
func evaluates(t *testing.T, text string, b *Bound) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rows := b.Rows().While(ctx.Err)
	groups := rows.Groups(10, nil)
	made := func(row []byte) {
		if !jsontext.Value(row).IsValid() {
			t.Fatalf("%q makes %q", text, row)
		}
	}
	err := rows.Each([]byte(`{"id":"x","a":[1,{"b":null}]}`), func() bool {
		if b.shape.Grouped {
			groups.Add()
		} else if row, ok := rows.Row(); ok {
			made(row)
		}
		return true
	})
	var evaluation *EvaluationError
	if err != nil && !errors.As(err, &evaluation) && !errors.Is(err, ErrNotFinite) && !errors.Is(err, context.Canceled) {
		t.Fatalf("%q: %v", text, err)
	}
	for _, row := range groups.Rows() {
		if row.Row != nil {
			made(row.Row)
		}
	}
}

// FuzzDocument evaluates fixed queries for random documents. The evaluator of this
// package and the slow evaluator of the tests must return the same rows.
func FuzzDocument(f *testing.F) {
	var queries []*Query
	var bounds []*Bound
	for _, text := range []string{
		`SELECT * FROM c WHERE c.a = c.b`,
		`SELECT VALUE c = {"a": [1, {"b": 2}]} OR ARRAY_CONTAINS([{}], c, true) FROM c`,
		`SELECT VALUE c.a.b["a b"][0] FROM c WHERE c.a != null OR NOT IS_DEFINED(c.b)`,
		`SELECT c.a, c.b[1] AS x, c, c.a < c.b, c.a ?? c.b, [c.a, c.c] FROM c ORDER BY c.a, c.b DESC`,
		`SELECT VALUE ARRAY_CONTAINS(c.a, c.b, true) FROM c WHERE c.c NOT IN (1, "x", null, c.a)`,
		`SELECT c.a + 1, -c.b, c.a || c.b, c.id IN ("1","2","3","4","5","6","7","8",[1],{"a":2}) FROM c`,
		`SELECT VALUE STARTSWITH(c.id, c.a, true) FROM c WHERE c.id > '' AND c.a BETWEEN c.b AND c.c`,
		`SELECT c.id, x.b AS y, ARRAY(SELECT VALUE z FROM z IN x.a WHERE z != c.a) AS l FROM c JOIN x IN c.a WHERE EXISTS(SELECT VALUE k FROM k IN c.b)`,
	} {
		q, err := Parse(text)
		if err != nil {
			f.Fatal(err)
		}
		b, err := q.Bind(nil)
		if err != nil {
			f.Fatal(err)
		}
		queries, bounds = append(queries, q), append(bounds, b)
	}
	for _, doc := range []string{
		`{}`, `{"id":"x","a":{"b":{"a b":[1]}},"b":[1,"two"],"c":-0.0}`, `{"a":[{"k":1,"l":2}],"b":{"k":1},"c":"x"}`,
		`{"a":[1 2]}`, `{"a":{"b" 1}}`, ` { "a" : 1e300 , "b" : "\u0000\ud83d\ude00" } `, `{"\u0061":1,"b":1.0}`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var decoded map[string]any
		// The store refuses documents that are invalid JSON, have duplicate members, or
		// have numbers outside the range of float64. For these the two evaluators need
		// not agree.
		if !jsontext.Value(doc).IsValid() || json.Unmarshal(doc, &decoded) != nil || decoded == nil {
			for _, b := range bounds {
				_, _, _ = b.Rows().Eval(doc)
			}
			return
		}
		for i, q := range queries {
			agree(t, q.String(), q, bounds[i], nil, doc)
		}
	})
}

// FuzzCall calls each function with random arguments. The result must be JSON, undefined
// or the function's own error. It must be the same for constant arguments and for
// arguments from a document.
func FuzzCall(f *testing.F) {
	for name := range value.Functions {
		f.Add(name, []byte(`["2024-02-29T01:02:03Z", "dd", 3]`))
		f.Add(name, []byte(`[[1, "a", null], {"a": "b"}, -1]`))
	}
	f.Add("REGEXMATCH", []byte(`["aé", "(?i)[a-z]\\p{L}*", "msix"]`))
	f.Add("DATETIMEFORMAT", []byte(`["2024-02-29", "yyyy'x' \\d ddd FFF\""]`))
	f.Fuzz(func(t *testing.T, name string, list []byte) {
		fn, ok := value.Functions[name]
		var args []json.RawMessage
		if !ok || !fn.Evaluated() || json.Unmarshal(list, &args) != nil || !fn.Takes(len(args)) {
			return
		}
		params, item, text := map[string]json.RawMessage{}, []string{}, []string{}
		for i, a := range args {
			params[fmt.Sprintf("@a%d", i)] = a
			item = append(item, fmt.Sprintf(`"a%d":%s`, i, a))
			text = append(text, fmt.Sprintf("@a%d", i))
		}
		call := name + "(" + strings.Join(text, ",") + ")"
		doc := json.RawMessage("{" + strings.Join(item, ",") + "}")
		if !jsontext.Value(doc).IsValid() {
			return
		}
		folded, err := rowsOf("SELECT VALUE "+call+" FROM c", params, doc)
		looked, err2 := rowsOf("SELECT VALUE "+strings.ReplaceAll(call, "@", "c.")+" FROM c", nil, doc)
		var wrong *EvaluationError
		if err != nil && !errors.As(err, &wrong) || (err == nil) != (err2 == nil) {
			t.Fatalf("%s of %s: %v, and of an item %v", name, list, err, err2)
		}
		if err == nil && !fn.Volatile && !reflect.DeepEqual(folded, looked) {
			t.Fatalf("%s of %s is %v, and of an item %v", name, list, folded, looked)
		}
	})
}
