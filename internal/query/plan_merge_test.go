package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The functions below implement a client that merges the rows of the ranges of a plan. It
// is as simple as possible and holds all rows before it merges them.

// ranged returns the rows of a query over the documents of one range, as a server returns
// them to a client with a plan: sorted, and limited by TOP and LIMIT.
func ranged(t *testing.T, b *Bound, docs [][]byte) (rows []any) {
	t.Helper()
	s := b.Shape()
	decoded := func(raw []byte) any {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%s: %q: %v", b.q.String(), raw, err)
		}
		return v
	}
	r := b.Rows()
	sorter := b.NewSorter(1<<20, nil)
	var groups *Groups
	if s.Grouped {
		groups = r.Groups(1<<20, nil)
	}
	for n, doc := range docs {
		at := Position{Tie: uint64(n)} //nolint:gosec // documents are numbered in order
		err := r.Each(doc, func() bool {
			if groups != nil {
				groups.Add()
			} else if raw, ok := r.Row(); ok && len(s.OrderBy) == 0 {
				rows = append(rows, decoded(raw))
			} else if ok {
				at.Key = r.OrderKey(nil)
				sorter.Add(at, raw)
				at.Row++
			}
			return true
		})
		if err != nil {
			t.Skip(err) // a scalar subquery with several rows
		}
	}
	sorted := sorter.Rows()
	if groups != nil {
		sorted = groups.Rows()
	}
	for _, row := range sorted {
		if row.Row != nil {
			rows = append(rows, decoded(row.Row))
		}
	}
	return counted(rows, s.Offset, s.Limit, s.Top)
}

// counted returns the rows that remain after OFFSET, LIMIT and TOP.
func counted(rows []any, offset, limit, top *int64) []any {
	if offset != nil {
		rows = rows[min(int64(len(rows)), *offset):]
	}
	for _, n := range []*int64{limit, top} {
		if n != nil {
			rows = rows[:min(int64(len(rows)), *n)]
		}
	}
	return rows
}

// merged merges the rows of several ranges as a client does, according to info.
func merged(t *testing.T, info Info, ranges [][]any) (rows []any) {
	t.Helper()
	for _, r := range ranges {
		rows = append(rows, r...)
	}
	switch {
	case len(info.OrderBy) > 0:
		rows = mergedOrder(t, info, rows)
	case len(info.Aggregates)+len(info.GroupByAliasToAggregateType)+len(info.GroupByExpressions) > 0:
		rows = mergedGroups(t, info, rows)
	}
	if info.DistinctType != distinctNone {
		var different []any
		for _, v := range rows {
			if !slices.ContainsFunc(different, func(w any) bool { return slowOrder(v, w) == 0 }) {
				different = append(different, v)
			}
		}
		rows = different
	}
	return counted(rows, info.Offset, info.Limit, info.Top)
}

func memberOf(v any, name string) any {
	m, _ := v.(map[string]any)
	if x, ok := m[name]; ok {
		return x
	}
	return none{}
}

func mergedOrder(t *testing.T, info Info, rows []any) (payloads []any) {
	t.Helper()
	slices.SortStableFunc(rows, func(a, b any) int {
		x, y := memberOf(a, "orderByItems").([]any), memberOf(b, "orderByItems").([]any)
		for i, direction := range info.OrderBy {
			if c := slowSortOrder(t, memberOf(x[i], "item"), memberOf(y[i], "item")); c != 0 {
				if direction == "Descending" {
					return -c
				}
				return c
			}
		}
		c := slowOrder(memberOf(a, "_rid"), memberOf(b, "_rid"))
		if info.OrderBy[0] == "Descending" {
			return -c
		}
		return c
	})
	for _, row := range rows {
		payloads = append(payloads, memberOf(row, "payload"))
	}
	return payloads
}

// mergedGroups combines the partial aggregates of several ranges into one row for each
// group.
func mergedGroups(t *testing.T, info Info, rows []any) (results []any) {
	t.Helper()
	var keys []any
	groups := map[int][]any{} // payloads
	for _, row := range rows {
		var key any
		payload := row
		if len(info.GroupByExpressions) > 0 {
			key = memberOf(row, "groupByItems")
		}
		if len(info.GroupByExpressions) > 0 || !info.HasSelectValue {
			payload = memberOf(row, "payload")
		}
		i := slices.IndexFunc(keys, func(k any) bool { return slowOrder(k, key) == 0 })
		if i < 0 {
			i, keys = len(keys), append(keys, key)
		}
		groups[i] = append(groups[i], payload)
	}
	for i := range keys {
		if v := mergedGroup(t, info, groups[i]); !isUndefined(v) {
			results = append(results, v)
		}
	}
	return results
}

