package query_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/query"
)

func TestSelectListsHaveTheServicesNames(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT c.n FROM c`: `[{"n":5}]`,
		`SELECT c.o["a b"], c.a[0], c.o.p.q AS deep FROM c`: `[{"a b":"c","$1":1,"deep":7}]`,
		`SELECT 1, c.n + 1, c.n AS n, 'x' FROM c`:           `[{"$1":1,"$2":6,"n":5,"$3":"x"}]`,
		`SELECT c.missing, c.n FROM c`:                      `[{"n":5}]`,
		`SELECT c.missing FROM c`:                           `[{}]`,
		`SELECT VALUE c.missing FROM c`:                     `[]`,
		`SELECT VALUE c.a FROM c`:                           `[[1,"two",{"k":1,"l":2}]]`,
		`SELECT VALUE {"i": c.id, n: c.n} FROM c`:           `[{"i":"x","n":5}]`,
		`SELECT c._rid, [{"item": c.n}] AS orderByItems, {"id": c.id} AS payload FROM c WHERE (true)`: `[{"orderByItems":[{"item":5}],"payload":{"id":"x"}}]`,
		`SELECT [{"item": c.missing}] AS orderByItems FROM c`:                                         `[{"orderByItems":[{}]}]`,
		`SELECT r.n FROM root r`:                 `[{"n":5}]`,
		`SELECT r.n FROM root AS r`:              `[{"n":5}]`,
		`select root.n from root where root.n=5`: `[{"n":5}]`,
		`SELECT c.n -- a comment
		 FROM c -- another`: `[{"n":5}]`,
		`SELECT f.n FROM Families f WHERE f.id = "x"`: `[{"n":5}]`,
	} {
		t.Run(text, func(t *testing.T) {
			if got := run(t, text, nil, sample); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// A query must return documents and numbers with the bytes that are stored, and not
// reformat them.
func TestBytesOfADocumentAreKept(t *testing.T) {
	const doc = `{ "id":"x" ,"big":12345678901234567890.50,"e":"\u00e9" }`
	rows := bound(t, `SELECT * FROM c WHERE c.id = 'x'`, nil).Rows()
	row, ok, err := rows.Eval([]byte(doc))
	if err != nil || !ok || string(row) != doc {
		t.Errorf("SELECT * returns %s (%v, %v)", row, ok, err)
	}
	rows = bound(t, `SELECT c.big, c.e FROM c`, nil).Rows()
	if row, _, _ = rows.Eval([]byte(doc)); string(row) != `{"big":12345678901234567890.50,"e":"\u00e9"}` {
		t.Errorf("a projection returns %s", row)
	}
}

func TestOnlyTrueSelects(t *testing.T) {
	docs := []string{`{"id":"1","v":true}`, `{"id":"2","v":false}`, `{"id":"3","v":null}`, `{"id":"4","v":1}`, `{"id":"5"}`, `{"id":"6","v":"true"}`}
	for condition, want := range map[string]string{
		`c.v`: `["1"]`, `NOT c.v`: `["2"]`, `c.v = true`: `["1"]`, `c.v != true`: `["2","3","4","6"]`,
		// Java's change feed processor selects leases with a continuation token by such a
		// condition.
		`c.v <> null`: `["1","2","4","6"]`, `c.v = null`: `["3"]`, `NOT (c.v = null)`: `["1","2","4","6"]`,
		`NOT IS_DEFINED(c.v)`: `["5"]`, `IS_DEFINED(c.v) = false`: `["5"]`,
	} {
		if got := run(t, `SELECT VALUE c.id FROM c WHERE `+condition, nil, docs...); got != want {
			t.Errorf("%s selects %s, want %s", condition, got, want)
		}
	}
}

func TestCountHasOneRow(t *testing.T) {
	docs := []string{`{"id":"1","v":null}`, `{"id":"2"}`, `{"id":"3","v":2}`}
	for text, want := range map[string]string{
		`SELECT VALUE COUNT(1) FROM c`:                       `[3]`,
		`SELECT VALUE count(c.v) FROM c`:                     `[2]`,
		`SELECT VALUE COUNT(1) FROM c WHERE c.id = 'nobody'`: `[0]`,
		`SELECT COUNT(1) FROM c`:                             `[{"$1":3}]`,
		`SELECT COUNT(1) AS n, COUNT(c.v) AS v FROM c`:       `[{"n":3,"v":2}]`,
		`SELECT COUNT(1) AS n FROM c WHERE c.v = 2`:          `[{"n":1}]`,
		`SELECT VALUE COUNT(undefined) FROM c`:               `[0]`,
	} {
		if got := run(t, text, nil, docs...); got != want {
			t.Errorf("%s makes %s, want %s", text, got, want)
		}
	}
}

func TestParametersStandForTheirValues(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT VALUE @p FROM c`:                                                 `[{"a":[1,"x"]}]`,
		`SELECT VALUE c.n FROM c WHERE c.id = @id`:                               `[5]`,
		`SELECT VALUE c.n FROM c WHERE STARTSWITH(c.id, @id) AND c.n IN (@n, 9)`: `[5]`,
		`SELECT VALUE c[@name] FROM c`:                                           `[5]`,
		`SELECT VALUE c.a[@i] FROM c`:                                            `["two"]`,
		`SELECT VALUE c.n + @n FROM c`:                                           `[10]`,
		`SELECT VALUE @p.a[1] FROM c`:                                            `["x"]`,
		`SELECT VALUE @null ?? 1 FROM c`:                                         `[null]`,
	} {
		params := map[string]string{"@p": `{"a":[1,"x"]}`, "@id": `"x"`, "@n": ` 5 `, "@name": `"n"`, "@i": `1`, "@unused": `nonsense`, "@null": `null`}
		if got := run(t, text, params, sample); got != want {
			t.Errorf("%s makes %s, want %s", text, got, want)
		}
	}
}

