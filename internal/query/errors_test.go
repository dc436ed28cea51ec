package query_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
)

func TestSyntaxErrorsNameTheirPlace(t *testing.T) {
	for text, want := range map[string]struct {
		code, near   string
		offset, line int
	}{
		`SELECT * FROM c WHERE end`:              {query.CodeIdentifier, "end", 22, 1},
		`SELEC * FROM c`:                         {query.CodeSyntax, "SELEC", 0, 1},
		"SELECT *\nFROM c\nWHERE c.a == 1":       {query.CodeSyntax, "=", 27, 3},
		`SELECT * FROM c WHERE`:                  {query.CodeSyntax, "", 21, 1},
		``:                                       {query.CodeSyntax, "", 0, 1},
		`SELECT c.order FROM c`:                  {query.CodeSyntax, "order", 9, 1},
		`SELECT * FROM c WHERE c.a = 'x`:         {query.CodeSyntax, "'x", 28, 1},
		`SELECT * FROM c WHERE c.a = #`:          {query.CodeSyntax, "#", 28, 1},
		`SELECT * FROM c WHERE c.a = 1 ORDER BY`: {query.CodeSyntax, "", 38, 1},
		`SELECT * FROM c; DROP`:                  {query.CodeSyntax, ";", 15, 1},
		`SELECT TOP -1 * FROM c`:                 {query.CodeSyntax, "-", 11, 1},
		`SELECT TOP 1.5 * FROM c`:                {query.CodeTop, "1.5", 11, 1},
		`SELECT TOP 3000000000 * FROM c`:         {query.CodeTop, "3000000000", 11, 1},
		`SELECT * FROM c OFFSET 1.5 LIMIT 1`:     {query.CodeOffset, "1.5", 23, 1},
		`SELECT * FROM c OFFSET 1 LIMIT 1.5`:     {query.CodeLimit, "1.5", 31, 1},
		`SELECT * FROM c OFFSET 1`:               {query.CodeSyntax, "", 24, 1},
		`SELECT * FROM c WHERE BADFUNC(c.a)`:     {query.CodeFunction, "BADFUNC", 22, 1},
		`SELECT * FROM c WHERE IS_DEFINED()`:     {query.CodeArguments, "IS_DEFINED", 22, 1},
		`SELECT * FROM c WHERE STARTSWITH(c.a)`:  {query.CodeArguments, "STARTSWITH", 22, 1},
		`SELECT * FROM c WHERE d.a = 1`:          {query.CodeIdentifier, "d", 22, 1},
		`SELECT * FROM root r WHERE root.a = 1`:  {query.CodeIdentifier, "root", 27, 1},
		`SELECT c.a AS x, c.b AS x FROM c`:       {query.CodeDuplicate, "x", 24, 1},
		`SELECT * FROM c ORDER BY c.a + 1`:       {query.CodeOrderBy, "", 0, 1},
		`SELECT * FROM c ORDER BY c`:             {query.CodeOrderBy, "", 0, 1},
		`SELECT * FROM c WHERE c.a = 12x`:        {query.CodeSyntax, "12", 28, 1},
		`SELECT * FROM c WHERE c.a = 1e999`:      {query.CodeSyntax, "1e999", 28, 1},
		// What only looks like something that isn't evaluated.
		`SELECT * FROM c WHERE c.VectorDistance(c.a) = 'RRF(x)'`:              {query.CodeSyntax, "(", 38, 1},
		`SELECT {rank: c.a, udf: 1} FROM c ORDER BY c.a AS x`:                 {query.CodeSyntax, "udf", 19, 1},
		`SELECT ST_AREA FROM c WHERE -- RRF(1)`:                               {query.CodeSyntax, "", 37, 1},
		`SELECT * FROM c WHERE c.a LIKE 'a' ESCAPE '!!'`:                      {query.CodeSyntax, "'!!'", 42, 1},
		"SELECT * FROM c WHERE c.a\nNOT LIKE 'a' ESCAPE ''":                   {query.CodeSyntax, "''", 46, 2},
		`SELECT c.a, c.b.a FROM c`:                                            {query.CodeDuplicate, "a", 16, 1},
		`SELECT c.a AS b, c["b"] FROM c`:                                      {query.CodeDuplicate, `["b"]`, 18, 1},
		`SELECT c, c FROM c`:                                                  {query.CodeDuplicate, "c", 10, 1},
		"SELECT\n* FROM c JOIN x IN c.a":                                      {query.CodeStar, "*", 7, 2},
		`SELECT *`:                                                            {query.CodeStar, "*", 7, 1},
		`SELECT VALUE 1 FROM c JOIN x IN (SELECT * FROM c JOIN y IN c.a)`:     {query.CodeStar, "*", 40, 1},
		`SELECT VALUE 1 FROM c JOIN c.c`:                                      {query.CodeAlias, "c", 29, 1},
		`SELECT VALUE 1 FROM c JOIN c.a["c"]`:                                 {query.CodeAlias, `"c"`, 31, 1},
		`SELECT VALUE 1 FROM c WHERE EXISTS(SELECT 1 FROM c ORDER BY c.a)`:    {query.CodeSubqueryOrder, "ORDER", 51, 1},
		`SELECT VALUE (SELECT TOP 1 VALUE x FROM x IN c.a) FROM c`:            {query.CodeSubqueryTop, "1", 25, 1},
		`SELECT VALUE (SELECT VALUE x FROM x IN c.a OFFSET 0 LIMIT 1) FROM c`: {query.CodeSubqueryLimit, "0", 50, 1},
	} {
		_, err := query.Parse(text)
		var e *query.SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if e.Code != want.code || e.Near != want.near || e.Offset != want.offset || e.Line != want.line {
			t.Errorf("%q: %s near %q at %d, line %d (%v)", text, e.Code, e.Near, e.Offset, e.Line, e)
		}
	}
}

