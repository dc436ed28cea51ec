package query_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

func TestSyntaxErrorsHavePositions(t *testing.T) {
	for text, want := range map[string]struct {
		code, near   string
		offset, line int
	}{
		`SELECT * FROM c WHERE end`:              {syntax.CodeIdentifier, "end", 22, 1},
		`SELEC * FROM c`:                         {syntax.CodeSyntax, "SELEC", 0, 1},
		"SELECT *\nFROM c\nWHERE c.a == 1":       {syntax.CodeSyntax, "=", 27, 3},
		`SELECT * FROM c WHERE`:                  {syntax.CodeEnd, "", 0, 1},
		``:                                       {syntax.CodeEnd, "", 0, 1},
		`SELECT c.order FROM c`:                  {syntax.CodeSyntax, "order", 9, 1},
		`SELECT * FROM c WHERE c.a = 'x`:         {syntax.CodeSyntax, "'x", 28, 1},
		`SELECT * FROM c WHERE c.a = #`:          {syntax.CodeToken, "#", 28, 1},
		`SELECT * FROM c WHERE c.a = 1 ORDER BY`: {syntax.CodeEnd, "", 0, 1},
		`SELECT * FROM c; DROP`:                  {syntax.CodeToken, ";", 15, 1},
		`SELECT TOP -1 * FROM c`:                 {syntax.CodeSyntax, "-", 11, 1},
		`SELECT TOP 1.5 * FROM c`:                {syntax.CodeTop, "1.5", 11, 1},
		`SELECT TOP 3000000000 * FROM c`:         {syntax.CodeTop, "3000000000", 11, 1},
		`SELECT * FROM c OFFSET 1.5 LIMIT 1`:     {syntax.CodeOffset, "1.5", 23, 1},
		`SELECT * FROM c OFFSET 1 LIMIT 1.5`:     {syntax.CodeLimit, "1.5", 31, 1},
		`SELECT * FROM c OFFSET 1`:               {syntax.CodeEnd, "", 0, 1},
		`SELECT * FROM c WHERE BADFUNC(c.a)`:     {syntax.CodeFunction, "BADFUNC", 22, 1},
		`SELECT * FROM c WHERE IS_DEFINED()`:     {syntax.CodeArguments, "IS_DEFINED", 22, 1},
		`SELECT * FROM c WHERE STARTSWITH(c.a)`:  {syntax.CodeArguments, "STARTSWITH", 22, 1},
		`SELECT * FROM c WHERE d.a = 1`:          {syntax.CodeIdentifier, "d", 22, 1},
		`SELECT * FROM root r WHERE root.a = 1`:  {syntax.CodeIdentifier, "root", 27, 1},
		`SELECT c.a AS x, c.b AS x FROM c`:       {syntax.CodeDuplicate, "x", 24, 1},
		`SELECT * FROM c ORDER BY c.a + 1`:       {syntax.CodeOrderBy, "", 0, 1},
		`SELECT * FROM c ORDER BY c`:             {syntax.CodeOrderBy, "", 0, 1},
		`SELECT * FROM c WHERE c.a = 12x`:        {syntax.CodeSyntax, "12", 28, 1},
		`SELECT * FROM c WHERE c.a = 1e999`:      {syntax.CodeSyntax, "1e999", 28, 1},
		// These texts resemble unsupported features but do not use them. Their errors
		// must be syntax errors.
		`SELECT * FROM c WHERE c.VectorDistance(c.a) = 'RRF(x)'`:              {syntax.CodeSyntax, "(", 38, 1},
		`SELECT {rank: c.a, udf: 1} FROM c ORDER BY c.a AS x`:                 {syntax.CodeSyntax, "udf", 19, 1},
		`SELECT ST_AREA FROM c WHERE -- RRF(1)`:                               {syntax.CodeEnd, "", 0, 1},
		`SELECT * FROM c WHERE c.a LIKE 'a' ESCAPE '!!'`:                      {syntax.CodeSyntax, "'!!'", 42, 1},
		"SELECT * FROM c WHERE c.a\nNOT LIKE 'a' ESCAPE ''":                   {syntax.CodeSyntax, "''", 46, 2},
		`SELECT c.a, c.b.a FROM c`:                                            {syntax.CodeDuplicate, "a", 16, 1},
		`SELECT c.a AS b, c["b"] FROM c`:                                      {syntax.CodeDuplicate, `["b"]`, 18, 1},
		`SELECT c, c FROM c`:                                                  {syntax.CodeDuplicate, "c", 10, 1},
		"SELECT\n* FROM c JOIN x IN c.a":                                      {syntax.CodeStar, "*", 7, 2},
		`SELECT *`:                                                            {syntax.CodeStar, "*", 7, 1},
		`SELECT VALUE 1 FROM c JOIN x IN (SELECT * FROM c JOIN y IN c.a)`:     {syntax.CodeStar, "*", 40, 1},
		`SELECT VALUE 1 FROM c JOIN c.c`:                                      {syntax.CodeAlias, "c", 29, 1},
		`SELECT VALUE 1 FROM c JOIN c.a["c"]`:                                 {syntax.CodeAlias, `"c"`, 31, 1},
		`SELECT VALUE 1 FROM c WHERE EXISTS(SELECT 1 FROM c ORDER BY c.a)`:    {syntax.CodeSubqueryOrder, "ORDER", 51, 1},
		`SELECT VALUE (SELECT TOP 1 VALUE x FROM x IN c.a) FROM c`:            {syntax.CodeSubqueryTop, "1", 25, 1},
		`SELECT VALUE (SELECT VALUE x FROM x IN c.a OFFSET 0 LIMIT 1) FROM c`: {syntax.CodeSubqueryLimit, "0", 50, 1},
	} {
		_, err := query.Parse(text)
		var e *syntax.Error
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
	var e *syntax.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	want := `{"errors":[{"severity":"Error","location":{"start":18,"end":21},"code":"SC1001","message":"Syntax error, incorrect syntax near 'end'."}]}`
	if got := e.ServiceMessage(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUnsupportedFeaturesAreRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT udf.tax(c.a) AS tax FROM c`:                     "the user-defined function udf.tax",
		`SELECT * FROM c WHERE ST_DISTANCE(c.a, c.b) < 1`:       "the function ST_DISTANCE",
		`SELECT * FROM c WHERE FullTextContains(c.a, 'x')`:      "the function FULLTEXTCONTAINS",
		`SELECT VectorDistance(c.a, [1]) FROM c`:                "the function VECTORDISTANCE",
		`SELECT * FROM c ORDER BY RANK FullTextScore(c.a, 'x')`: "ORDER BY RANK",
		// The grammar does not have these forms, but the service does. The error must
		// name the feature.
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
		var e *syntax.UnsupportedError
		if !errors.As(err, &e) || e.What != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestParametersThatAreMissingOrWrongAreNamed(t *testing.T) {
	for text, name := range map[string]string{
		`SELECT TOP @gone * FROM c`:                 "@gone",
		`SELECT TOP @text * FROM c`:                 "@text",
		`SELECT TOP @half * FROM c`:                 "@half",
		`SELECT TOP @minus * FROM c`:                "@minus",
		`SELECT * FROM c OFFSET @minus LIMIT @one`:  "@minus",
		`SELECT * FROM c OFFSET @one LIMIT @text`:   "@text",
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

// maxText is the longest text of a query that is parsed, in bytes.
const maxText = 512 << 10

// Texts that are too long or too deeply nested must be refused, in time and memory
// proportional to their length.
func TestLongAndDeepTextsAreRefused(t *testing.T) {
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
			var e *syntax.Error
			if !errors.As(err, &e) || len(e.Message) > 200 {
				t.Fatalf("got %.200v", err)
			}
		})
	}
}

// Long queries without deep nesting, such as an IN with thousands of values, must be
// accepted.
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
