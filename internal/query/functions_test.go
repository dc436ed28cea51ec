package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// evaluate returns the value of an expression for one item as JSON, or "" if it is
// undefined.
func evaluate(t *testing.T, expression, item string) string {
	t.Helper()
	got, err := textsOf("SELECT VALUE "+expression+" FROM c", nil, json.RawMessage(item))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	if len(got) == 0 {
		return ""
	}
	return string(got[0])
}

const functionSample = `{"s":"aé😀b","e":"","n":5,"x":2.5,"z":null,"t":true,"a":[3,1,2],"m":[1,"1",[1],{"a":1,"b":2},null],"o":{"k":1,"é":[2]},"nan":"NaN"}`

// The map holds calls with unusual arguments, and their results according to the
// documentation's text. An empty result means undefined.
func TestFunctionsAtTheirEdges(t *testing.T) {
	for expression, want := range map[string]string{
		// Lengths and positions count characters and not bytes.
		`LENGTH(c.s)`: `4`, `LENGTH(c.n)`: ``, `LEFT(c.s, 3)`: `"aé😀"`, `RIGHT(c.s, 2)`: `"😀b"`, `LEFT(c.s, -1)`: `""`, `RIGHT(c.s, -1)`: `""`, `LEFT(c.s, 1.5)`: ``,
		`SUBSTRING(c.s, 1, 2)`: `"é😀"`, `SUBSTRING(c.s, 4, 1)`: `""`, `SUBSTRING(c.s, -1, 2)`: `""`, `SUBSTRING(c.s, 1, 99)`: `"é😀b"`, `SUBSTRING(c.s, 0.5, 1)`: ``, `SUBSTRING(c.n, 0, 1)`: ``, `SUBSTRING(c.s, 0, "1")`: ``,
		`INDEX_OF(c.s, "b")`: `3`, `INDEX_OF(c.s, "b", 3)`: `3`, `INDEX_OF(c.s, "", 4)`: `4`, `INDEX_OF(c.s, "a", 5)`: `-1`, `INDEX_OF(c.s, "a", -1)`: ``, `INDEX_OF(c.s, c.n)`: ``,
		`LASTINDEXOF(c.s, "b")`: `3`, `LASTINDEXOF("aXaXa", "aX", 2)`: `0`, `LASTINDEXOF("abc", "c", 99)`: `2`, `LASTINDEXOF("abc", "a", 0)`: `0`, `LASTINDEXOF("abc", "c", -1)`: ``,
		`REVERSE(c.s)`: `"b😀éa"`, `UPPER(c.s)`: `"AÉ😀B"`, `LOWER(c.missing)`: ``, `UPPER(null)`: ``,
		// These calls have strings as arguments.
		`CONCAT("a", c.s, c.e)`: `"aaé😀b"`, `CONCAT("a", 1)`: ``, `CONCAT("a", c.missing)`: ``, `CONCAT("a", null)`: ``,
		`REPLACE("aaa", "a", "bb")`: `"bbbbbb"`, `REPLACE("abc", "", "x")`: ``, `REPLACE("abc", "z", "x")`: `"abc"`,
		`REPLICATE("ab", 0)`: `""`, `REPLICATE("ab", -1)`: ``, `REPLICATE("", 1e300)`: `""`, `LENGTH(REPLICATE("é", 10000))`: `10000`, `REPLICATE("é", 10001)`: ``, `REPLICATE("ab", 5001)`: ``, `REPLICATE("ab", 1e300)`: ``, `REPLICATE(1, 2)`: ``,
		`TRIM("\t x \n")`: `"x"`, `LTRIM("ééx", "é")`: `"x"`, `TRIM("x", c.n)`: ``, `CONTAINS("AbC", "bc", true)`: `true`, `CONTAINS("AbC", "bc", null)`: ``, `STRINGEQUALS("É", "é", true)`: `true`, `STARTSWITH(c.n, "5")`: ``,
		`STRINGJOIN(["a", 1], ",")`: ``, `STRINGJOIN([], ",")`: `""`, `STRINGJOIN(c.o, ",")`: ``, `STRINGSPLIT("a,b,", ",")`: `["a","b",""]`, `STRINGSPLIT("\"", "x")`: `["\""]`, `STRINGSPLIT(1, ",")`: ``,
		// These calls convert strings to other values, or values to strings.
		`STRINGTONUMBER("1e999")`: ``, `STRINGTONUMBER("0x10")`: ``, `STRINGTONUMBER("")`: ``, `STRINGTONUMBER("-0.5e1")`: `-5`, `STRINGTONUMBER("1 2")`: ``, `STRINGTONUMBER(c.nan)`: ``, `STRINGTONUMBER("01")`: ``, `STRINGTONUMBER(5)`: ``, `STRINGTONUMBER("true")`: ``,
		`STRINGTOBOOLEAN("TRUE")`: ``, `STRINGTOBOOLEAN("tru")`: ``, `STRINGTONULL("nul")`: ``, `STRINGTOARRAY("[1,]")`: ``, `STRINGTOARRAY("{}")`: ``, `STRINGTOOBJECT("[]")`: ``, `STRINGTOOBJECT(" {\"a\":{\"b\":1}} ").a.b`: `1`, `STRINGTOARRAY("[1]]")`: ``,
		`TOSTRING(null)`: `"null"`, `TOSTRING({"a": [1, "x"]})`: `"{\"a\":[1,\"x\"]}"`, `TOSTRING(1e21)`: `"1e+21"`, `TOSTRING(STRINGTOARRAY("[ 1 , 2 ]"))`: `"[1,2]"`, `TOSTRING(c.missing)`: ``, `TOSTRING(c.s)`: `"aé😀b"`, `TOSTRING(-0.0)`: `"0"`,
		// These calls have arrays as arguments.
		`ARRAY_LENGTH(c.o)`: ``, `ARRAY_LENGTH(c.m)`: `5`, `ARRAY_CONCAT(c.a, [], [ [] ])`: `[3,1,2,[]]`, `ARRAY_CONCAT(c.a, c.z)`: ``, `ARRAY_CONCAT([], [])`: `[]`,
		`ARRAY_SLICE(c.a, 1)`: `[1,2]`, `ARRAY_SLICE(c.a, -9)`: `[3,1,2]`, `ARRAY_SLICE(c.a, 9)`: `[]`, `ARRAY_SLICE(c.a, 0, -1)`: `[]`, `ARRAY_SLICE(c.a, 0, 0)`: `[]`, `ARRAY_SLICE(c.a, 0.5)`: ``, `ARRAY_SLICE(c.a, 0, "1")`: ``, `ARRAY_SLICE(c.s, 0)`: ``,
		`ARRAY_CONTAINS(c.m, [1])`: `true`, `ARRAY_CONTAINS(c.m, null)`: `true`, `ARRAY_CONTAINS(c.m, {"b": 2.0}, true)`: `true`, `ARRAY_CONTAINS(c.m, c.missing)`: ``, `ARRAY_CONTAINS(c.s, "a")`: ``, `ARRAY_CONTAINS([{"a":1}], {"a":1,"b":2}, true)`: `false`,
		`ARRAY_CONTAINS_ANY(c.m, 9, {"b": 2, "a": 1})`: `true`, `ARRAY_CONTAINS_ALL(c.s, 1)`: ``, `ARRAY_CONTAINS_ALL(c.a, 1, 2, 3, 1, 2, 3, 1, 2, 3)`: `true`, `ARRAY_CONTAINS_ALL(c.a, 1, 2, 3, 1, 2, 3, 1, 2, 4)`: `false`, `ARRAY_CONTAINS_ANY(c.a, 4, 5, 6, 7, 8, 9, 10, 11, c.missing)`: ``,
		`ARRAY_MAX([])`: ``, `ARRAY_MAX(c.m)`: ``, `ARRAY_MIN([true, "a", false])`: `false`, `ARRAY_MAX([1e3, 999])`: `1000`, `ARRAY_SUM([])`: `0`, `ARRAY_AVG([])`: ``, `ARRAY_MEDIAN([])`: ``, `ARRAY_MEDIAN(c.a)`: `2`, `ARRAY_SUM([1e308, 1e308])`: ``, `ARRAY_SUM([null])`: ``, `ARRAY_AVG(c.o)`: ``,
		`CHOOSE(1.5, 1, 2)`: ``, `CHOOSE(-1, 1)`: ``, `CHOOSE("1", 1)`: ``, `CHOOSE(2, 1, c.missing)`: ``, `OBJECTTOARRAY(c.o)`: `[{"k":"k","v":1},{"k":"é","v":[2]}]`, `OBJECTTOARRAY(c.a)`: ``, `OBJECTTOARRAY(c.o, 1)`: ``, `OBJECTTOARRAY({})`: `[]`,
		`SETUNION([1, 1.0, "1"], [[1], [1], {"a":1,"b":2}, {"b":2,"a":1}])`: `[1,"1",[1],{"a":1,"b":2}]`, `SETINTERSECT(c.m, [{"b":2,"a":1}, null, null])`: `[{"b":2,"a":1},null]`, `SETDIFFERENCE(c.m, c.a)`: `["1",[1],{"a":1,"b":2},null]`, `SETEQUAL([], [])`: `true`, `SETEQUAL(c.a, c.n)`: ``, `SETUNION(c.a, null)`: ``,
		// These calls test the type of a value.
		`IS_INTEGER(1e300)`: `false`, `IS_INTEGER("1")`: `false`, `IS_DATETIME(c.missing)`: `false`, `IS_DATETIME("2024-02-30")`: `false`, `IS_DATETIME("2023-02-29")`: `false`, `IS_DATETIME("0000-01-01")`: `false`, `IS_DATETIME("2024-01-01T24:00:00")`: `false`, `IS_DATETIME("2024-01-01T23:59:60")`: `false`,
		`IS_DATETIME("2024-01-01T23:59:59.12345678")`: `false`, `IS_DATETIME("2024-01-01T23:59:59+01:00")`: `false`, `IS_DATETIME("2024-01-01ZZ")`: `false`, `IS_DATETIME("2024-01-01T")`: `false`, `IS_DATETIME("2024-01-01T23:59")`: `false`, `IS_DATETIME("+024-01-01")`: `false`, `IS_DATETIME(" 2024-01-01")`: `false`,
		`IIF(c.missing, 1, 2)`: `2`, `IIF(true, c.missing, 2)`: ``, `IIF(null, 1, c.s)`: `"aé😀b"`,
		// These calls have numbers as arguments.
		`ROUND(-2.5)`: `-3`, `ROUND(-0.4)`: `0`, `CEILING(-0.5)`: `0`, `TRUNC(-0.5)`: `0`, `SIGN(-0.0)`: `0`, `ABS("1")`: ``, `ABS(null)`: ``, `SQRT(-1)`: ``, `LOG(0)`: ``, `LOG(-1)`: ``, `LOG(8, 2)`: `3`, `LOG(8, 1)`: ``, `LOG(8, 0)`: `0`, `EXP(1000)`: ``, `POWER(0, -1)`: ``, `POWER(-8, 0.5)`: ``, `COT(0)`: ``, `ACOS(2)`: ``, `ATN2(0, -1)`: `3.1415926535897931`, `SQUARE(1e200)`: ``,
		`NUMBERBIN(-7, 5)`: `-10`, `NUMBERBIN(7)`: `7`, `NUMBERBIN(7.9)`: `7`, `NUMBERBIN("7")`: ``, `NUMBERBIN(7, "1")`: ``,
		`INTADD(9223372036854775807, 1)`: `-9223372036854775808`, `INTMUL(4611686018427387904, 4)`: `0`, `INTSUB(1, 1e300)`: ``, `INTDIV(-7, 2)`: `-3`, `INTMOD(-7, 2)`: `-1`, `INTDIV(1.5, 1)`: ``, `INTDIV(-9223372036854775808, -1)`: `-9223372036854775808`, `INTMOD(-9223372036854775808, -1)`: `0`,
		`INTBITLEFTSHIFT(1, 63)`: `-9223372036854775808`, `INTBITLEFTSHIFT(1, 64)`: ``, `INTBITRIGHTSHIFT(-16, 2)`: `-4`, `INTBITRIGHTSHIFT(1, -1)`: ``, `INTBITNOT(-1)`: `0`, `INTBITAND(c.t, 1)`: ``,
		// These calls have dates as arguments.
		`DATETIMEADD("mm", 1, "2024-01-31")`: `"2024-02-29T00:00:00.0000000Z"`, `DATETIMEADD("yyyy", 1, "2024-02-29T10:11:12.7")`: `"2025-02-28T10:11:12.7000000Z"`, `DATETIMEADD("m", -1, "2024-01-15")`: `"2023-12-15T00:00:00.0000000Z"`, `DATETIMEADD("dd", -1, "0001-01-01")`: ``, `DATETIMEADD("yy", 1, "9999-01-01")`: ``,
		`DATETIMEADD("ns", 199, "2024-01-01")`: `"2024-01-01T00:00:00.0000001Z"`, `DATETIMEADD("mcs", -1, "2024-01-01")`: `"2023-12-31T23:59:59.9999990Z"`, `DATETIMEADD("day", 1e18, "2024-01-01")`: ``, `DATETIMEADD("year", 1e18, "2024-01-01")`: ``, `DATETIMEADD("d", 0.5, "2024-01-01")`: ``, `DATETIMEADD("week", 1, "2024-01-01")`: ``, `DATETIMEADD("DD", 1, "2024-01-01")`: ``, `DATETIMEADD("dd", 1, "2024-1-1")`: ``,
		`DATETIMEDIFF("yyyy", "2023-12-31T23:59:59", "2024-01-01")`: `1`, `DATETIMEDIFF("hh", "2024-01-01T00:59:59", "2024-01-01T01:00:00")`: `1`, `DATETIMEDIFF("hh", "2024-01-01T00:00:00", "2024-01-01T00:59:59")`: `0`, `DATETIMEDIFF("dd", "1969-12-31T23:00:00", "1970-01-01")`: `1`, `DATETIMEDIFF("mm", "2024-03-01", "2023-12-31")`: `-3`, `DATETIMEDIFF("ns", "2024-01-01", "2024-01-01T00:00:00.0000001")`: `100`, `DATETIMEDIFF("dd", 1, "2024-01-01")`: ``,
		`DATETIMEBIN("2024-01-15", "mm")`: ``, `DATETIMEBIN("2024-01-15", "dd", 0)`: ``, `DATETIMEBIN("2024-01-15", "dd", -1)`: ``, `DATETIMEBIN("2024-01-15", "dd", 1.5)`: ``, `DATETIMEBIN("2024-01-15", "dd", 1, "1600-12-31")`: ``, `DATETIMEBIN("1969-12-31T22:10:00", "hh", 1)`: `"1969-12-31T22:00:00.0000000Z"`, `DATETIMEBIN("2024-01-15", "dd", 1e18)`: `"1970-01-01T00:00:00.0000000Z"`, `DATETIMEBIN("1969-01-15", "dd", 1e18)`: ``, `DATETIMEBIN("2024-01-15T00:00:00.1234567", "ns", 1)`: `"2024-01-15T00:00:00.1234567Z"`, `DATETIMEBIN("2024-01-15T00:00:00.1234567", "ms", 100)`: `"2024-01-15T00:00:00.1000000Z"`,
		`DATETIMEFROMPARTS(2024, 2, 29)`: `"2024-02-29T00:00:00.0000000Z"`, `DATETIMEFROMPARTS(2023, 2, 29)`: ``, `DATETIMEFROMPARTS(2023, 13, 1)`: ``, `DATETIMEFROMPARTS(2023, 1, 1, 24)`: ``, `DATETIMEFROMPARTS(2023, 1, 1, 0, 0, 0, 10000000)`: ``, `DATETIMEFROMPARTS(1, 1, 1)`: `"0001-01-01T00:00:00.0000000Z"`, `DATETIMEFROMPARTS(2023, 1.5, 1)`: ``, `DATETIMEFROMPARTS(10000, 1, 1)`: ``,
		`DATETIMEPART("yyyy", "1600-05-06")`: `1600`, `DATETIMEPART("dd", "1600-05-06")`: `6`, `DATETIMEPART("ns", "1969-12-31T23:59:59.9999999")`: `999999900`, `DATETIMEPART("dw", "2024-01-01")`: ``, `DAY("x")`: ``, `YEAR(c.n)`: ``,
		`DATETIMETOTICKS("1969-12-31T23:59:59.9999999")`: `-1`, `DATETIMETOTIMESTAMP("1969-12-31T23:59:59.9999999")`: `-1`, `DATETIMETOTICKS("9999-12-31T23:59:59.9999999Z") > 0`: `true`, `TICKSTODATETIME(1.5)`: ``, `TICKSTODATETIME(1e19)`: ``, `TICKSTODATETIME(2534023008000000000)`: ``, `TICKSTODATETIME(-1)`: `"1969-12-31T23:59:59.9999999Z"`, `TIMESTAMPTODATETIME(1e15)`: ``, `TIMESTAMPTODATETIME(-1)`: `"1969-12-31T23:59:59.9990000Z"`, `TIMESTAMPTODATETIME(-62135596800000)`: `"0001-01-01T00:00:00.0000000Z"`, `TIMESTAMPTODATETIME(253402300799999)`: `"9999-12-31T23:59:59.9990000Z"`, `TIMESTAMPTODATETIME("1")`: ``,
		`DATETIMEFORMAT("2024-03-05T13:07:09.0450000", "yy M d H h m s f FF fffffff FFFFFFF tt t")`: `"24 3 5 13 1 7 9 0 04 0450000 045 PM P"`, `DATETIMEFORMAT("2024-03-05", "dddd ddd MMMM MMM yyyyy")`: `"Tuesday Tue March Mar 02024"`, `DATETIMEFORMAT("2024-03-05", "'day' d \"of\" x fffffffff")`: `"day 5 of x fffffffff"`, `DATETIMEFORMAT("2024-03-05T00:00:00", "hh")`: `"12"`, `DATETIMEFORMAT("x", "yyyy")`: ``, `DATETIMEFORMAT("2024-03-05", 1)`: ``, `DATETIMEFORMAT("2024-03-05", "")`: `""`,
		// These expressions contain NaN and Infinity.
		`[NaN, Infinity, -Infinity]`: `["NaN","Infinity"]`, `NaN <= 1`: ``, `NaN < 1`: ``, `NaN = NaN`: `false`, `NaN != NaN`: `true`, `1 < Infinity`: `true`, `IS_NUMBER(NaN)`: `true`, `IS_FINITE_NUMBER(NaN)`: `false`, `IS_FINITE_NUMBER(Infinity)`: `false`, `IS_INTEGER(Infinity)`: `false`, `IS_DEFINED(Infinity + 1)`: `false`, `NaN.x`: ``, `c[NaN]`: ``,
		`ABS(NaN)`: ``, `REPLICATE("a", NaN)`: ``, `REPLICATE("a", Infinity)`: ``, `LEFT("a", NaN)`: ``, `SUBSTRING("a", 0, Infinity)`: ``, `ARRAY_SLICE(c.a, NaN)`: ``, `NUMBERBIN(NaN)`: ``, `NUMBERBIN(1, Infinity)`: ``, `TICKSTODATETIME(NaN)`: ``, `INTADD(Infinity, 1)`: ``, `CHOOSE(NaN, 1)`: ``, `SIN(Infinity)`: ``, `LOG(Infinity)`: ``,
		// These calls have a whole document as argument.
		`DOCUMENTID(c)`: ``, `DOCUMENTID(c.o)`: ``, `DOCUMENTID({"_rid": "36ZyAPW+uN8NAAAAAAAAAA=="})`: `13`, `DOCUMENTID({"_rid": "AAAAAA=="})`: ``, `DOCUMENTID({"_rid": "36ZyAPW-uN8BAAAAAAAAAA=="})`: `1`, `DOCUMENTID(1)`: ``,
	} {
		if got := evaluate(t, expression, functionSample); got != want {
			t.Errorf("%s is %s, want %s", expression, got, want)
		}
	}
}

