package query

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// writer makes random documents and queries of few names and values, so that
// they meet.
type writer struct{ r *rand.Rand }

func (w writer) pick(list ...string) string { return list[w.r.IntN(len(list))] }

func (w writer) scalar() string {
	return w.pick(`null`, `true`, `false`, `0`, `1`, `-1`, `2.5`, `1e3`, `-0.0`, `9007199254740993`, w.string(), w.string(), w.string())
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
		if name == "id" {
			v = w.scalar()
		}
		parts = append(parts, string(quoted)+w.pick(":", " : ")+v)
	}
	w.r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return w.pick("{", "{ ") + strings.Join(parts, ",") + "}"
}

func (w writer) path() string {
	p := "c"
	for range w.r.IntN(4) {
		p += w.pick(".id", ".a", ".b", ".c", `["a b"]`, `['é']`, `["q\""]`, "[0]", "[1]", ".n1", ".n2", ".n3", ".n4", ".n5", ".n6", "[@p]", "[c.a]")
	}
	return p
}

func (w writer) expr(depth int) string {
	if depth == 0 {
		return w.pick(w.path(), w.path(), w.path(), w.scalar(), "undefined", "@p", "@q")
	}
	x := func() string { return w.expr(w.r.IntN(depth)) }
	switch w.r.IntN(12) {
	case 0:
		return "(" + x() + " " + w.pick("AND", "OR", "and", "or") + " " + x() + " " + w.pick("AND", "OR") + " " + x() + ")"
	case 1, 2:
		return "(" + x() + w.pick(" = ", "!=", "<>", "<", "<=", ">", ">=") + x() + ")"
	case 3:
		return "(" + x() + w.pick("+", "-", "*", "/", "%", "&", "|", "^", "||", "??") + " " + x() + ")"
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
		return "[" + x() + ", " + x() + "]"
	case 10:
		return `{"a": ` + x() + `, b: ` + x() + "}" + w.pick("", ".a")
	}
	return "(" + x() + " ? " + x() + " : " + x() + ")"
}

func (w writer) query() string {
	text := w.pick("SELECT *", "SELECT VALUE "+w.expr(3), "SELECT "+w.expr(2)+" AS x, "+w.expr(2)+" AS y") + " FROM c"
	switch w.r.IntN(8) {
	case 0, 1:
	case 2: // how SDKs read many items
		terms := make([]string, 4*longList)
		for i := range terms {
			terms[i] = "(c.id = " + w.string() + w.pick("", " AND "+w.expr(1)) + ")"
		}
		text += " WHERE " + strings.Join(terms, " OR ") + w.pick("", " OR c.id IN ('a', 'A')", " OR c.id IN (@p, 'a')", " AND c.a = 1", " OR c.b")
	default:
		text += " WHERE " + w.expr(4)
	}
	if w.r.IntN(2) == 0 {
		text += " ORDER BY c" + w.pick(".a", ".b", "[\"a b\"]", ".id", ".n1[0]") + w.pick("", " ASC", " DESC") + w.pick("", ", c.b DESC", ", c.c")
	}
	return text
}

// The evaluator over stored bytes and the slow one agree on random queries and
// documents: rows and sort keys.
func TestRandomQueriesAgreeWithTheSlowEvaluator(t *testing.T) {
	const queries, documents = 1500, 8
	rowsSeen, noRows := 0, 0
	for seed := range uint64(queries) {
		w := writer{rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a repeatable test
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
		// What is printed is the same query.
		printed, err := Parse(q.String())
		if err != nil || printed.String() != q.String() {
			t.Fatalf("seed %d: %s\nis printed %s\nand read as %v (%v)", seed, text, q, printed, err)
		}
		rows := b.Rows()
		for range documents {
			doc := []byte(w.object(3))
			agree(t, fmt.Sprintf("seed %d: %s with %s", seed, text, raw), q, rows, params, doc)
			agree(t, fmt.Sprintf("seed %d, printed: %s", seed, q), printed, rows, params, doc)
			if _, ok, _ := rows.Eval(doc); ok {
				rowsSeen++
			} else {
				noRows++
			}
		}
	}
	if rowsSeen < documents*queries/10 || noRows < documents*queries/10 {
		t.Errorf("%d documents made a row and %d didn't: the queries are too one-sided", rowsSeen, noRows)
	}
}

// Keys order values as ORDER BY does, in both directions, and equal values have
// equal keys.
func TestOrderKeysOrderAsTheValues(t *testing.T) {
	w := writer{rand.New(rand.NewPCG(7, 7))} //nolint:gosec // a repeatable test
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
		want := cmp.Compare(slowOrder(a, b), 0)
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
