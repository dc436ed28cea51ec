package query_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// listed holds the two items of the join tests: one with arrays, and one without.
var listed = []json.RawMessage{
	json.RawMessage(`{"id":"x","g":"a","n":5,"list":[{"k":1,"l":[10,20]},{"k":2,"l":[30]},{"k":3}],"s":["a","b"],"o":{"p":[1,2]},"big":12345678901234567890.5}`),
	json.RawMessage(`{"id":"y","g":"b","n":7,"list":[],"s":"no"}`),
}

func wantRows(t *testing.T, cases map[string]string) {
	t.Helper()
	for text, want := range cases {
		rows, err := answer(t, text, nil, listed)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s\nmakes %s\nwant  %s", text, got, want)
		}
	}
}

func TestSourcesOfFrom(t *testing.T) {
	const items = `[{"k":1,"l":[10,20]},{"k":2,"l":[30]},{"k":3}]`
	wantRows(t, map[string]string{
		`SELECT * FROM x IN c.list`:                                             items,
		`SELECT VALUE x.k FROM x IN x.list WHERE x.k > 1`:                       `[2,3]`,
		`SELECT * FROM c.list`:                                                  `[` + items + `,[]]`,
		`SELECT VALUE list FROM c.list`:                                         `[` + items + `,[]]`,
		`SELECT VALUE list[2].k FROM c.list`:                                    `[3]`,
		`SELECT * FROM c.list[0]`:                                               `[{"k":1,"l":[10,20]}]`,
		`SELECT VALUE p[1] FROM c.o["p"] p`:                                     `[2]`,
		`SELECT * FROM x IN c.n`:                                                `[]`, // only arrays have elements
		`SELECT * FROM c.nothing`:                                               `[]`,
		`SELECT VALUE root.n FROM root`:                                         `[5,7]`,
		`SELECT * FROM (SELECT VALUE c.n FROM c WHERE c.n > 5) AS s`:            `[7]`,
		`SELECT VALUE s.m FROM (SELECT c.n + 1 AS m FROM c) s`:                  `[6,8]`,
		`SELECT VALUE x FROM x IN (SELECT VALUE c.s FROM c)`:                    `["a","b"]`,
		`SELECT VALUE y FROM (SELECT VALUE x.l FROM x IN c.list) l JOIN y IN l`: `[10,20,30]`,
		`SELECT VALUE 1`:                                                        `[1]`, `SELECT VALUE 1 WHERE false`: `[]`, `SELECT VALUE COUNT(1)`: `[1]`,
	})
}