// A call with constant arguments is computed when the query is bound, and a call with
// arguments from the document for each row. For the same arguments, both must have the
// same result.
func TestArgumentsFromDocumentsEqualConstants(t *testing.T) {
	compared := 0
	for _, e := range pageExamples(t) {
		q, err := Parse(e.Query)
		if err != nil {
			t.Fatal(err)
		}
		c, ok := q.q.Value.(*syntax.Call)
		if !ok || e.Data != nil {
			continue
		}
		var members, args []string
		for i, arg := range c.Args {
			args = append(args, fmt.Sprintf("c.a%d", i))
			if evaluate(t, "IS_DEFINED("+syntax.Format(arg)+")", `{}`) == "true" {
				members = append(members, fmt.Sprintf(`"a%d": %s`, i, evaluate(t, syntax.Format(arg), `{}`)))
			}
		}
		text := fmt.Sprintf("SELECT VALUE %s(%s) FROM c", c.Name, strings.Join(args, ", "))
		got, err := rowsOf(text, nil, json.RawMessage("{"+strings.Join(members, ",")+"}"))
		if err != nil || !sameToLastDigit(got, e.Result) {
			t.Errorf("%s of %v is %v (%v) and of constants %v", text, members, got, err, e.Result)
		}
		compared++
	}
	if compared < 400 {
		t.Errorf("only %d examples were compared", compared)
	}
}

