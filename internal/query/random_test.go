package query

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/race"
)

// writer creates random documents and queries. It uses few names and values, so that the
// queries often match documents.
type writer struct {
	r *rand.Rand
	// names are the names at which paths may begin, such as the alias of a source. If
	// nil, only c is used.
	names []string
	// plain is true if the writer must not create subqueries.
	plain bool
}

func (w writer) pick(list ...string) string { return list[w.r.IntN(len(list))] }

func (w writer) scalar() string {
	return w.pick(`null`, `true`, `false`, `0`, `1`, `-1`, `2.5`, `1e3`, `-0.0`, `9007199254740991`, w.string(), w.string(), w.string())
}

func (w writer) string() string {
	return w.pick(`""`, `"a"`, `"A"`, `"ab"`, `"b\"\\"`, `"é"`, `"\u0000x"`, `"😀"`, `"ﬀ"`)
}

func (w writer) json(depth int) string {
	switch n := w.r.IntN(10); {
	case depth == 0 || n < 6:
		return w.scalar()
	case n < 8:
		var parts []string
		for range w.r.IntN(4) {
			parts = append(parts, w.json(depth-1))
		}
		return "[" + strings.Join(parts, w.pick(",", " , ")) + "]"
	}
	return w.object(depth - 1)
}

var names = []string{"id", "a", "b", "c", "a b", "é", `q"`, "n1", "n2", "n3", "n4", "n5", "n6"}

func (w writer) object(depth int) string {
	var parts []string
	for _, name := range names {
		if w.r.IntN(3) > 0 {
			continue
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			panic(err)
		}
		v := w.json(depth)
		switch {
		case name == "id":
			v = w.scalar()
		case depth > 0 && (name == "a" || name == "b") && w.r.IntN(2) == 0: // for joins
			v = "[" + w.json(depth) + "," + w.scalar() + "," + w.json(depth) + "]"
		}
		parts = append(parts, string(quoted)+w.pick(":", " : ")+v)
	}
	w.r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return w.pick("{", "{ ") + strings.Join(parts, ",") + "}"
}

func (w writer) path() string {
	p := w.source()
	for range w.r.IntN(3) {
		p += w.pick("[@p]", "["+w.outer()[0]+".a]", ".id", ".a", "[1]")
	}
	return p
}

// source returns a random path for FROM.
func (w writer) source() string {
	p := w.pick(w.outer()...)
	for range w.r.IntN(3) {
		p += w.pick(".id", ".a", ".b", ".c", `["a b"]`, `['é']`, `["q\""]`, "[0]", "[1]", ".n1", ".n2", ".n3", ".n4", ".n5", ".n6", ".a", ".b")
	}
	return p
}

func (w writer) expr(depth int) string {
	if depth == 0 {
		return w.pick(w.path(), w.path(), w.path(), w.scalar(), "undefined", "@p", "@q")
	}
	x := func() string { return w.expr(w.r.IntN(depth)) }
	switch w.r.IntN(16) {
	case 12, 13:
		if !w.plain {
			return w.subquery(depth)
		}
		fallthrough
	case 14:
		return w.function(x)
	case 15:
		return "(" + x() + w.pick(" LIKE ", " NOT LIKE ") + w.pattern() + ")"
	case 0:
		return "(" + x() + " " + w.pick("AND", "OR", "and", "or") + " " + x() + " " + w.pick("AND", "OR") + " " + x() + ")"
	case 1, 2:
		return "(" + x() + w.pick(" = ", "!=", "<>", "<", "<=", ">", ">=") + x() + ")"
	case 3:
		return "(" + x() + w.pick("+", "-", "*", "/", "%", "&", "|", "^", "||", "??", "<<", ">>", ">>>") + " " + x() + ")"
	case 4:
		return w.pick("NOT ", "-", "+", "~") + "(" + x() + ")"
	case 5:
		list := x()
		for range w.r.IntN(12) {
			list += ", " + w.pick(w.scalar(), x())
		}
		return "(" + x() + w.pick(" IN ", " NOT IN ") + "(" + list + "))"
	case 6:
		return "(" + x() + w.pick(" BETWEEN ", " NOT BETWEEN ") + x() + " AND " + x() + ")"
	case 7:
		return w.pick("IS_DEFINED", "IS_NULL", "IS_BOOL", "IS_NUMBER", "IS_STRING", "IS_ARRAY", "IS_OBJECT", "IS_PRIMITIVE", "IS_INTEGER") + "(" + x() + ")"
	case 8:
		return w.pick("STARTSWITH", "ENDSWITH", "CONTAINS", "ARRAY_CONTAINS") + "(" + x() + ", " + x() + w.pick("", ", true", ", false", ", "+x()) + ")"
	case 9:
		return "[" + x() + ", " + x() + "]" + w.pick("", "", "[0]", "[1]", "[2]")
	case 10:
		return `{"a": ` + x() + `, b: ` + x() + "}" + w.pick("", ".a")
	}
	return "(" + x() + " ? " + x() + " : " + x() + ")"
}

