package query

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// keySetOf returns the key set of a condition as text. Each range has the form
// key:[from,to), and a ! at the end means that the set is exact.
func keySetOf(t *testing.T, where string, paths ...string) string {
	t.Helper()
	b := bindWith(t, "SELECT * FROM c WHERE "+where)
	sets, exact, ok := b.Among(pathsOf(paths))
	var parts []string
	for _, s := range sets {
		if s.From+"\x00" == s.To {
			parts = append(parts, fmt.Sprintf("%v:%s", s.Key, s.From))
			continue
		}
		parts = append(parts, fmt.Sprintf("%v:[%s,%s)", s.Key, strings.ReplaceAll(s.From, "\x00", "+"), strings.ReplaceAll(s.To, "\x00", "+")))
	}
	text := strings.Join(parts, " ")
	switch {
	case !ok:
		text = "all"
	case len(sets) == 0:
		text = "none"
	}
	if exact {
		return text + "!"
	}
	return text
}

func pathsOf(paths []string) (names [][]string) {
	for _, p := range paths {
		names = append(names, strings.Split(p, "/"))
	}
	return names
}

func bindWith(t *testing.T, text string) *Bound {
	t.Helper()
	q, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	b, err := q.Bind(map[string]json.RawMessage{"@s": json.RawMessage(`"s"`), "@n": json.RawMessage(`7`), "@l": json.RawMessage(`["x","y",1]`), "@t": json.RawMessage(`true`)})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b
}

// Each condition must have the given key set. A ! means that the set is exact: all of its
// documents satisfy the condition.
func TestConditionsRestrictKeysAndIDs(t *testing.T) {
	for where, want := range map[string]string{
		`c.pk = 'x'`: "[x]:[,)!", `@n = c["pk"]`: "[7]:[,)!", `c.pk = null`: "[<nil>]:[,)!", `c.pk = 'x' AND c.v = 1`: "[x]:[,)",
		`c.pk IN ('x', 1, true)`: "[x]:[,) [1]:[,) [true]:[,)!", `c.pk IN ('x', c.v)`: "all", `c.pk NOT IN ('x')`: "all", `ARRAY_CONTAINS(@l, c.pk)`: "[x]:[,) [y]:[,) [1]:[,)!",
		`c.id = 'x'`: "[]:x!", `c.id = 'x' AND c.pk = 'k'`: "[k]:x!", `c.id > 'x' AND c.pk = 'k'`: "[k]:[x+,)!", `'x' >= c.id AND 'b' < c.id`: "[]:[b+,x+)!",
		`c.id BETWEEN 'a' AND 'b'`: "[]:[a,b+)!", `STARTSWITH(c.id, 'x')`: "[]:[x,y)!", `STARTSWITH(c.id, @s, false) AND c.pk = 1`: "[1]:[s,t)!",
		`(c.id = @s AND c.pk = 1) OR (c.id = 'b' AND c.pk = 2) OR (c.id = 'b' AND c.pk = 2 AND c.v)`: "[1]:s [2]:b [2]:b",
		`c.pk = 'x' AND c.pk = 'y'`: "none!", `c.pk = 'x' AND c.id < ''`: "none!", `false`: "none!", `c.id = 5`: "none!", `c.id = 'a' AND c.id = 'b'`: "none!", `c.id > @n OR c.pk = undefined`: "none!",
		`c.pk = 'x' OR c.id = 'y'`: "[x]:[,) []:y!", `@t AND c.pk = 'x'`: "[x]:[,)!", `c.id IN ('a', 'b') AND c.pk IN (1, 2)`: "[1]:a [2]:a [1]:b [2]:b!",
		`c.id IN ('a', 'b') AND STARTSWITH(c.id, 'b')`: "[]:b!",
		// These conditions do not limit the keys or the ids, so their key set contains
		// all documents.
		`true`: "all!", `c.v`: "all", `c.pk = 'x' OR c.v`: "all", `NOT c.pk = 'x'`: "all", `c.pk != 'x'`: "all", `c.pk > 'x'`: "all", `c.pk = c.id`: "all", `c.pk = ['x']`: "all",
		`STARTSWITH(c.id, 'x', true)`: "all", `STARTSWITH(c.id, c.v)`: "all", `STARTSWITH(c.pk, 'x')`: "all", `c.pk[0] = 'x'`: "all", `c.pk.id = 'x'`: "all", `c = 'x'`: "all",
		`(c.pk = 'x') = false`: "all", `c.v ? c.pk = 'x' : true`: "all", `ARRAY_CONTAINS(@l, c.pk, true)`: "all", `ARRAY_CONTAINS(c.l, c.pk)`: "all", `c.id NOT BETWEEN 'a' AND 'b'`: "all",
		`c.id >= ''`: "all", `STARTSWITH(c.id, '')`: "all",
	} {
		if got := keySetOf(t, where, "pk"); got != want {
			t.Errorf("%s: %s, want %s", where, got, want)
		}
	}
	// A condition on a hierarchical key limits the documents only if it determines every
	// path. The partition key may be the id itself.
	for where, want := range map[string]string{
		`c.a = 1 AND c.b.c = 2`: "[1 2]:[,)!", `c.a = 1`: "all", `c.a = 1 AND c.id = 'x'`: "[]:x", `c.a IN (1, 2) AND c["b"]["c"] = 'z' AND c.id = 'x'`: "[1 z]:x [2 z]:x!", `c.a = 1 AND c.b = 2`: "all",
	} {
		if got := keySetOf(t, where, "a", "b/c"); got != want {
			t.Errorf("%s: %s, want %s", where, got, want)
		}
	}
	for where, want := range map[string]string{`c.id = 'x'`: "[x]:x!", `c.id > 'x'`: "[]:[x+,)!", `c.id = 5`: "none!", `c.id IN ('a', 'b')`: "[a]:a [b]:b!"} {
		if got := keySetOf(t, where, "id"); got != want {
			t.Errorf("the key is the id, %s: %s, want %s", where, got, want)
		}
	}
}

