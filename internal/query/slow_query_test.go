package query

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// This part of the slow evaluator applies the clauses of a SELECT one after the other. It
// holds all rows between two clauses in memory.

// results returns the rows of a SELECT. It omits rows whose value is undefined.
func (s slow) results(q *syntax.Select) (results []any) {
	for _, row := range s.selecting(q) {
		v := row.projection(q)
		if isUndefined(v) || q.Distinct && slices.ContainsFunc(results, func(w any) bool { return slowOrder(v, w) == 0 }) {
			continue
		}
		results = append(results, v)
	}
	return results
}

// selecting returns the rows from which the select list computes its values: those that
// satisfy WHERE, or one for each group.
func (s slow) selecting(q *syntax.Select) []slow {
	rows := s.rows(q)
	if len(q.GroupBy) > 0 || slowAggregates(q) {
		return s.groups(q, rows)
	}
	return rows
}

// rows returns each combination of values of the sources in FROM that satisfies WHERE.
func (s slow) rows(q *syntax.Select) []slow { return s.filtered(q, s.combinations(q)) }

func (s slow) filtered(q *syntax.Select, rows []slow) (kept []slow) {
	for _, r := range rows {
		if q.Where == nil || r.eval(q.Where) == any(true) {
			kept = append(kept, r)
		}
	}
	return kept
}

// allOfThem is the name under which a row holds the value that SELECT * selects.
const allOfThem = "*"

func (s slow) combinations(q *syntax.Select) []slow {
	s.group, s.grouped = nil, false
	rows := []slow{s}
	if q.From == nil {
		return rows
	}
	for i, src := range append([]*syntax.Source{q.From}, q.From.Joins...) {
		var more []slow
		for _, r := range rows {
			for _, v := range r.source(src) {
				with := r
				with.names = maps.Clone(r.names)
				if with.names == nil {
					with.names = map[string]any{}
				}
				with.names[slowName(src)] = v
				if i == 0 {
					with.names[allOfThem] = v
				}
				more = append(more, with)
			}
		}
		rows = more
	}
	return rows
}

// slowName returns the name of a source: its alias, or the last name of its path.
func slowName(src *syntax.Source) string {
	if src.Alias != "" {
		return src.Alias
	}
	switch e := src.Collection.(type) {
	case *syntax.Ident:
		return e.Name
	case *syntax.Member:
		return e.Name
	}
	return ""
}

// source returns the values of a source of FROM.
func (s slow) source(src *syntax.Source) (values []any) {
	if src.Subquery != nil {
		values = s.results(src.Subquery)
	} else if v := s.collection(src.Collection); !isUndefined(v) {
		values = []any{v}
	}
	if !src.In {
		return values
	}
	var elements []any
	for _, v := range values {
		list, _ := v.([]any)
		elements = append(elements, list...)
	}
	return elements
}

// collection returns the value of a path in FROM. An unknown name means the container,
// whose items are the documents.
func (s slow) collection(e syntax.Expr) any {
	if name, ok := e.(*syntax.Ident); ok {
		if v, known := s.names[name.Name]; known {
			return v
		}
		return s.doc
	}
	m := e.(*syntax.Member)
	with := s
	with.names = map[string]any{"base": s.collection(m.Base)}
	return with.member(&syntax.Member{Base: &syntax.Ident{Name: "base"}, Name: m.Name, Index: m.Index})
}

// projection returns the value of the select list for a row.
func (s slow) projection(q *syntax.Select) any {
	switch {
	case q.Star:
		return s.names[allOfThem]
	case q.Value != nil:
		return s.eval(q.Value)
	}
	row := map[string]any{}
	for i, name := range syntax.OutputNames(q.Items) {
		if v := s.eval(q.Items[i].Expr); !isUndefined(v) {
			row[name] = v
		}
	}
	return row
}

// groups combines rows with equal values of the GROUP BY expressions. The first row of a
// group represents it.
func (s slow) groups(q *syntax.Select, rows []slow) (groups []slow) {
	s.group, s.grouped = nil, true
	if len(q.GroupBy) == 0 {
		if len(rows) > 0 {
			s.names = rows[0].names
		}
		s.group = rows
		return []slow{s}
	}
	var keys [][]any
rows:
	for _, r := range rows {
		key := []any{}
		for _, e := range q.GroupBy {
			key = append(key, r.eval(e))
		}
		for i := range groups {
			if slices.CompareFunc(keys[i], key, slowOrder) == 0 {
				groups[i].group = append(groups[i].group, r)
				continue rows
			}
		}
		first := r
		first.group, first.grouped = []slow{r}, true
		keys, groups = append(keys, key), append(groups, first)
	}
	return groups
}