// A filter by a thousand ids, as SDKs send it, must use a set of ids. It must still
// select the right documents.
func TestThousandItemsAreFound(t *testing.T) {
	params := map[string]json.RawMessage{}
	for i := range 1000 {
		params[fmt.Sprintf("@param_id%d", i)] = json.RawMessage(fmt.Sprintf(`"order-%06d"`, i*2))
		params[fmt.Sprintf("@param_pk%d0", i)] = json.RawMessage(fmt.Sprintf(`"p%d"`, i*2%10))
	}
	rows := bound(t, thousandItems(), params).Rows()
	for i := range 3000 {
		for _, pk := range []int{i % 10, (i + 1) % 10} {
			_, ok, err := rows.Eval(fmt.Appendf(nil, `{"id":"order-%06d","pk":"p%d"}`, i, pk))
			if want := i%2 == 0 && i < 2000 && pk == i%10; err != nil || ok != want {
				t.Fatalf("item %d of p%d: %v (%v), want %v", i, pk, ok, err, want)
			}
		}
	}
}

func TestDocumentsThatAreNotObjectsAreErrors(t *testing.T) {
	for _, text := range []string{`SELECT * FROM c`, `SELECT * FROM c WHERE c.a.b = 1`, `SELECT VALUE c FROM c`} {
		rows := bound(t, text, nil).Rows()
		for _, doc := range []string{``, ` `, `[1]`, `"x"`, `nul`} {
			if _, ok, err := rows.Eval([]byte(doc)); err == nil {
				t.Errorf("%s of %q: no error, ok %v", text, doc, ok)
			}
		}
	}
	rows := bound(t, `SELECT * FROM c WHERE c.a.b = 1`, nil).Rows()
	for _, doc := range []string{`{`, `{"a"`, `{"a":`, `{"a":{`, `{"a":{"b":`, `{"x":}`, `{"x":1 "a":2}`, `{1:2}`} {
		if _, _, err := rows.Eval([]byte(doc)); err == nil {
			t.Errorf("%q: no error", doc)
		}
	}
	// After an error for one document, the same evaluator must evaluate the next document
	// as usual.
	if _, ok, err := rows.Eval([]byte(`{"a":{"b":1}}`)); err != nil || !ok {
		t.Errorf("after the errors: %v, %v", ok, err)
	}
}