func TestServiceMessageIsTheServicesJSON(t *testing.T) {
	_, err := query.Parse(`SELECT * FROM c x end`)
	var e *query.SyntaxError
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	want := `{"errors":[{"severity":"Error","location":{"start":18,"end":21},"code":"SC1001","message":"Syntax error, incorrect syntax near 'end'."}]}`
	if got := e.ServiceMessage(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWhatIsNotEvaluatedIsRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT udf.tax(c.a) AS tax FROM c`:                     "the user-defined function udf.tax",
		`SELECT * FROM c WHERE ST_DISTANCE(c.a, c.b) < 1`:       "the function ST_DISTANCE",
		`SELECT * FROM c WHERE FullTextContains(c.a, 'x')`:      "the function FULLTEXTCONTAINS",
		`SELECT VectorDistance(c.a, [1]) FROM c`:                "the function VECTORDISTANCE",
		`SELECT * FROM c ORDER BY RANK FullTextScore(c.a, 'x')`: "ORDER BY RANK",
		// Forms that the grammar doesn't have.
		`SELECT * FROM c ORDER BY VectorDistance(c.a, [1]) AS score`:            "the function VECTORDISTANCE",
		`SELECT * FROM c ORDER BY ST_Distance(c.a, c.b) AS d DESC`:              "the function ST_DISTANCE",
		`SELECT *, VectorDistance(c.v, [1]) AS s FROM c`:                        "the function VECTORDISTANCE",
		`SELECT * FROM c JOIN x IN udf.split(c.a)`:                              "the user-defined function udf.split",
		`SELECT udf["tax"](c.a) FROM c`:                                         "the user-defined function udf.tax",
		`SELECT udf.a.b(c.a) FROM c`:                                            "the user-defined function udf.a",
		`SELECT * FROM c ORDER BY RANK FullTextScore(c.a, 'x') AS y`:            "ORDER BY RANK",
		`SELECT * FROM c ORDER BY RANK (FullTextScore(c.a, 'x'))`:               "ORDER BY RANK",
		`SELECT * FROM c ORDER BY RANK FullTextScore(c.a, 'x') DESC, c.b`:       "ORDER BY RANK",
		`SELECT * FROM c ORDER BY c.a, RANK FullTextScore(c.a, 'x')`:            "the function FULLTEXTSCORE",
		`SELECT c.a, MAKESET(c.b) FROM c GROUP BY c.a HAVING MAKESET(c.b) != 1`: "the aggregate function MAKESET",
		`SELECT TOP 1 * FROM c OFFSET 1 LIMIT 2`:                                "TOP together with OFFSET LIMIT",
		`SELECT COUNT(1) FROM c GROUP BY (SELECT VALUE c.a)`:                    "a subquery in GROUP BY",
		`SELECT COUNT(1) FROM c GROUP BY [EXISTS(SELECT c.a)]`:                  "a subquery in GROUP BY",
		`SELECT RAND() AS r FROM c GROUP BY RAND()`:                             "GROUP BY RAND(), which names no property,",
		`SELECT COUNT(1) FROM c GROUP BY c.a, LOWER(@p)`:                        "GROUP BY LOWER(@p), which names no property,",
	} {
		_, err := query.Parse(text)
		var e *query.UnsupportedError
		if !errors.As(err, &e) || e.What != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestParametersThatAreMissingOrWrongAreNamed(t *testing.T) {
	for text, name := range map[string]string{
		`SELECT * FROM c WHERE c.a = @gone`:         "@gone",
		`SELECT TOP @gone * FROM c`:                 "@gone",
		`SELECT TOP @text * FROM c`:                 "@text",
		`SELECT TOP @half * FROM c`:                 "@half",
		`SELECT TOP @minus * FROM c`:                "@minus",
		`SELECT * FROM c OFFSET @minus LIMIT @one`:  "@minus",
		`SELECT * FROM c OFFSET @one LIMIT @text`:   "@text",
		`SELECT VALUE [{"a": c[@gone]}] FROM c`:     "@gone",
		`SELECT * FROM c WHERE c.a IN (1, @broken)`: "@broken",
		`SELECT * FROM c WHERE c.a = @empty`:        "@empty",
	} {
		q, err := query.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		_, err = q.Bind(map[string]json.RawMessage{
			"@text": json.RawMessage(`"5"`), "@half": json.RawMessage(`0.5`), "@minus": json.RawMessage(`-1`),
			"@one": json.RawMessage(`1`), "@broken": json.RawMessage(`{"a":`), "@empty": nil,
		})
		var e *query.ParameterError
		if !errors.As(err, &e) || e.Name != name {
			t.Errorf("%s: %v, want an error about %s", text, err, name)
		}
	}
}

// However a text is made, it is refused in time and space that are in proportion
// to its length.
// maxText is the longest text of a query, in bytes.
const maxText = 256 << 10

func TestTextsWithoutEndAreRefused(t *testing.T) {
	const n = maxText / 4
	for name, text := range map[string]string{
		"too long":     "SELECT * FROM c WHERE c.a = '" + strings.Repeat("x", maxText) + "'",
		"brackets":     "SELECT * FROM c WHERE " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
		"open":         "SELECT * FROM c WHERE " + strings.Repeat("([{'a':", n/2),
		"arrays":       "SELECT * FROM c WHERE c.a = " + strings.Repeat("[", n) + strings.Repeat("]", n),
		"NOT":          "SELECT * FROM c WHERE " + strings.Repeat("NOT ", n-10) + "c.a",
		"tildes":       "SELECT * FROM c WHERE " + strings.Repeat("~", n) + "c.a",
		"sums":         "SELECT * FROM c WHERE c.a = 1" + strings.Repeat("+1", n),
		"conditionals": "SELECT * FROM c WHERE " + strings.Repeat("1?1:", n/2) + "1",
		"members":      "SELECT * FROM c WHERE c" + strings.Repeat(".a", n) + " = 1",
		"coalesce":     "SELECT * FROM c WHERE c" + strings.Repeat("??1", n/2),
		"subqueries":   "SELECT * FROM c WHERE " + strings.Repeat("(SELECT VALUE ", n/10),
		"alternating":  "SELECT * FROM c WHERE " + strings.Repeat("NOT (1 OR ", n/6) + "1",
		"in":           "SELECT * FROM c WHERE 1" + strings.Repeat(" IN (1", n/4),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := query.Parse(text)
			var e *query.SyntaxError
			if !errors.As(err, &e) || len(e.Message) > 200 {
				t.Fatalf("got %.200v", err)
			}
		})
	}
}

// What is long but not deep is read.
func TestLongListsAndChainsAreRead(t *testing.T) {
	for name, text := range map[string]string{
		"OR":       "SELECT * FROM c WHERE c.a = 0" + strings.Repeat(" OR c.a = 1", 20000),
		"AND":      "SELECT * FROM c WHERE c.a = 0" + strings.Repeat(" AND c.b = 1", 20000),
		"IN":       "SELECT * FROM c WHERE c.a IN (0" + strings.Repeat(", 1", 60000) + ")",
		"items":    thousandItems(),
		"brackets": "SELECT * FROM c WHERE " + strings.Repeat("(", 400) + "c.a = 1" + strings.Repeat(")", 400),
		"nested":   "SELECT * FROM c WHERE c.a = " + strings.Repeat("[", 200) + strings.Repeat("]", 200),
	} {
		t.Run(name, func(t *testing.T) {
			q, err := query.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := query.Parse(q.String()); err != nil && len(q.String()) <= maxText {
				t.Fatalf("printed: %v", err)
			}
		})
	}
}