// slowAggregates reports whether the select list calls an aggregate.
func slowAggregates(q *syntax.Select) (found bool) {
	var look func(e syntax.Expr)
	look = func(e syntax.Expr) {
		if c, ok := e.(*syntax.Call); ok && slices.Contains([]string{"COUNT", "SUM", "AVG", "MIN", "MAX"}, strings.ToUpper(c.Name)) {
			found = true
		}
		syntax.EachChild(e, func(child syntax.Expr) bool {
			look(child)
			return true
		})
	}
	if q.Value != nil {
		look(q.Value)
	}
	for _, it := range q.Items {
		look(it.Expr)
	}
	return found
}

// aggregate returns the value of COUNT, SUM, AVG, MIN or MAX over the rows of the current
// group. of is the argument.
func (s slow) aggregate(name string, of syntax.Expr) any {
	var values []any
	for _, r := range s.group {
		if v := r.eval(of); !isUndefined(v) {
			values = append(values, v)
		}
	}
	switch name {
	case "COUNT":
		return float64(len(values))
	case "SUM", "AVG":
		sum := 0.0
		for _, v := range values {
			n, ok := v.(float64)
			if !ok {
				return none{}
			}
			sum += n
		}
		if name == "SUM" {
			return sum
		}
		if len(values) == 0 {
			return none{}
		}
		return sum / float64(len(values))
	}
	if len(values) == 0 || slices.ContainsFunc(values, func(v any) bool { return slowRank(v) >= 6 }) {
		return none{}
	}
	if name == "MIN" {
		return slices.MinFunc(values, slowOrder)
	}
	return slices.MaxFunc(values, slowOrder)
}

func (s slow) subquery(e *syntax.Subquery) any {
	if e.Kind == "ALL" {
		for _, row := range s.combinations(e.Query) {
			if e.Query.Where != nil && row.eval(e.Query.Where) == any(false) && !isUndefined(row.projection(e.Query)) {
				return false
			}
		}
		return true
	}
	results := s.results(e.Query)
	switch e.Kind {
	case "EXISTS":
		return len(results) > 0
	case "ARRAY":
		return append([]any{}, results...)
	}
	if len(results) == 0 {
		return none{}
	}
	if e.Kind == "LAST" {
		return results[len(results)-1]
	}
	return results[0]
}

// like evaluates LIKE by trying all ways in which the text can match the pattern.
func (s slow) like(e *syntax.Like) any {
	text, ok1 := s.eval(e.X).(string)
	pattern, ok2 := s.eval(e.Pattern).(string)
	if !ok1 || !ok2 {
		return none{}
	}
	return slowLike([]rune(text), []rune(pattern), []rune(e.Escape)) != e.Not
}

func slowLike(text, pattern, escape []rune) bool {
	if len(pattern) == 0 {
		return len(text) == 0
	}
	rest := pattern[1:]
	switch c := pattern[0]; {
	case len(escape) > 0 && c == escape[0] && len(rest) > 0:
		return len(text) > 0 && text[0] == rest[0] && slowLike(text[1:], rest[1:], escape)
	case c == '%':
		for i := range len(text) + 1 {
			if slowLike(text[i:], rest, escape) {
				return true
			}
		}
		return false
	case c == '_':
		return len(text) > 0 && slowLike(text[1:], rest, escape)
	case c == '[' && slices.Contains(rest, ']'):
		end := slices.Index(rest, ']')
		set, not := rest[:end], false
		if len(set) > 0 && set[0] == '^' {
			set, not = set[1:], true
		}
		in := false
		for i := 0; i < len(set) && len(text) > 0; i++ {
			if i+2 < len(set) && set[i+1] == '-' {
				in = in || set[i] <= text[0] && text[0] <= set[i+2]
				i += 2
				continue
			}
			in = in || set[i] == text[0]
		}
		return len(text) > 0 && in != not && slowLike(text[1:], rest[end+1:], escape)
	default:
		return len(text) > 0 && text[0] == c && slowLike(text[1:], rest, escape)
	}
}