// A condition has an OR of many ids and a term about another member. Documents that
// satisfy only that term must be found, too.
func TestConditionsOnIDsAndOthersSelectBoth(t *testing.T) {
	const ids = `c.id IN ('1','2','3','4','5','6','7','8','9')`
	for condition, want := range map[string]bool{
		ids: false, ids + ` AND c.n = 1`: false, `NOT ` + ids: false, `NOT (` + ids + `)`: true, `c.id NOT IN ('1','2','3','4','5','6','7','8')`: true,
		ids + ` OR c.n = 1`: true, `(` + ids + ` OR c.n = 1) AND c.n > 0`: true, `c.n > 0 AND (c.n = 1 OR ` + ids + `)`: true,
		`(` + ids + ` AND c.n = 1) OR (c.n = 1)`: true, ids + ` ? false : true`: true, `c.id IN ('1','2','3','4','5','6','7','8', c.id)`: true,
		`c.id IN ('1','2','3','4','5','6','7','x')`: true, `c.n = 1 AND 'x' = c.id`: true,
	} {
		rows := bound(t, `SELECT * FROM c WHERE `+condition, nil).Rows()
		if _, ok, err := rows.Eval([]byte(`{"id":"x","n":1}`)); err != nil || ok != want {
			t.Errorf("%s: %v (%v), want %v", condition, ok, err, want)
		}
	}
}

// Bind must copy the values of parameters, because the caller may reuse its buffer
// afterwards.
func TestValuesOfParametersAreCopied(t *testing.T) {
	raw := json.RawMessage(`"x"`)
	b := bound(t, `SELECT VALUE c.n FROM c WHERE c.id = @id`, map[string]json.RawMessage{"@id": raw})
	copy(raw, `"y"`)
	if _, ok, err := b.Rows().Eval([]byte(sample)); err != nil || !ok {
		t.Errorf("ok %v (%v)", ok, err)
	}
}

// A query names more members than a linear search handles, at two levels of the document.
// All must be found.
func TestManyMembersAreFound(t *testing.T) {
	doc, list, want := `{"o":{`, "SELECT ", "{"
	for i := range 30 {
		doc += fmt.Sprintf(`"n%d":%d,"x%d":0,`, i, i, i)
		list += fmt.Sprintf(`c.o.n%d, `, i)
		want += fmt.Sprintf(`"n%d":%d,`, i, i)
	}
	doc += `"end":1}`
	for i := range 30 {
		doc += fmt.Sprintf(`,"m%d":%d`, i, i)
		list += fmt.Sprintf(`c.m%d, `, i)
		want += fmt.Sprintf(`"m%d":%d,`, i, i)
	}
	if got, want := run(t, list+"c.o['end'] FROM c", nil, doc+"}"), "["+want+`"end":1}]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Each condition of a patch, which has only FROM and WHERE, must have the given result
// for the sample document.
func TestConditions(t *testing.T) {
	for text, want := range map[string]bool{
		`from c where c.n = 5`: true, `FROM c WHERE c.n > 5`: false, `from c where c.missing = 1`: false,
		`from root r where STARTSWITH(r.s, 'A') and r.b`: true, `from c where c.n`: false, `from c`: true,
	} {
		f, err := query.Condition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Match(t.Context(), []byte(sample), time.Minute); err != nil || got != want {
			t.Errorf("%s: %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{``, `SELECT * FROM c`, `where c.n = 5`, `from c where c.n = @p`, `from c where d.n = 5`, `from c where c.n = 5 ORDER BY c.n`, `from c join x in c.a`} {
		if _, err := query.Condition(text); err == nil {
			t.Errorf("%q is accepted as a condition", text)
		}
	}
}
