package query

import (
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// longestResult is the longest string or array that a function may return, in bytes.
const longestResult = 4 << 20

// A function whose result or arguments are too long must fail with an error that names
// it. This also applies if the arguments are constants, which are computed when the query
// is bound.
func TestFunctionResultsAreBounded(t *testing.T) {
	half := strings.Repeat("x", longestResult/2+1)
	item, err := json.Marshal(map[string]any{"s": half, "commas": strings.Repeat(",", longestResult/2), "a": []string{half}})
	if err != nil {
		t.Fatal(err)
	}
	for text, name := range map[string]string{
		`CONCAT(c.s, c.s)`: "CONCAT", `LENGTH(CONCAT(c.s, c.s, c.s))`: "CONCAT", `REPLACE(c.commas, ",", "four")`: "REPLACE", `STRINGSPLIT(c.commas, ",")`: "STRINGSPLIT",
		`STRINGJOIN(["a", "b", "c"], c.s)`: "STRINGJOIN", `ARRAY_CONCAT(c.a, c.a)`: "ARRAY_CONCAT", `SETUNION(c.a, [UPPER(c.s)])`: "SETUNION",
		`CONTAINS_ANY_CS("x", ` + strings.Repeat(`UPPER(c.s), `, 40) + `"y")`: "UPPER",
		`DATETIMEFORMAT("2024-01-01", c.s)`:                                   "DATETIMEFORMAT",
		`REGEXMATCH("x", c.s)`:                                                "REGEXMATCH",
		`REPLACE(@commas, ",", "four")`:                                       "REPLACE",
	} {
		params := map[string]json.RawMessage{"@commas": json.RawMessage(`"` + strings.Repeat(",", longestResult/2) + `"`)}
		_, err := rowsOf("SELECT VALUE "+text+" FROM c", params, item)
		var e *EvaluationError
		if !errors.As(err, &e) || !strings.HasPrefix(e.Message, "The function "+name+" can't be evaluated: ") {
			t.Errorf("%.60s: %v", text, err)
		}
	}
	// A result of exactly the limit is accepted. After an error for one document, the
	// next document is evaluated as usual.
	got, err := rowsOf("SELECT VALUE LENGTH(CONCAT(c.s, c.t)) FROM c", nil, json.RawMessage(`{"s":"a","t":"`+half+`"}`))
	if err != nil || len(got) != 1 || got[0] != float64(longestResult/2+2) {
		t.Errorf("%v (%v)", got, err)
	}
	q, err := Parse("SELECT VALUE CONCAT(c.s, c.s) FROM c")
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := b.Rows()
	if _, _, err := rows.Eval(item); err == nil {
		t.Error("a result that is too long: no error")
	}
	if row, ok, err := rows.Eval([]byte(`{"s":"a"}`)); err != nil || !ok || string(row) != `"aa"` {
		t.Errorf("after an error: %s, %v (%v)", row, ok, err)
	}
	// If a condition cannot be evaluated, the query must fail. It must not treat the
	// condition as false.
	if _, err := rowsOf("SELECT * FROM c WHERE CONCAT(c.s, c.s) = 'x'", nil, item); err == nil {
		t.Error("a condition that cannot be evaluated: no error")
	}
}

func TestRegularExpressions(t *testing.T) {
	for expression, want := range map[string]string{
		`REGEXMATCH("a\nb", "^b")`: `false`, `REGEXMATCH("a\nb", "^b", "m")`: `true`, `REGEXMATCH("a\nb", "a.b")`: `false`, `REGEXMATCH("a\nb", "a.b", "s")`: `true`, `REGEXMATCH("É", "é", "i")`: `true`, `REGEXMATCH("A\nB", "^b$", "mi")`: `true`,
		`REGEXMATCH("a b", "a\\ b", "x")`: `true`, `REGEXMATCH("a b", "a[ ]b", "x")`: `true`, `REGEXMATCH("ab", "a # the first\n b", "x")`: `true`, `REGEXMATCH("a#b", "a\\#b", "x")`: `true`, `REGEXMATCH("ab", "a[]]b", "x")`: `false`,
		`REGEXMATCH("a", "a", "g")`: ``, `REGEXMATCH("a", "(")`: ``, `REGEXMATCH("a", "[b-a]")`: ``, `REGEXMATCH(1, "a")`: ``, `REGEXMATCH("a", 1)`: ``, `REGEXMATCH("a", "a", 1)`: ``, `REGEXMATCH("a", c.missing)`: ``, `REGEXMATCH("a", "a", c.missing)`: ``, `REGEXMATCH("a", null, "i")`: ``,
		`REGEXMATCH("a", c.p)`: `true`, `REGEXMATCH("b", c.p, c.m)`: `false`, `REGEXMATCH("A", c.p, c.m)`: `true`, `REGEXMATCH("A", "a", c.m)`: `true`, `REGEXMATCH("€5", "^\\p{Sc}\\d$")`: `true`,
	} {
		if got := evaluate(t, expression, `{"p":"^a","m":"i"}`); got != want {
			t.Errorf("%s is %s, want %s", expression, got, want)
		}
	}
	// PCRE, the service's engine, supports these patterns, and this package does not. The
	// query must fail instead of returning a wrong result.
	nested, large := strings.Repeat("(", 1001)+strings.Repeat(")", 1001), strings.Repeat("(xx){1000}", 1600)
	for pattern, want := range map[string]string{
		`a(?=b)`:    "there is no lookahead, nor another group that begins with (?=",
		`(?<!a)b`:   "there is no lookbehind, and no name of a group as in (?<!a)b",
		`(?<a-b>c)`: "there is no lookbehind, and no name of a group as in (?<a-b>",
		`(a)\\1`:    `there is no backreference or escape such as \1`,
		`a++`:       "a repetition cannot be repeated or possessive as in ++",
		`a{1,2000}`: "a repetition counts up to 1000, and not as in {1,2000}",
		nested:      "groups are nested at most 1000 deep, and not as in ((((((((((((((((((((((((((((((((((((((((...",
		large:       "its repetitions multiply to more than the engine holds in (xx){1000}(xx){1000}(xx){1000}(xx){1000}...",
	} {
		_, err := rowsOf(`SELECT VALUE REGEXMATCH("ab", "`+pattern+`") FROM c`, nil, json.RawMessage(`{}`))
		var e *EvaluationError
		if !errors.As(err, &e) || !strings.Contains(e.Message, "RE2") || !strings.Contains(e.Message, ": "+want) || strings.Contains(e.Message, "parsing") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// A query has hundreds of constant calls with long results. They are computed when the
// query is bound, but the bound query must keep only a limited amount of memory.
func TestConstantsOfAQueryAreBounded(t *testing.T) {
	const calls, size = 400, longestResult / 8
	q, err := Parse("SELECT VALUE " + strings.Repeat(`c.a = CONCAT(@p, @p) OR `, calls) + `c.a = "x" FROM c`)
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]json.RawMessage{"@p": json.RawMessage(`"` + strings.Repeat("x", size/2) + `"`)}
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	b, err := q.Bind(params)
	if err != nil {
		t.Fatal(err)
	}
	if kept := inUse() - before; kept > maxFoldedBytes+4*longestResult {
		t.Errorf("a query of %d constants of %d bytes keeps %d", calls, size, kept)
	}
	row, ok, err := b.Rows().Eval([]byte(`{"a":"x"}`))
	if err != nil || !ok || string(row) != "true" {
		t.Errorf("%s, %v (%v)", row, ok, err)
	}
}

// A long string is trimmed by a set of very many characters. The time must be
// proportional to the length of the string. Comparing each character with each of the set
// would take hours.
func TestTrimmingByManyCharactersTakesLinearTime(t *testing.T) {
	set := strings.Repeat("b", longestResult/4) + "a"
	item := json.RawMessage(`{"s":"` + strings.Repeat("a", longestResult/4) + `","set":"` + set + `"}`)
	got, err := rowsOf(`SELECT VALUE [TRIM(c.s, c.set), LTRIM(CONCAT(c.s, "x"), c.set), RTRIM("xé", c.set)] FROM c`, nil, item)
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], []any{"", "x", "xé"}) {
		t.Errorf("%.100v (%v)", got, err)
	}
}