func TestJoins(t *testing.T) {
	wantRows(t, map[string]string{
		`SELECT c.id, x.k, y FROM c JOIN x IN c.list JOIN y IN x.l`:                                 `[{"id":"x","k":1,"y":10},{"id":"x","k":1,"y":20},{"id":"x","k":2,"y":30}]`,
		`SELECT VALUE y FROM c JOIN x IN c.list JOIN y IN x.l WHERE y > 10 AND c.n = 5`:             `[20,30]`,
		`SELECT VALUE [a.k, b.k] FROM c JOIN a IN c.list JOIN b IN c.list WHERE a.k < b.k`:          `[[1,2],[1,3],[2,3]]`,
		`SELECT VALUE [a.k, b.k] FROM c JOIN a IN c.list JOIN b IN c.list WHERE a.k = 3 OR b.k = 3`: `[[1,3],[2,3],[3,1],[3,2],[3,3]]`,
		`SELECT VALUE x FROM c JOIN (SELECT VALUE c.n) x JOIN (SELECT VALUE x + 1) y WHERE y = 6`:   `[5]`,
		`SELECT a FROM c JOIN (SELECT c.n) a`:                                                       `[{"a":{"n":5}},{"a":{"n":7}}]`,
		`SELECT VALUE c.id FROM c JOIN (SELECT VALUE t FROM t IN c.s)`:                              `["x","x"]`,
		`SELECT VALUE y FROM c JOIN y IN (SELECT VALUE x.l FROM x IN c.list)`:                       `[10,20,30]`,
		`SELECT VALUE [o.p, p] FROM c JOIN c.o JOIN p IN o.p`:                                       `[[[1,2],1],[[1,2],2]]`,
		`SELECT VALUE d.n FROM c JOIN c d`:                                                          `[5,7]`,
		`SELECT VALUE x.k FROM c JOIN x IN c.list ORDER BY c.id DESC`:                               `[1,2,3]`,
		`SELECT TOP 2 VALUE x.k FROM c JOIN x IN c.list`:                                            `[1,2]`,
		`SELECT VALUE x.k FROM c JOIN x IN c.list ORDER BY c.n OFFSET 1 LIMIT 1`:                    `[2]`,
		`SELECT VALUE COUNT(1) FROM c JOIN x IN c.list`:                                             `[3]`,
		`SELECT x.k, COUNT(1) AS n FROM c JOIN x IN c.list JOIN y IN x.l GROUP BY x.k`:              `[{"k":1,"n":2},{"k":2,"n":1}]`,
		`SELECT DISTINCT VALUE x.k > 1 FROM c JOIN x IN c.list`:                                     `[false,true]`,
		// A condition on the member id of an array's elements must not be mistaken for a
		// condition on the item's id.
		`SELECT VALUE x.k FROM c JOIN x IN c.list WHERE x.id = 'z' OR x.k = 1`: `[1]`,
		`SELECT VALUE id.n FROM c id WHERE id.id = 'y'`:                        `[7]`,
	})
}

func TestSubqueries(t *testing.T) {
	wantRows(t, map[string]string{
		`SELECT VALUE FIRST(SELECT VALUE x.k FROM x IN c.list) FROM c`:                                                                   `[1]`,
		`SELECT VALUE LAST(SELECT VALUE x.k FROM x IN c.list WHERE x.k < 3) FROM c`:                                                      `[2]`,
		`SELECT VALUE ALL(SELECT VALUE x FROM x IN c.list WHERE x.k < 4) FROM c`:                                                         `[true,true]`,
		`SELECT VALUE ALL(SELECT VALUE x FROM x IN c.list WHERE x.k < 3) FROM c`:                                                         `[false,true]`,
		`SELECT VALUE ALL(SELECT VALUE x FROM x IN c.list) FROM c`:                                                                       `[true,true]`,
		`SELECT VALUE ARRAY(SELECT x.k, (SELECT VALUE SUM(y) FROM y IN x.l) AS s FROM x IN c.list) FROM c`:                               `[[{"k":1,"s":30},{"k":2,"s":30},{"k":3,"s":0}],[]]`,
		`SELECT VALUE ARRAY(SELECT x.k > 1 AS b, COUNT(1) AS n FROM x IN c.list GROUP BY x.k > 1) FROM c`:                                `[[{"b":false,"n":1},{"b":true,"n":2}],[]]`,
		`SELECT VALUE ARRAY(SELECT DISTINCT VALUE x.k > 1 FROM x IN c.list) FROM c`:                                                      `[[false,true],[]]`,
		`SELECT VALUE ARRAY(SELECT VALUE x.l FROM x IN c.list) FROM c`:                                                                   `[[[10,20],[30]],[]]`,
		`SELECT VALUE (SELECT VALUE MAX(x.k) FROM x IN c.list) FROM c`:                                                                   `[3]`,
		`SELECT VALUE (SELECT VALUE x.k FROM x IN c.list WHERE x.k = 2) FROM c`:                                                          `[2]`,
		`SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.list WHERE EXISTS(SELECT VALUE y FROM y IN x.l WHERE y = 30))`: `["x"]`,
		`SELECT VALUE EXISTS(SELECT VALUE COUNT(1) FROM x IN c.list WHERE false) FROM c`:                                                 `[true,true]`,
		`SELECT VALUE c.n FROM c WHERE (SELECT VALUE true) AND NOT EXISTS(SELECT VALUE x FROM x IN c.list)`:                              `[7]`,
		`SELECT VALUE c.n IN (5, (SELECT VALUE 6)) FROM c`:                                                                               `[true,false]`,
		// A name that an inner FROM defines hides the same name of the outer FROM, but
		// only inside the subquery.
		`SELECT VALUE [c.n, ARRAY(SELECT VALUE c.k FROM c IN c.list), c.n] FROM c`: `[[5,[1,2,3],5],[7,[],7]]`,
		// Numbers from the document must keep the digits with which they are stored.
		`SELECT VALUE (SELECT VALUE c.big) FROM c`:                                              `[12345678901234567890.5]`,
		`SELECT VALUE ARRAY(SELECT VALUE b FROM b IN (SELECT VALUE [c.big, 1])) FROM c`:         `[[12345678901234567890.5,1],[1]]`,
		`SELECT VALUE FIRST(SELECT b AS b FROM b IN (SELECT VALUE [c.big])) FROM c WHERE c.n=5`: `[{"b":12345678901234567890.5}]`,
	})
}