// function returns a random call with a valid number of arguments.
func (w writer) function(x func() string) string {
	switch w.r.IntN(5) {
	case 0:
		return w.pick("LENGTH", "REVERSE", "UPPER", "LOWER", "TRIM", "ABS", "FLOOR", "CEILING", "TRUNC", "SQRT", "SQUARE", "SIGN", "ARRAY_LENGTH") + "(" + x() + ")"
	case 1:
		return w.pick("CONCAT", "ARRAY_CONCAT", "INDEX_OF", "STRINGEQUALS") + "(" + x() + ", " + x() + ")"
	case 2:
		return w.pick("LEFT", "RIGHT", "ARRAY_SLICE") + "(" + x() + ", " + w.pick("0", "1", "2", "5", x()) + ")"
	case 3:
		return w.pick("SUBSTRING(", "SUBSTRING(") + x() + ", " + w.pick("0", "1", x()) + ", " + w.pick("1", "2", x()) + ")"
	}
	return w.pick("IIF", "REPLACE") + "(" + x() + ", " + x() + ", " + x() + ")"
}

func (w writer) pattern() string {
	return w.pick(`"a%"`, `"%b"`, `"_"`, `"[a-b]%"`, `"[^a]%"`, `"%"`, `""`, `"a!%" ESCAPE '!'`, `"%\"%"`, `@p`, `"_b"`, `"%é%"`, `"[aA][bB]"`)
}

// condition returns a random expression that is often true.
func (w writer) condition(depth int) string {
	x := w.expr(depth)
	switch w.r.IntN(8) {
	case 0, 1:
		return "((" + x + ") ?? true)"
	case 2:
		return "NOT ((" + x + ") ?? false)"
	case 3:
		return "IS_DEFINED(" + w.path() + ") OR " + x
	case 4:
		return "(" + w.path() + w.pick(" != ", " >= ", " = ") + w.scalar() + ") ?? (" + x + ")"
	case 5:
		return "(" + x + " = 1) ? false : true"
	}
	return x
}

// under returns a writer whose paths begin with the given names.
func (w writer) under(names ...string) writer { return writer{r: w.r, names: names, plain: w.plain} }

// outer returns the names at which paths may begin.
func (w writer) outer() []string {
	if w.names == nil {
		return []string{"c"}
	}
	return w.names
}

// subquery returns a random subquery in place of a value.
func (w writer) subquery(depth int) string {
	name := w.pick("s", "t")
	in := w.under(append([]string{name, name}, w.outer()...)...)
	from := " FROM " + name + " IN " + w.pick(w.outer()[0]+".a", w.outer()[0]+".b", w.source())
	where := w.pick("", " WHERE "+in.condition(w.r.IntN(depth)))
	x := func() string { return w.pick(name, name, in.expr(w.r.IntN(depth))) }
	switch w.r.IntN(7) {
	case 0:
		return "EXISTS(SELECT VALUE " + x() + from + where + ")"
	case 1:
		return "ARRAY(SELECT " + w.pick("VALUE "+x(), "DISTINCT VALUE "+x(), x()+" AS k, "+x()+" AS l", "*") + from + where + ")"
	case 2:
		plain := in
		plain.plain = true
		return "(SELECT VALUE " + w.pick("COUNT", "SUM", "AVG", "MIN", "MAX") + "(" + w.pick(name, plain.expr(w.r.IntN(depth))) + ")" + w.pick("", " + 1") + from + where + ")"
	case 3:
		return "(SELECT " + w.pick("VALUE ", "") + w.expr(w.r.IntN(depth)) + " AS k)"
	case 4:
		return w.pick("FIRST", "LAST") + "(SELECT VALUE " + x() + from + where + ")"
	case 5:
		return "ALL(SELECT VALUE " + x() + from + where + ")"
	}
	inner := "(SELECT VALUE u FROM u IN " + w.source() + ")"
	return "ARRAY(SELECT VALUE " + x() + " FROM " + w.source() + " AS v JOIN " + name + " IN " + w.pick(inner, w.under("v").source()) + where + ")"
}