// A condition has more combinations of keys and ids than the limits allow. The analysis
// must return a larger set instead of taking longer.
func TestManyCombinationsRestrictLess(t *testing.T) {
	list := func(n int) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf("'v%d'", i))
		}
		return "(" + strings.Join(parts, ",") + ")"
	}
	b := bindWith(t, `SELECT * FROM c WHERE c.pk IN `+list(3000)+` AND c.id IN `+list(100))
	if sets, exact, ok := b.Among([][]string{{"pk"}}); len(sets) != 100 || exact || !ok || sets[0].Key != nil {
		t.Errorf("%d sets, %v, %v", len(sets), exact, ok)
	}
	b = bindWith(t, `SELECT * FROM c WHERE c.pk IN `+list(maxRanges+1))
	if sets, exact, ok := b.Among([][]string{{"pk"}}); len(sets) != 0 || exact || ok {
		t.Errorf("%d sets, %v, %v", len(sets), exact, ok)
	}
}

// Random conditions are evaluated for random documents. A document outside of the
// condition's key set must not satisfy it. If the set is exact, each document in it must
// satisfy it.
func TestNoDocumentIsMissedByItsKeyOrID(t *testing.T) {
	paths := pathsOf([]string{"pk", "k/x"})
	narrowed, exactly := 0, 0
	for seed := range uint64(4000) {
		w := writer{r: rand.New(rand.NewPCG(seed, 3))} //nolint:gosec // a repeatable test
		where := w.about(3)
		b := bindWith(t, "SELECT * FROM c WHERE "+where)
		use := paths[:1+seed%2]
		sets, exact, ok := b.Among(use)
		keys, keyed := b.Keys(use)
		if ok {
			narrowed++
		}
		if exact {
			exactly++
		}
		rows := b.Rows()
		for range 12 {
			doc := fmt.Sprintf(`{"id":%s,"pk":%s,"k":{"x":%s},"v":%s}`, w.pick(`""`, `"a"`, `"ab"`, `"b"`, `"s"`, `"x"`), w.keyValue(), w.keyValue(), w.keyValue())
			_, matches, err := rows.Eval([]byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			var d struct {
				ID string
				PK any
				K  struct{ X any }
			}
			if err := json.Unmarshal([]byte(doc), &d); err != nil {
				t.Fatal(err)
			}
			key := []any{d.PK, d.K.X}[:len(use)]
			inside := !ok || slices.ContainsFunc(sets, func(s DocumentSet) bool {
				return (s.Key == nil || reflect.DeepEqual(s.Key, key)) && d.ID >= s.From && (s.To == "" || d.ID < s.To)
			})
			if matches && !inside || exact && inside && !matches {
				t.Fatalf("seed %d: %s with paths %v is %v of %s; its sets %+v (exact %v) have it: %v", seed, where, use, matches, doc, sets, exact, inside)
			}
			if matches && keyed && !slices.ContainsFunc(keys, func(k []any) bool { return reflect.DeepEqual(k, key) }) {
				t.Fatalf("seed %d: %s is true of %s, whose key isn't among %v", seed, where, doc, keys)
			}
		}
	}
	if narrowed < 800 || exactly < 200 {
		t.Errorf("%d conditions were narrowed and %d exactly: too few", narrowed, exactly)
	}
}

// keyValue returns a random value of a key, among them two integers that are one float64.
func (w writer) keyValue() string {
	return w.pick(`"a"`, `"x"`, `1`, `7`, `null`, `true`, `["a"]`, `9007199254740992`, `9007199254740993`)
}

// about returns a random condition on keys, ids and other members.
func (w writer) about(depth int) string {
	path := func() string {
		return w.pick("c.id", "c.id", `c["id"]`, "c.pk", "c.pk", "c.k.x", `c["k"].x`, "c.v", "c.k")
	}
	v := func() string {
		return w.pick(`"a"`, `'ab'`, `"b"`, `1`, `9007199254740992`, `9007199254740993`, `@n`, `@s`, `null`, `""`, `c.v`, `undefined`, `["a"]`, `@t`)
	}
	if n := w.r.IntN(3); depth > 0 && n > 0 {
		return "(" + w.about(depth-1) + w.pick(" AND ", " AND ", " OR ") + w.about(depth-1) + w.pick("", "", " AND "+w.about(0), " OR "+w.about(0)) + ")"
	}
	switch w.r.IntN(8) {
	case 0, 1:
		return path() + " = " + v()
	case 2:
		return v() + w.pick(" = ", " < ", " <= ", " > ", " >= ", " != ") + path()
	case 3:
		return path() + w.pick(" < ", " <= ", " > ", " >= ") + v()
	case 4:
		return path() + w.pick(" IN (", " IN (", " NOT IN (") + v() + ", " + v() + ")"
	case 5:
		return "(" + path() + w.pick(" BETWEEN ", " BETWEEN ", " NOT BETWEEN ") + v() + " AND " + v() + ")"
	case 6:
		return "STARTSWITH(" + path() + ", " + v() + w.pick("", "", ", false", ", true") + ")"
	}
	return w.pick("NOT ("+path()+" = "+v()+")", "true", "false", "c.v", "ARRAY_CONTAINS(@l, "+path()+")", "ARRAY_CONTAINS(@l, "+path()+", true)")
}