// Parameters must be accepted in every clause: in sources of FROM and in subqueries.
func TestParametersInSourcesAndSubqueries(t *testing.T) {
	params := map[string]json.RawMessage{"@k": json.RawMessage(`2`), "@l": json.RawMessage(`[7,8]`), "@like": json.RawMessage(`"%x%"`), "@half": json.RawMessage(`"\ud800"`)}
	for text, want := range map[string]string{
		`SELECT VALUE x.k FROM c JOIN (SELECT VALUE x FROM x IN c.list WHERE x.k >= @k) x`: `[2,3]`,
		`SELECT VALUE x FROM x IN (SELECT VALUE @l)`:                                       `[7,8]`,
		`SELECT VALUE EXISTS(SELECT VALUE 1 WHERE c.n IN (@k, 5)) FROM c`:                  `[true,false]`,
		`SELECT VALUE c.id FROM c WHERE c.id LIKE @like`:                                   `["x"]`,
		// As in the service, a parameter that is not given is undefined.
		`SELECT VALUE EXISTS(SELECT VALUE x FROM x IN c.list WHERE x.k = @gone) FROM c`: `[false,false]`,
		// Half of a surrogate pair is U+FFFD, as in documents.
		`SELECT VALUE @half FROM c`:             "[\"\ufffd\",\"\ufffd\"]",
		`SELECT VALUE IS_DEFINED(@gone) FROM c`: `[false,false]`,
	} {
		rows, err := answer(t, text, params, listed)
		if got := fmt.Sprintf("%s", rows); err != nil || got != fmt.Sprintf("%s", rawRows(t, want)) {
			t.Errorf("%s: %s (%v), want %s", text, got, err, want)
		}
	}
}