// from returns a random FROM, and a writer of expressions over the names in it. sorts
// reports whether the query may have ORDER BY.
func (w writer) from() (text string, in writer, sorts bool) {
	switch w.r.IntN(10) {
	case 0:
		return " FROM x IN c" + w.pick(".a", ".b", "[\"a b\"]", ".a.b", ""), w.under("x"), false
	case 1:
		return " FROM c JOIN x IN c" + w.pick(".a", ".b", ".c"), w.under("c", "x", "x"), true
	case 2:
		return " FROM c JOIN x IN c.a JOIN y IN " + w.pick("c.b", "x", "x.a"), w.under("c", "x", "y"), true
	case 3:
		return " FROM c JOIN (SELECT VALUE s FROM s IN c.a WHERE " + w.under("s", "c").condition(1) + ") AS x", w.under("c", "x"), true
	case 4:
		return " FROM c" + w.pick(".a", ".b", ".c[0]") + " AS x", w.under("x"), false
	case 5:
		return " FROM (SELECT VALUE r FROM r WHERE " + w.under("r").condition(1) + ") AS x", w.under("x"), false
	}
	return " FROM c", w, true
}

// simple returns a query with a single operation. In a larger query, other operations
// could hide a wrong result.
func (w writer) simple() string {
	x := func() string { return w.pick("c.a", "c.b", "c.a[0]", "c.a[1]", "c.b[0]", w.path(), w.scalar()) }
	switch w.r.IntN(10) {
	case 8:
		return "SELECT VALUE " + w.pick(w.string(), w.string(), "c.a") + " || " + w.pick(w.string(), `""`, "c.b") + " FROM c"
	case 9:
		return "SELECT VALUE [" + x() + ", " + x() + "][" + w.pick("0", "1", "2", "LENGTH("+w.string()+")") + "] FROM c"
	case 6:
		return "SELECT VALUE " + w.string() + " LIKE " + w.pattern() + " FROM c"
	case 7:
		return "SELECT VALUE " + w.pick("-1", "2.5", "1e3", "9007199254740991", "-7") + w.pick("<<", ">>", ">>>", "&", "|", "^", "%") + w.pick("0", "1", "-1", "33", "3") + " FROM c"
	case 0:
		return "SELECT VALUE " + w.subquery(1) + " FROM c"
	case 1:
		return "SELECT c.a AS k, COUNT(c.b) AS n, SUM(c.c) AS s, MIN(c.b) AS l, MAX(c.b) AS h, AVG(c.c) AS v FROM c GROUP BY c.a"
	case 2:
		return "SELECT DISTINCT VALUE " + w.pick("x", "x.a", "[x, c.b]") + " FROM c JOIN x IN c" + w.pick(".a", ".b")
	case 3:
		return "SELECT VALUE " + w.pick("COUNT", "SUM", "MIN", "MAX", "AVG") + "(" + w.pick("x", "x", "c.b", "x.a") + ") FROM c JOIN x IN c" + w.pick(".a", ".b")
	case 4:
		return "SELECT VALUE " + x() + w.pick("+", "-", "*", "/", "%", "&", "|", "^", "||", "??", "<<", ">>", ">>>", "=", "!=", "<", ">=") + " " + x() + " FROM c"
	}
	return "SELECT VALUE " + w.function(x) + " FROM c"
}

func (w writer) query() string {
	if w.r.IntN(4) == 0 {
		return w.simple()
	}
	from, in, sorts := w.from()
	text := "SELECT " + in.pick("VALUE "+in.expr(3), in.expr(2)+" AS x, "+in.expr(2)+" AS y")
	if from == " FROM c" && w.r.IntN(3) == 0 {
		text = "SELECT *"
	}
	groupBy := ""
	switch w.r.IntN(8) {
	case 0:
		text, groupBy = in.grouped()
		sorts = false
	case 1:
		text = "SELECT DISTINCT VALUE " + in.expr(2)
		sorts = false
	}
	text += from
	switch w.r.IntN(8) {
	case 0, 1:
	case 2: // SDKs read many items in this way
		terms := make([]string, 4*longList)
		for i := range terms {
			terms[i] = "(" + in.outer()[0] + ".id = " + w.string() + w.pick("", " AND "+in.expr(1)) + ")"
		}
		c := in.outer()[0]
		text += " WHERE " + strings.Join(terms, " OR ") + w.pick("", " OR "+c+".id IN ('a', 'A')", " OR "+c+".id IN (@p, 'a')", " AND "+c+".a = 1", " OR "+c+".b")
	default:
		text += " WHERE " + in.condition(4)
	}
	if sorts && w.r.IntN(2) == 0 {
		text += " ORDER BY c" + w.pick(".a", ".b", "[\"a b\"]", ".id", ".n1[0]") + w.pick("", " ASC", " DESC") + w.pick("", ", c.b DESC", ", c.c")
	}
	return text + groupBy
}

