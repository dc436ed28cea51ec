package query

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// What the slow evaluator makes of the clauses of a SELECT: every list of rows is there as a whole, one clause after the other.

// results are the rows of a SELECT, without those that are undefined.
func (s slow) results(q *selectQuery) (results []any) {
	for _, row := range s.selecting(q) {
		v := row.projection(q)
		if isUndefined(v) || q.distinct && slices.ContainsFunc(results, func(w any) bool { return slowOrder(v, w) == 0 }) {
			continue
		}
		results = append(results, v)
	}
	return results
}

// selecting are what a SELECT's rows are made of: the rows behind WHERE, or one of each group of them.
func (s slow) selecting(q *selectQuery) []slow {
	rows := s.rows(q)
	if len(q.groupBy) > 0 || slowAggregates(q) {
		return s.groups(q, rows)
	}
	return rows
}

// rows are the combinations of what FROM has, of which WHERE is true.
func (s slow) rows(q *selectQuery) []slow { return s.filtered(q, s.combinations(q)) }

func (s slow) filtered(q *selectQuery, rows []slow) (kept []slow) {
	for _, r := range rows {
		if q.where == nil || r.eval(q.where) == any(true) {
			kept = append(kept, r)
		}
	}
	return kept
}

// allOfThem is the name of what SELECT * selects.
const allOfThem = "*"

func (s slow) combinations(q *selectQuery) []slow {
	s.group, s.grouped = nil, false
	rows := []slow{s}
	if q.from == nil {
		return rows
	}
	for i, src := range append([]*source{q.from}, q.from.joins...) {
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

// slowName is what a source is called.
func slowName(src *source) string {
	if src.alias != "" {
		return src.alias
	}
	switch e := src.collection.(type) {
	case *ident:
		return e.name
	case *member:
		return e.name
	}
	return ""
}

// source are the values that a source has.
func (s slow) source(src *source) (values []any) {
	if src.subquery != nil {
		values = s.results(src.subquery)
	} else if v := s.collection(src.collection); !isUndefined(v) {
		values = []any{v}
	}
	if !src.in {
		return values
	}
	var elements []any
	for _, v := range values {
		list, _ := v.([]any)
		elements = append(elements, list...)
	}
	return elements
}

// collection is the value of a path of FROM. A name that isn't known is the container's, and its items the documents.
func (s slow) collection(e expr) any {
	if name, ok := e.(*ident); ok {
		if v, known := s.names[name.name]; known {
			return v
		}
		return s.doc
	}
	m := e.(*member)
	with := s
	with.names = map[string]any{"base": s.collection(m.base)}
	return with.member(&member{base: &ident{name: "base"}, name: m.name, index: m.index})
}

// projection is what SELECT makes of a row.
func (s slow) projection(q *selectQuery) any {
	switch {
	case q.star:
		return s.names[allOfThem]
	case q.value != nil:
		return s.eval(q.value)
	}
	row := map[string]any{}
	for i, name := range outputNames(q.items) {
		if v := s.eval(q.items[i].e); !isUndefined(v) {
			row[name] = v
		}
	}
	return row
}

// groups puts rows together whose GROUP BY has the same values. The first of them stands for the group: its keys are those of all.
func (s slow) groups(q *selectQuery, rows []slow) (groups []slow) {
	s.group, s.grouped = nil, true
	if len(q.groupBy) == 0 {
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
		for _, e := range q.groupBy {
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

// slowAggregates says whether a SELECT has an aggregate.
func slowAggregates(q *selectQuery) (found bool) {
	var look func(e expr)
	look = func(e expr) {
		if c, ok := e.(*call); ok && slices.Contains([]string{"COUNT", "SUM", "AVG", "MIN", "MAX"}, strings.ToUpper(c.name)) {
			found = true
		}
		for _, child := range children(e) {
			look(child)
		}
	}
	if q.value != nil {
		look(q.value)
	}
	for _, it := range q.items {
		look(it.e)
	}
	return found
}

// aggregate is COUNT, SUM, AVG, MIN or MAX of what the group's rows make of an expression.
func (s slow) aggregate(name string, of expr) any {
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

func (s slow) subquery(e *subquery) any {
	if e.kind == "ALL" {
		for _, row := range s.combinations(e.q) {
			if e.q.where != nil && row.eval(e.q.where) == any(false) && !isUndefined(row.projection(e.q)) {
				return false
			}
		}
		return true
	}
	results := s.results(e.q)
	switch e.kind {
	case "EXISTS":
		return len(results) > 0
	case "ARRAY":
		return append([]any{}, results...)
	}
	if len(results) == 0 {
		return none{}
	}
	if e.kind == "LAST" {
		return results[len(results)-1]
	}
	return results[0]
}

// like tries every way in which a text may be as a pattern has it.
func (s slow) like(e *like) any {
	text, ok1 := s.eval(e.x).(string)
	pattern, ok2 := s.eval(e.pattern).(string)
	if !ok1 || !ok2 {
		return none{}
	}
	return slowLike([]rune(text), []rune(pattern), []rune(e.escape)) != e.not
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

// agree compares the two evaluators on one query over some documents: rows, and sort keys.
func agree(t *testing.T, text string, q *Query, b *Bound, params map[string]any, docs ...[]byte) (rows int) {
	t.Helper()
	var all []slow // the documents, each as a row of a container
	for _, doc := range docs {
		s := slow{params: params}
		if err := json.Unmarshal(doc, &s.doc); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	got, keys := fastRows(t, text, b, docs)
	var want []any
	if b.Shape().Grouped {
		want = slowGrouped(q.q, all)
		slices.SortFunc(got, slowOrder)
		slices.SortFunc(want, slowOrder)
	} else {
		for _, s := range all {
			want = append(want, s.results(q.q)...)
		}
	}
	if !slices.EqualFunc(got, want, sameValue) {
		t.Fatalf("%s\nof %s\nis %v,\nwant %v", text, docs, got, want)
	}
	if len(q.q.orderBy) == 0 || b.Shape().Grouped {
		return len(got)
	}
	n := 0
	for _, s := range all {
		for _, r := range s.rows(q.q) {
			if isUndefined(r.projection(q.q)) {
				continue
			}
			var key []byte
			for _, o := range q.q.orderBy {
				key = append(key, slowKey(t, r.eval(o.e), o.desc)...)
			}
			if string(key) != string(keys[n]) {
				t.Fatalf("%s\nof %s\nhas the key %x, want %x", text, docs, keys[n], key)
			}
			n++
		}
	}
	return len(got)
}

// sameValue compares decoded values; nil and empty lists are the same.
func sameValue(a, b any) bool { return reflect.DeepEqual(a, b) || slowOrder(a, b) == 0 }

// slowGrouped are the rows that several documents make together.
func slowGrouped(q *selectQuery, all []slow) (results []any) {
	var rows []slow
	for _, s := range all {
		rows = append(rows, s.rows(q)...)
	}
	if q.distinct {
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

// fastRows are the rows of the evaluator under test, decoded, with their sort keys.
func fastRows(t *testing.T, text string, b *Bound, docs [][]byte) (rows []any, keys [][]byte) {
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
	return rows, keys
}

// The matcher that tries everything is right itself.
func TestTheSlowLikeIsLike(t *testing.T) {
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