func mergedGroup(t *testing.T, info Info, payloads []any) any {
	t.Helper()
	if info.HasSelectValue {
		if len(info.Aggregates) == 0 {
			return payloads[0]
		}
		parts := make([]any, len(payloads))
		for i, p := range payloads {
			list, ok := p.([]any)
			if !ok || len(list) != 1 {
				t.Fatalf("a partial aggregate is %v", p)
			}
			parts[i] = list[0]
		}
		return mergedAggregate(info.Aggregates[0], parts)
	}
	row := map[string]any{}
	for alias, of := range info.GroupByAliasToAggregateType {
		parts := make([]any, len(payloads))
		for i, p := range payloads {
			parts[i] = memberOf(p, alias)
		}
		v := parts[0]
		if of != nil {
			v = mergedAggregate(*of, parts)
		}
		if !isUndefined(v) {
			row[alias] = v
		}
	}
	return row
}

func mergedAggregate(of string, parts []any) any {
	sum, count := 0.0, 0.0
	var best any = none{}
	for _, part := range parts {
		item := memberOf(part, "item")
		switch of {
		case "Count", "Sum":
			n, ok := item.(float64)
			if !ok {
				return none{}
			}
			sum += n
		case "Average":
			if n := memberOf(item, "count").(float64); n > 0 {
				s, ok := memberOf(item, "sum").(float64)
				if !ok {
					return none{}
				}
				sum, count = sum+s, count+n
			}
		default:
			item2 := memberOf(part, "item2")
			if memberOf(item2, "count") == any(0.0) {
				continue
			}
			v := memberOf(item2, strings.ToLower(of))
			if isUndefined(v) {
				return none{}
			}
			if c := slowOrder(v, best); isUndefined(best) || (c < 0) == (of == "Min") && c != 0 {
				best = v
			}
		}
	}
	switch {
	case of == "Count" || of == "Sum":
		return sum
	case of == "Average" && count > 0:
		return sum / count
	case of == "Average":
		return none{}
	}
	return best
}

// about rounds the numbers in v to fewer digits. The sum of the ranges' sums may differ
// from the sum over all documents in its last digits.
func about(v any) any {
	switch v := v.(type) {
	case float64:
		if a := math.Abs(v); a > 0 && !math.IsInf(v, 0) {
			unit := math.Pow(10, math.Floor(math.Log10(a))-8)
			return math.Round(v/unit) * unit
		}
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = about(x)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, x := range v {
			m[name] = about(x)
		}
		return m
	}
	return v
}

// holdPlan splits docs into two ranges, queries each by the plan and merges the rows. It
// fails the test if they differ from the rows of the query over all documents. planned is
// false if the query is invalid or has no plan.
func holdPlan(t *testing.T, text string, docs [][]byte, params map[string]json.RawMessage) (planned bool) {
	t.Helper()
	q, err := Parse(text)
	if err != nil {
		return false
	}
	b, err := q.Bind(params)
	if err != nil || b.Shape().NoSource {
		return false
	}
	plan, err := b.Plan(Keys{})
	if refused := (*PlanError)(nil); errors.As(err, &refused) {
		return false
	}
	if err != nil {
		if len(b.q.String()) > 64<<10 || b.q.Depth() > 20 {
			return false // the rewritten text is longer and deeper
		}
		t.Fatalf("%s: %v", text, err)
	}
	part := b
	if rewritten := plan.QueryInfo.RewrittenQuery; rewritten != "" {
		again, err := Parse(strings.ReplaceAll(rewritten, orderFilter, "true"))
		if err != nil {
			t.Fatalf("%s is rewritten as\n%s: %v", text, rewritten, err)
		}
		if part, err = again.Bind(params); err != nil {
			t.Fatalf("%s is rewritten as\n%s: %v", text, rewritten, err)
		}
	}
	half := len(docs) / 2
	want := ranged(t, b, docs)
	got := merged(t, plan.QueryInfo, [][]any{ranged(t, part, docs[:half]), ranged(t, part, docs[half:])})
	s := b.Shape()
	if s.Grouped && (s.Top != nil || s.Limit != nil) {
		if len(got) != len(want) { // the query may choose any rows
			t.Fatalf("%s\nrewritten as\n%s\nof %s\nhas %d merged rows, want %d", text, plan.QueryInfo.RewrittenQuery, docs, len(got), len(want))
		}
		return true
	}
	for _, list := range [][]any{got, want} {
		for i := range list {
			list[i] = about(list[i])
		}
		if s.Grouped {
			slices.SortFunc(list, slowOrder)
		}
	}
	if !slices.EqualFunc(got, want, func(a, b any) bool { return slowOrder(a, b) == 0 }) {
		t.Fatalf("%s\nrewritten as\n%s\nof %s\nis merged as %v,\nwant %v", text, plan.QueryInfo.RewrittenQuery, docs, got, want)
	}
	return true
}