// grouped returns a random SELECT with aggregates, and its GROUP BY clause or "".
func (w writer) grouped() (text, groupBy string) {
	w.plain = true
	aggregate := func() string {
		return w.pick("COUNT", "count", "SUM", "AVG", "MIN", "MAX") + "(" + w.pick(w.expr(2), w.path(), w.path(), "1") + ")"
	}
	if w.r.IntN(2) == 0 {
		return "SELECT " + w.pick("VALUE "+aggregate(), aggregate()+" AS n, "+aggregate()+" + 1 AS m", "VALUE {\"n\": "+aggregate()+", \"m\": ["+aggregate()+"]}"), ""
	}
	key := w.pick(w.path(), w.path(), "LENGTH("+w.path()+")", w.path()+" > 1")
	second := w.path()
	switch w.r.IntN(3) {
	case 0:
		return "SELECT " + key + " AS k, " + aggregate() + " AS n", " GROUP BY " + key
	case 1:
		return "SELECT VALUE " + aggregate(), " GROUP BY " + key + ", " + second
	}
	return "SELECT " + key + " AS k, [" + second + ", " + aggregate() + "] AS l", " GROUP BY " + key + ", " + second
}

// Random queries are evaluated for random documents by the evaluator of this package and
// by the slow evaluator. Both must return the same rows, groups and sort keys.
func TestRandomQueriesAgreeWithTheSlowEvaluator(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, so the race detector finds nothing")
	}
	const queries, documents = 3000, 8
	rows, without := 0, 0
	for seed := range uint64(queries) {
		w := writer{r: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a repeatable test
		text := w.query()
		q, err := Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		raw := map[string]json.RawMessage{"@p": json.RawMessage(w.json(1)), "@q": json.RawMessage(w.json(2))}
		params := map[string]any{}
		for name, v := range raw {
			var decoded any
			if err := json.Unmarshal(v, &decoded); err != nil {
				t.Fatal(err)
			}
			params[name] = decoded
		}
		b, err := q.Bind(raw)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		// The query is printed and parsed again. The rows of the result are compared with
		// those of the slow evaluator below.
		printed, err := Parse(q.String())
		if err != nil || printed.String() != q.String() {
			t.Fatalf("seed %d: %s\nis printed as %s\nand parsed as %v (%v)", seed, text, q, printed, err)
		}
		again, err := printed.Bind(raw)
		if err != nil {
			t.Fatal(err)
		}
		docs := make([][]byte, documents)
		for i := range docs {
			docs[i] = []byte(w.object(3))
		}
		n := agree(t, fmt.Sprintf("seed %d: %s with %s", seed, text, raw), q, b, params, docs...)
		agree(t, fmt.Sprintf("seed %d, printed: %s", seed, q), q, again, params, docs...)
		if n > 0 {
			rows++
		} else {
			without++
		}
	}
	if rows < queries/4 || without < queries/20 {
		t.Errorf("%d queries have rows and %d have none: too one-sided", rows, without)
	}
}

// Sort keys of random values must be ordered as the values, ascending and descending.
// Arrays, and also objects, come in any order, but equal values must have equal keys.
func TestOrderKeysOrderAsTheValues(t *testing.T) {
	w := writer{r: rand.New(rand.NewPCG(7, 7))} //nolint:gosec // a repeatable test
	rows := bindText(t, `SELECT * FROM c ORDER BY c.v`).Rows()
	down := bindText(t, `SELECT * FROM c ORDER BY c.v DESC`).Rows()
	key := func(r *Rows, v any) []byte {
		doc := []byte(`{}`)
		if !isUndefined(v) {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			doc = fmt.Appendf(nil, `{"v":%s}`, text)
		}
		if _, _, err := r.Eval(doc); err != nil {
			t.Fatal(err)
		}
		return r.OrderKey(nil)
	}
	some := func() any {
		if w.r.IntN(20) == 0 {
			return none{}
		}
		var v any
		if err := json.Unmarshal([]byte(w.json(2)), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for range 20000 {
		a, b := some(), some()
		want := cmp.Compare(slowSortOrder(t, a, b), 0)
		if got := bytes.Compare(key(rows, a), key(rows, b)); got != want {
			t.Fatalf("%v and %v compare as %d, want %d", a, b, got, want)
		}
		if got := bytes.Compare(key(down, a), key(down, b)); got != -want {
			t.Fatalf("descending, %v and %v compare as %d, want %d", a, b, got, -want)
		}
	}
}

func bindText(t *testing.T, text string) *Bound {
	t.Helper()
	q, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	b, err := q.Bind(nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b
}
