package query_test

import (
	"encoding/json"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
)

// run returns the rows of a query over the documents docs as one JSON array. params maps
// the names of parameters to JSON.
func run(t *testing.T, text string, params map[string]string, docs ...string) string {
	t.Helper()
	raw := map[string]json.RawMessage{}
	for name, v := range params {
		raw[name] = json.RawMessage(v)
	}
	q, err := query.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	b, err := q.Bind(raw)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	rows := b.Rows()
	out := []json.RawMessage{}
	if b.Shape().Grouped {
		groups := rows.Groups(1000, nil)
		for _, d := range docs {
			if err := rows.Each([]byte(d), func() bool { groups.Add(); return true }); err != nil {
				t.Fatalf("%s of %s: %v", text, d, err)
			}
		}
		for _, row := range groups.Rows() {
			if row.Row != nil {
				out = append(out, row.Row)
			}
		}
		docs = nil
	}
	for _, d := range docs {
		row, ok, err := rows.Eval([]byte(d))
		if err != nil {
			t.Fatalf("%s of %s: %v", text, d, err)
		}
		if ok {
			out = append(out, append(json.RawMessage(nil), row...))
		}
	}
	text2, err := json.Marshal(out)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(text2)
}

const sample = `{"id":"x","n":5,"s":"Abc","b":true,"f":false,"z":null,"a":[1,"two",{"k":1,"l":2}],"o":{"p":{"q":7},"a b":"c"},"neg":-1.5,"esc":"a\"b\\c\u00e9"}`