func TestWrongNumbersOfArgumentsAreReported(t *testing.T) {
	for text, want := range map[string]string{
		`ABS()`: "The ABS function requires 1 argument.", `abs(1, 2)`: "The ABS function requires 1 argument.", `PI(1)`: "The PI function requires 0 arguments.", `NOW("dd")`: "The NOW function requires 0 or 2 arguments.",
		`CONCAT("a")`: "The CONCAT function requires 2 or more arguments.", `LOG(1, 2, 3)`: "The LOG function requires 1 to 2 arguments.", `IIF(true, 1)`: "The IIF function requires 3 arguments.", `SUBSTRING("a", 1)`: "The SUBSTRING function requires 3 arguments.",
	} {
		_, err := Parse("SELECT VALUE " + text + " FROM c")
		var e *syntax.Error
		if !errors.As(err, &e) || e.Code != syntax.CodeArguments || e.Message != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	_, err := Parse("SELECT VALUE ABSOLUTE(1) FROM c")
	var e *syntax.Error
	if !errors.As(err, &e) || e.Code != syntax.CodeFunction || e.Message != "'ABSOLUTE' is not a recognized built-in function name." || e.Near != "ABSOLUTE" {
		t.Errorf("an unknown function: %v", err)
	}
}

// A function that needs an index is called with any number of arguments. The call must be
// refused with an error that names the function.
func TestFunctionsThatNeedAnIndexAreRefusedByName(t *testing.T) {
	for name, f := range value.Functions {
		if f.Evaluated() {
			continue
		}
		_, err := Parse("SELECT VALUE " + name + "(c.a, 1) FROM c")
		var e *syntax.UnsupportedError
		if !errors.As(err, &e) || e.What != "the function "+name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every function is called with random arguments. It must return valid JSON or undefined,
// and must change neither its arguments nor the document.
func TestFunctionsOfAnythingReturnJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6)) //nolint:gosec // a repeatable test
	w := writer{r: r}
	values := []string{
		`"2024-02-29T01:02:03.4567890Z"`, `"dd"`, `"yyyy"`, `"ns"`, `"mm"`, `9e18`, `-9e18`, `1e300`, `-1`, `63`, `"[1, 2"`, `" [1, 2] "`, `"(?i)a+"`, `"x"`, `"ix"`, `"\\"`, `"'yy"`, `[]`, `{}`,
		`[3, 1e3, 1.0]`, `["a", "\u0000"]`, `"` + strings.Repeat("é", 300) + `"`, `{"_rid":"36ZyAPW+uN8NAAAAAAAAAA=="}`, `"9999-12-31"`, `"0001-01-01"`, `4e4`, `1e-300`,
	}
	for name, f := range value.Functions {
		if !f.Evaluated() {
			continue
		}
		for range 40 {
			n := r.IntN(12)
			for !f.Takes(n) {
				n = r.IntN(12)
			}
			var members, args []string
			for i := range n {
				args = append(args, fmt.Sprintf("c.a%d", i))
				v := values[r.IntN(len(values))]
				if r.IntN(3) == 0 {
					v = w.json(2)
				}
				if r.IntN(12) > 0 {
					members = append(members, fmt.Sprintf(`"a%d": %s`, i, v))
				}
			}
			text, doc := fmt.Sprintf("SELECT VALUE {v: %s(%s), c: c} FROM c", name, strings.Join(args, ", ")), "{"+strings.Join(members, ",")+"}"
			got, err := rowsOf(text, nil, json.RawMessage(doc))
			var e *EvaluationError
			if err != nil && (!errors.As(err, &e) || !strings.Contains(err.Error(), name)) {
				t.Fatalf("%s of %s: %v", text, doc, err)
			}
			if err != nil {
				continue
			}
			var item any
			if err := json.Unmarshal([]byte(doc), &item); err != nil {
				t.Fatal(err)
			}
			if row, ok := got[0].(map[string]any); !ok || !reflect.DeepEqual(row["c"], item) {
				t.Fatalf("%s changed %s to %v", text, doc, got[0])
			}
		}
	}
}