func rawRows(t *testing.T, text string) (rows []json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestInvalidSourcesAndSubqueriesHaveTheServicesCodes(t *testing.T) {
	for text, want := range map[string]struct{ code, near string }{
		`SELECT * FROM c JOIN x IN c.list`:       {syntax.CodeStar, "*"},
		`SELECT *`:                               {syntax.CodeStar, "*"},
		`SELECT c.* FROM c`:                      {syntax.CodeSyntax, "*"},
		`SELECT *, c.id FROM c`:                  {syntax.CodeSyntax, ","},
		`SELECT VALUE y FROM c JOIN y IN z.list`: {syntax.CodeIdentifier, "z"},
		`SELECT VALUE c.n FROM c AS d`:           {syntax.CodeIdentifier, "c"},
		`SELECT VALUE x FROM c JOIN (SELECT VALUE x FROM x IN c.list)`: {syntax.CodeIdentifier, "x"}, // an inner name is unknown outside
		`SELECT VALUE EXISTS(SELECT VALUE 1 FROM other) FROM c`:        {syntax.CodeIdentifier, "other"},
		`SELECT c.n`:                                                                  {syntax.CodeIdentifier, "c"},
		`SELECT VALUE c.n FROM x IN c.list`:                                           {syntax.CodeIdentifier, "c"},
		`SELECT VALUE 1 FROM c JOIN c IN c.list`:                                      {syntax.CodeAlias, "c"},
		`SELECT VALUE 1 FROM c JOIN x IN c.list JOIN (SELECT VALUE 1) x`:              {syntax.CodeAlias, "x"},
		`SELECT VALUE (SELECT TOP 1 VALUE 1) FROM c`:                                  {syntax.CodeSubqueryTop, "1"},
		`SELECT VALUE EXISTS(SELECT VALUE 1 FROM x IN c.list ORDER BY c.n) FROM c`:    {syntax.CodeSubqueryOrder, "ORDER"},
		`SELECT VALUE ARRAY(SELECT VALUE x FROM x IN c.list OFFSET 0 LIMIT 1) FROM c`: {syntax.CodeSubqueryLimit, "0"},
		`SELECT VALUE (SELECT VALUE BADFUNC(c.n)) FROM c`:                             {syntax.CodeFunction, "BADFUNC"},
		`SELECT VALUE c.id LIKE 'x' ESCAPE 'ab' FROM c`:                               {syntax.CodeSyntax, "'ab'"},
		`SELECT VALUE c.id LIKE 'x' ESCAPE '' FROM c`:                                 {syntax.CodeSyntax, "''"},
		`SELECT VALUE x.k FROM c JOIN x IN c.list ORDER BY x.k`:                       {"", ""},
		`SELECT VALUE x FROM x IN c.list ORDER BY x`:                                  {"", ""},
		`SELECT 0xZ`: {syntax.CodeSyntax, "0xZ"},
	} {
		_, err := query.Parse(text)
		var e *syntax.Error
		if !errors.As(err, &e) || e.Code != want.code || e.Near != want.near {
			t.Errorf("%s: %v, want %s near %q", text, err, want.code, want.near)
		}
	}
	ten := ` FROM c` + strings.Repeat(` JOIN (SELECT VALUE 1)`, 10)
	for text, want := range map[string]string{
		`SELECT VALUE x FROM x IN c.list ORDER BY x`:                                      `{"Errors":["Order-by over correlated collections is not supported."]}`,
		`SELECT VALUE 1` + ten + ` JOIN (SELECT VALUE 2)`:                                 `{"Errors":["The SQL query exceeded the maximum number of joins. The allowed limit is 10."]}`,
		`SELECT VALUE EXISTS(SELECT VALUE 1 FROM x IN c.list JOIN y IN x.l)` + ten + ` x`: `{"Errors":["The SQL query exceeded the maximum number of joins. The allowed limit is 10."]}`,
	} {
		_, err := query.Parse(text)
		var e *syntax.Error
		if !errors.As(err, &e) || e.ServiceMessage() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := query.Parse(`SELECT VALUE 1` + ten); err != nil {
		t.Error(err)
	}
	for _, text := range []string{
		`SELECT VALUE MAX(s) FROM (SELECT DISTINCT VALUE c.g FROM c) s`, `SELECT VALUE s FROM (SELECT VALUE COUNT(1) FROM c) s`,
		`SELECT VALUE s FROM (SELECT c.g FROM c GROUP BY c.g) s`, `SELECT VALUE s FROM (SELECT VALUE t FROM (SELECT DISTINCT VALUE c.g FROM c) t) s`,
	} {
		_, err := query.Parse(text)
		var no *syntax.UnsupportedError
		if !errors.As(err, &no) {
			t.Errorf("%s: %v, which would be a result per item", text, err)
		}
	}
	for _, text := range []string{`from x in c.list where x = 1`, `from c.o where true`, `from c join x in c.list`} {
		if _, err := query.Condition(text); err == nil {
			t.Errorf("%q is accepted as a condition of a patch", text)
		}
	}
	if f, err := query.Condition(`from c where exists(select value x from x in c.list where x.k = 2)`); err != nil {
		t.Error(err)
	} else if ok, err := f.Match(t.Context(), listed[0], time.Minute); err != nil || !ok {
		t.Errorf("a subquery in a patch's condition: %v, %v", ok, err)
	}
}