// agree evaluates a query for docs with both evaluators. It fails the test if their rows
// or sort keys differ, and returns the number of rows.
func agree(t *testing.T, text string, q *Query, b *Bound, params map[string]any, docs ...[]byte) (rows int) {
	t.Helper()
	var all []slow // the documents, each as a row of the container
	for _, doc := range docs {
		s := slow{params: params}
		if err := json.Unmarshal(doc, &s.doc); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	got, keys, refused := fastRows(t, text, b, docs)
	var want []any
	infinite := false // whether a row is infinite as a whole
	slowInfinite = false
	if b.Shape().Grouped {
		want = slowGrouped(q.q, all)
		slices.SortFunc(got, slowOrder)
		slices.SortFunc(want, slowOrder)
	} else {
		for _, s := range all {
			want = append(want, s.results(q.q)...)
			for _, r := range s.rows(q.q) {
				if v, ok := r.projection(q.q).(none); ok {
					infinite = infinite || v.infinite
				}
			}
		}
	}
	if refused && slowInfinite {
		return 0
	}
	if refused || infinite {
		t.Fatalf("%s\nof %s\nis refused: %t; a row is infinite: %t, some value: %t", text, docs, refused, infinite, slowInfinite)
	}
	if !slices.EqualFunc(got, want, sameValue) {
		t.Fatalf("%s\nof %s\nis %v,\nwant %v", text, docs, got, want)
	}
	if len(q.q.OrderBy) == 0 || b.Shape().Grouped {
		return len(got)
	}
	n := 0
	for _, s := range all {
		for _, r := range s.rows(q.q) {
			if isUndefined(r.projection(q.q)) {
				continue
			}
			var key []byte
			for _, o := range q.q.OrderBy {
				key = append(key, slowKey(t, r.eval(o.Expr), o.Desc)...)
			}
			if string(key) != string(keys[n]) {
				t.Fatalf("%s\nof %s\nhas the key %x, want %x", text, docs, keys[n], key)
			}
			n++
		}
	}
	return len(got)
}

// sameValue reports whether two decoded values are equal. A nil list equals an empty
// list.
func sameValue(a, b any) bool { return reflect.DeepEqual(a, b) || slowOrder(a, b) == 0 }

// slowGrouped returns the rows of a query with GROUP BY, aggregates or DISTINCT over all
// documents.
func slowGrouped(q *syntax.Select, all []slow) (results []any) {
	var rows []slow
	for _, s := range all {
		rows = append(rows, s.rows(q)...)
	}
	if q.Distinct {
		for _, r := range rows {
			if v := r.projection(q); !isUndefined(v) && !slices.ContainsFunc(results, func(w any) bool { return slowOrder(v, w) == 0 }) {
				results = append(results, v)
			}
		}
		return results
	}
	outside := slow{}
	if len(all) > 0 {
		outside.params = all[0].params
	}
	for _, g := range outside.groups(q, rows) {
		if v := g.projection(q); !isUndefined(v) {
			results = append(results, v)
		}
	}
	return results
}

// fastRows returns the decoded rows and sort keys from the evaluator of this package.
func fastRows(t *testing.T, text string, b *Bound, docs [][]byte) (rows []any, keys [][]byte, refused bool) {
	t.Helper()
	take := func(raw []byte) {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%s of %s makes %q: %v", text, docs, raw, err)
		}
		rows = append(rows, v)
	}
	r := b.Rows()
	var groups *Groups
	if b.Shape().Grouped {
		groups = r.Groups(1<<20, nil)
	}
	for _, doc := range docs {
		err := r.Each(doc, func() bool {
			if groups != nil {
				groups.Add()
				return true
			}
			if raw, ok := r.Row(); ok {
				take(raw)
				keys = append(keys, r.OrderKey(nil))
			}
			return true
		})
		if errors.Is(err, ErrNotFinite) {
			return nil, nil, true
		}
		if err != nil {
			t.Fatalf("%s of %s: %v", text, doc, err)
		}
	}
	if groups != nil {
		for _, row := range groups.Rows() {
			if row.Row != nil {
				take(row.Row)
			}
		}
	}
	return rows, keys, groups != nil && errors.Is(groups.Err(), ErrNotFinite)
}

// The slow evaluator's own LIKE must have the documented results, because other tests
// rely on it.
func TestSlowLike(t *testing.T) {
	for _, c := range []struct {
		text, pattern, escape string
		want                  bool
	}{
		{"", "", "", true},
		{"", "%", "", true},
		{"abc", "a%c", "", true},
		{"abc", "a_c", "", true},
		{"abc", "a_", "", false},
		{"abc", "[a-c]bc", "", true},
		{"abc", "[^a-c]bc", "", false},
		{"a%c", "a!%c", "!", true},
		{"abc", "a!%c", "!", false},
		{"a[c", "a[c", "", true},
		{"aXbXc", "a%X%c", "", true},
	} {
		if got := slowLike([]rune(c.text), []rune(c.pattern), []rune(c.escape)); got != c.want {
			t.Errorf("%q LIKE %q: %v", c.text, c.pattern, got)
		}
	}
}