// Several goroutines evaluate one bound query at the same time. The race detector must
// find no race in the functions, some of which keep compiled patterns.
func TestCallsAreSafeForConcurrentUse(t *testing.T) {
	q, err := Parse(`SELECT VALUE [REGEXMATCH(c.s, c.p), REGEXMATCH(c.s, "^a"), CONCAT(c.s, c.p), SETUNION([c.s], [c.p]), UPPER(c.s)] FROM c`)
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rows, s := b.Rows(), strings.Repeat("a", g)
			doc, want := fmt.Appendf(nil, `{"s":"%s","p":"^a{%d}$"}`, s, g), fmt.Sprintf(`[true,%v,"%s^a{%d}$",["%s","^a{%d}$"],"%s"]`, g > 0, s, g, s, g, strings.ToUpper(s))
			for range 200 {
				if row, ok, err := rows.Eval(doc); err != nil || !ok || string(row) != want {
					t.Errorf("%s (%v), want %s", row, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A source in FROM may have the name of a named number, such as NaN. A named number
// itself cannot be a source.
func TestFROMMayUseTheNamesOfNumbers(t *testing.T) {
	got, err := rowsOf("SELECT VALUE NaN.a FROM NaN", nil, json.RawMessage(`{"a":1}`))
	if err != nil || !reflect.DeepEqual(got, []any{1.0}) {
		t.Errorf("%v (%v)", got, err)
	}
	_, err = rowsOf("SELECT VALUE x FROM c JOIN x IN Infinity", nil, json.RawMessage(`{"a":1}`))
	var e *syntax.Error
	if !errors.As(err, &e) || e.Code != syntax.CodeIdentifier {
		t.Errorf("a number as a source: %v", err)
	}
}

// A row with an infinite or NaN result of an operator is an error, wherever in the row it is.
// A condition may compute such a value, and so may a value that is not in the row.
func TestInfiniteResultsInRowsAreErrors(t *testing.T) {
	for text, refused := range map[string]bool{
		"SELECT 1/0 AS x, 1 AS y": true, "SELECT VALUE c.n / 0 FROM c": true, "SELECT VALUE c.n % 0 FROM c": true, "SELECT VALUE 1e308 * 10 FROM c": true,
		"SELECT VALUE [1, {'x': [1/0]}] FROM c": true, "SELECT VALUE (SELECT VALUE 1/0) FROM c": true, "SELECT COUNT(1)/0 AS x FROM c": true,
		"SELECT VALUE 1 FROM c WHERE 1/0 > 1 OR true": false, "SELECT VALUE LENGTH(TOSTRING(1/0)) FROM c": false, "SELECT VALUE IS_DEFINED(1/0) FROM c": false,
		"SELECT VALUE (SELECT VALUE SUM(x) FROM x IN c.big) FROM c": true, "SELECT {'x': (SELECT VALUE AVG(x) FROM x IN c.big)} AS y FROM c": true,
		"SELECT VALUE ARRAY(SELECT SUM(x) AS s FROM x IN c.big) FROM c": true, "SELECT VALUE MAX(x) FROM x IN c.big": false,
		"SELECT VALUE SUM(1e308) > 1 FROM c":           false,
		"SELECT VALUE ARRAY_LENGTH([c.n/0, 1]) FROM c": false, "SELECT VALUE 1 FROM c WHERE EXISTS(SELECT 1/0)": false, "SELECT VALUE 1/0 ?? 2 FROM c": false,
	} {
		_, err := rowsOf(text, nil, json.RawMessage(`{"n":5,"big":[1e308,1e308]}`))
		if !refused && err != nil || refused && !errors.Is(err, ErrNotFinite) {
			t.Errorf("%s: %v; refused: %t", text, err, refused)
		}
	}
	// The error of one document does not touch the next one.
	r := bindText(t, "SELECT VALUE 4 / c.n FROM c").Rows()
	if _, _, err := r.Eval([]byte(`{"n":0}`)); !errors.Is(err, ErrNotFinite) {
		t.Errorf("4 / 0: %v", err)
	}
	if row, ok, err := r.Eval([]byte(`{"n":2}`)); err != nil || !ok || string(row) != "2" {
		t.Errorf("4 / 2: %s, %v", row, err)
	}
}