// numbered returns n random documents, in the order of their _rid.
func (w writer) numbered(n int) [][]byte {
	docs := make([][]byte, n)
	for i := range docs {
		doc := strings.TrimSpace(w.object(3))
		comma := ","
		if strings.TrimSpace(doc[1:]) == "}" {
			comma = ""
		}
		docs[i] = fmt.Appendf(nil, `%s%s"_rid":"r%03d"}`, doc[:len(doc)-1], comma, i)
	}
	return docs
}

// planned returns a random query, often with TOP or OFFSET LIMIT.
func (w writer) planned() string {
	text := w.query()
	switch {
	case w.r.IntN(4) == 0:
		text += w.pick(" OFFSET 0 LIMIT 3", " OFFSET 2 LIMIT 4", " OFFSET 1 LIMIT 0")
	case w.r.IntN(4) == 0 && !strings.HasPrefix(text, "SELECT DISTINCT"):
		text = "SELECT " + w.pick("TOP 3 ", "TOP 1 ", "TOP 0 ") + strings.TrimPrefix(text, "SELECT ")
	}
	return text
}

// Random queries are answered in two ways: by merging the rows of two ranges according to
// the plan, and by a query over all documents. Both must have the same rows.
func TestMergedPlansEqualTheQuery(t *testing.T) {
	planned := 0
	const queries = 1200
	for seed := range uint64(queries) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := writer{r: rand.New(rand.NewPCG(seed, 17))} //nolint:gosec // a repeatable test
			text := w.planned()
			params := map[string]json.RawMessage{"@p": json.RawMessage(w.json(1)), "@q": json.RawMessage(w.json(2))}
			if holdPlan(t, text, w.numbered(10), params) {
				planned++
			}
		})
	}
	if planned < queries/2 {
		t.Errorf("%d of %d queries have a plan: too few", planned, queries)
	}
}

// FuzzPlan checks random queries. The text that a plan sends to the ranges must be a
// valid query. Merging the rows of two ranges must give the rows of the original query.
func FuzzPlan(f *testing.F) {
	for i, text := range []string{
		`SELECT * FROM c WHERE c.a > 1`, `SELECT TOP 2 c.a FROM c ORDER BY c.a DESC, c.b`, `SELECT VALUE c.a FROM c ORDER BY c.n1 OFFSET 1 LIMIT 2`,
		`SELECT DISTINCT c.a, c.b FROM c`, `SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a`, `SELECT VALUE AVG(c.a) FROM c`, `SELECT COUNT(1) AS n, MAX(c.a), SUM(c.b) FROM c WHERE c.id > 'a'`,
		`SELECT c.a, COUNT(1), MIN(c.b) AS m, AVG(c.c) FROM c GROUP BY c.a`, `SELECT VALUE MAX(x) FROM c JOIN x IN c.a GROUP BY c.b, c.c`, `SELECT VALUE x FROM x IN c.a ORDER BY c.a`,
	} {
		f.Add(text, uint64(i)) //nolint:gosec // small
	}
	f.Add("", uint64(1000))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		w := writer{r: rand.New(rand.NewPCG(seed, 18))} //nolint:gosec // a repeatable test
		if text == "" {
			text = w.planned()
		}
		holdPlan(t, text, w.numbered(8), map[string]json.RawMessage{"@p": json.RawMessage(w.json(1)), "@q": json.RawMessage(w.json(2))})
	})
}