// Each expression is evaluated over one sample document. The map holds its value as JSON,
// or "" for undefined, which returns no row.
func TestExpressionsHaveTheServicesValues(t *testing.T) {
	const undefined = ``
	for expression, want := range map[string]string{
		// These expressions are paths.
		`c.n`: `5`, `c["n"]`: `5`, `c.o.p.q`: `7`, `c.o["a b"]`: `"c"`, `c.a[1]`: `"two"`, `c.a[2].l`: `2`, `c['o']['p']`: `{"q":7}`,
		`c.missing`: undefined, `c.n.x`: undefined, `c.a[9]`: undefined, `c.a["0"]`: undefined, `c.o[0]`: undefined, `c.a[-1]`: undefined, `c.a[0.5]`: undefined,
		`c.esc`: `"a\"b\\c\u00e9"`, `c.a[c.a[0]]`: `"two"`, `c[c.missing]`: undefined, `{"a":[1,2]}.a[1]`: `2`, `c.o.p["q"]`: `7`,
		// These expressions are literals.
		`'it\'s "x"'`: `"it's \"x\""`, `"tab\tA\u00e9\ud83d\ude00"`: `"tab\tAé😀"`, `'\d'`: `"\\d"`, `1e3`: `1000`, `.5`: `0.5`, `-2`: `-2`, `1.5E-7`: `1.5e-7`, `1e21`: `1e+21`,
		`null`: `null`, `TRUE`: `true`, `undefined`: undefined, `[1,'a',[]]`: `[1,"a",[]]`, `{'a':1,"b":{}}`: `{"a":1,"b":{}}`, `[c.missing, 1]`: `[1]`, `{"a":c.missing,"b":c.n}`: `{"b":5}`,
		// These expressions compare values by = and !=.
		`c.n = 5`: `true`, `c.n = 5.0`: `true`, `c.n != 5`: `false`, `c.n <> 4`: `true`, `c.s = 'Abc'`: `true`, `c.s = 'abc'`: `false`,
		`c.n = '5'`: `false`, `c.n != '5'`: `true`, `c.s <> null`: `true`, `c.s = null`: `false`, `c.z = null`: `true`, `c.z <> null`: `false`,
		`c.missing = null`: undefined, `c.missing <> null`: undefined, `c.missing = c.missing`: undefined, `undefined = undefined`: undefined, `undefined != 1`: undefined,
		`c.b = true`: `true`, `c.b = c.f`: `false`, `c.b = 1`: `false`,
		`c.a = [1,"two",{"l":2,"k":1}]`: `true`, `c.a = [1,"two",{"l":2,"k":2}]`: `false`, `c.a != [1]`: `true`, `c.o = {"a b":"c","p":{"q":7.0}}`: `true`, `c.o = []`: `false`, `[] = []`: `true`, `{} != {}`: `false`, `[null] = [false]`: `false`,
		`0 = -0`: `true`,
		// These expressions compare values by <, <=, > and >=.
		`c.n < 6`: `true`, `c.n < '6'`: undefined, `c.n >= 5`: `true`, `c.n > null`: undefined, `c.s < 'Abd'`: `true`, `c.s <= 'Ab'`: `false`, `c.z >= null`: `true`, `c.z <= null`: `true`, `c.z < null`: `false`,
		`false < true`: `true`, `c.f >= c.b`: `false`, `c.a < c.a`: undefined, `c.a <= c.a`: undefined, `c.o > c.o`: undefined, `c.missing < 1`: undefined, `'Z' < 'a'`: `true`, `'é' > 'z'`: `true`,
		// These expressions use AND, OR and NOT.
		`true AND true`: `true`, `true AND false`: `false`, `false AND c.missing`: `false`, `c.missing AND false`: `false`, `true AND c.missing`: undefined, `c.missing AND c.missing`: undefined,
		`true OR c.missing`: `true`, `c.missing OR true`: `true`, `false OR c.missing`: undefined, `c.missing OR false`: undefined, `false OR false`: `false`,
		`c.n AND true`: undefined, `c.n AND false`: `false`, `c.n OR true`: `true`, `c.n OR false`: undefined,
		`NOT true`: `false`, `NOT c.missing`: undefined, `NOT c.n`: undefined, `NOT c.f AND true`: `true`, `NOT (c.n = 4)`: `true`, `NOT c.f OR c.missing`: `true`, `not not c.b`: `true`,
		`true OR true AND false`: `true`, `(true OR true) AND false`: `false`,
		// These expressions use IN and BETWEEN.
		`c.n IN (1,5)`: `true`, `c.n in (1,'5')`: `false`, `c.n NOT IN (1,2)`: `true`, `c.missing IN (1)`: undefined, `c.missing NOT IN (1)`: undefined, `c.n IN (c.missing, 5)`: `true`, `c.n IN (c.missing)`: `false`,
		`c.n IN (1,2,3,4,5,6,7,8,9)`: `true`, `c.s IN (1,2,3,4,5,6,7,8,9)`: `false`, `c.a IN (1,2,3,4,5,6,7,8,[1,"two",{"l":2,"k":1}])`: `true`,
		`c.n BETWEEN 5 AND 6`: `true`, `c.n BETWEEN 6 AND 7`: `false`, `c.n NOT BETWEEN 6 AND 7`: `true`, `c.s BETWEEN 'A' AND 'B'`: `true`, `c.n BETWEEN 'a' AND 'b'`: undefined, `c.n BETWEEN 6 AND 'b'`: `false`, `c.n BETWEEN 1 AND 9 AND c.b`: `true`, `c.missing BETWEEN 1 AND 2`: undefined,
		// These expressions use the operators on numbers.
		`c.n + 1`: `6`, `c.n - 1 * 2`: `3`, `(c.n - 1) * 2`: `8`, `c.n / 2`: `2.5`, `c.n % 3`: `2`, `-c.n`: `-5`, `+c.n`: `5`, `~c.n`: `-6`, `c.n & 4`: `4`, `c.n | 8`: `13`, `c.n ^ 1`: `4`, `c.n + '1'`: undefined, `IS_DEFINED(c.n / 0)`: `false`, `c.n / 0 > 1`: undefined, `c.missing + 1`: undefined, `-c.s`: undefined, `IS_DEFINED(1e308 * 10)`: `false`,
		`10 - 3 - 2`: `5`, `c.n -1`: `4`, `c.n = 2 + 3`: `true`, `0.1 + 0.2`: `0.30000000000000004`,
		`c.s || 'd'`: `"Abcd"`, `c.s || 1`: undefined, `'a' || 'b' || 'c'`: `"abc"`,
		`c.missing ?? c.n`: `5`, `c.z ?? 1`: `null`, `c.missing ?? c.missing`: undefined, `c.n ?? 1 ?? 2`: `5`,
		`c.b ? 1 : 2`: `1`, `c.missing ? 1 : 2`: `2`, `c.n ? 1 : 2`: `2`, `false ? 1 : false ? 2 : 3`: `3`,
		// These expressions call functions.
		`STARTSWITH(c.s, 'Ab')`: `true`, `startswith(c.s, 'ab')`: `false`, `STARTSWITH(c.s, 'aB', true)`: `true`, `STARTSWITH(c.s, 'Ab', false)`: `true`, `STARTSWITH(c.s, 'A', 1)`: undefined, `STARTSWITH(c.n, '5')`: undefined, `STARTSWITH(c.missing, '')`: undefined, `STARTSWITH(c.s, '')`: `true`,
		`ENDSWITH(c.s, 'bc')`: `true`, `ENDSWITH(c.s, 'BC', true)`: `true`, `CONTAINS(c.s, 'b')`: `true`, `CONTAINS(c.s, 'B')`: `false`, `CONTAINS(c.esc, '"b\\cé')`: `true`, `CONTAINS(c.s, c.missing)`: undefined,
		`IS_DEFINED(c.z)`: `true`, `IS_DEFINED(c.missing)`: `false`, `IS_NULL(c.z)`: `true`, `IS_NULL(c.missing)`: `false`, `IS_BOOL(c.f)`: `true`, `IS_BOOLEAN(c.f)`: `true`, `IS_NUMBER(c.n)`: `true`, `IS_NUMBER(c.s)`: `false`,
		`IS_STRING(c.s)`: `true`, `IS_ARRAY(c.a)`: `true`, `IS_OBJECT(c.o)`: `true`, `IS_OBJECT(c.a)`: `false`, `IS_PRIMITIVE(c.z)`: `true`, `IS_PRIMITIVE(c.a)`: `false`, `IS_PRIMITIVE(c.missing)`: `false`, `IS_INTEGER(c.n)`: `true`, `IS_INTEGER(c.neg)`: `false`, `IS_FINITE_NUMBER(c.neg)`: `true`, `IS_ARRAY(c.missing)`: `false`,
		`ARRAY_CONTAINS(c.a, 1)`: `true`, `ARRAY_CONTAINS(c.a, '1')`: `false`, `ARRAY_CONTAINS(c.a, {"k":1})`: `false`, `ARRAY_CONTAINS(c.a, {"k":1}, true)`: `true`, `ARRAY_CONTAINS(c.a, {"k":2}, true)`: `false`, `ARRAY_CONTAINS(c.a, {"l":2,"k":1})`: `true`, `ARRAY_CONTAINS(c.n, 1)`: undefined, `ARRAY_CONTAINS(c.missing, 1)`: undefined, `ARRAY_CONTAINS(c.a, c.missing)`: undefined, `ARRAY_CONTAINS([1,2,3], c.a[0])`: `true`, `ARRAY_CONTAINS(c.a, 'two', true)`: `true`,
		// Java's SDK writes such filters to resume a sorted query. They must be true for
		// a row with the same sort key, so that no such row is lost.
		`(c.n >= 5 OR IS_STRING(c.n) OR IS_ARRAY(c.n) OR IS_OBJECT(c.n))`:                            `true`,
		`(c.z >= null OR IS_BOOLEAN(c.z) OR IS_NUMBER(c.z) OR IS_STRING(c.z))`:                       `true`,
		`(c.s <= "Abc" OR NOT IS_DEFINED(c.s) OR IS_NULL(c.s) OR IS_BOOLEAN(c.s) OR IS_NUMBER(c.s))`: `true`,
		`(c.missing < 5 OR NOT IS_DEFINED(c.missing))`:                                               `true`,
		`((c.n = 5) AND (c.s >= "Abc" OR IS_ARRAY(c.s)))`:                                            `true`,
		`(true)`: `true`,
		`'it\u0027s \\ {documentdb-formattableorderbyquery-filter} " x' = 'a'`: `false`,
	} {
		t.Run(expression, func(t *testing.T) {
			want := "[" + want + "]"
			got := run(t, "SELECT VALUE "+expression+" FROM c", nil, sample)
			if got != want && !sameJSON(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, err1 := json.Marshal(x)
	q, err2 := json.Marshal(y)
	return err1 == nil && err2 == nil && string(p) == string(q)
}
