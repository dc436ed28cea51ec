package server

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/internal/query"
)

// The functions in this file merge the rows of several partitions according to a plan, as
// SDKs do. Rows are sorted by the type and the value of their sort keys. Rows with equal
// keys are ordered by the number in their rid, in the direction of the first key.
// Aggregates are combined from sums, counts, minima and maxima.

// mergeRows merges the rows of several ranges according to the plan info and returns the
// rows of the whole query.
func mergeRows(t testing.TB, info query.Info, ranges [][]string) []string {
	t.Helper()
	var rows []string
	switch {
	case len(info.OrderBy) > 0:
		rows = mergeSorted(t, info, ranges)
	case len(info.GroupByExpressions) > 0 || len(info.GroupByAliases) > 0 || len(info.Aggregates) > 0:
		rows = mergeGroups(t, info, ranges)
	default:
		rows = slices.Concat(ranges...)
	}
	if info.DistinctType != "None" {
		seen := map[string]bool{}
		rows = slices.DeleteFunc(rows, func(row string) bool {
			was := seen[row]
			seen[row] = true
			return was
		})
	}
	if info.Offset != nil {
		rows = rows[min(int(*info.Offset), len(rows)):]
	}
	for _, n := range []*int64{info.Limit, info.Top} {
		if n != nil {
			rows = rows[:min(int(*n), len(rows))]
		}
	}
	return rows
}

func mergeSorted(t testing.TB, info query.Info, ranges [][]string) []string {
	t.Helper()
	type sortedRow struct {
		RID     string `json:"_rid"`
		Items   []map[string]any
		Payload json.RawMessage
		number  uint64
	}
	var all []sortedRow
	for _, rows := range ranges {
		for _, text := range rows {
			var row sortedRow
			text = strings.Replace(text, `"orderByItems"`, `"items"`, 1)
			if err := json.Unmarshal([]byte(text), &row); err != nil || len(row.Items) != len(info.OrderBy) || row.Payload == nil {
				t.Fatalf("%s: %v", text, err)
			}
			row.number = documentNumber(t, row.RID)
			all = append(all, row)
		}
	}
	slices.SortStableFunc(all, func(a, b sortedRow) int {
		for i, direction := range info.OrderBy {
			c := compareItems(a.Items[i], b.Items[i])
			if direction == "Descending" {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		c := int(a.number) - int(b.number)
		if info.OrderBy[0] == "Descending" {
			c = -c
		}
		return c
	})
	rows := make([]string, len(all))
	for i, row := range all {
		rows[i] = string(row.Payload)
	}
	return rows
}

// compareItems compares two sort keys by type, and keys of the same type by value. The
// result is negative, zero or positive.
func compareItems(a, b map[string]any) int {
	rank := func(m map[string]any) int {
		v, ok := m["item"]
		if !ok {
			return 0
		}
		switch v := v.(type) {
		case nil:
			return 1
		case bool:
			if v {
				return 3
			}
			return 2
		case float64:
			return 4
		case string:
			return 5
		case []any:
			return 6
		}
		return 7
	}
	if c := rank(a) - rank(b); c != 0 {
		return c
	}
	switch v := a["item"].(type) {
	case float64:
		if v < b["item"].(float64) {
			return -1
		}
		if v > b["item"].(float64) {
			return 1
		}
	case string:
		return strings.Compare(v, b["item"].(string))
	}
	return 0
}

// partialResult combines the results of several partitions for one aggregate of kind.
type partialResult struct {
	kind         string
	count        float64
	sum          float64
	noSum        bool
	best         any
	some, noBest bool
}

func (p *partialResult) add(v map[string]any) {
	switch p.kind {
	case "Count":
		p.count += v["item"].(float64)
	case "Sum":
		n, ok := v["item"].(float64)
		p.sum, p.noSum = p.sum+n, p.noSum || !ok
	case "Average":
		parts := v["item"].(map[string]any)
		n, ok := parts["sum"].(float64)
		p.sum, p.noSum = p.sum+n, p.noSum || !ok
		p.count += parts["count"].(float64)
	case "Min", "Max":
		parts := v["item2"].(map[string]any)
		if parts["count"].(float64) == 0 {
			return
		}
		best, ok := parts[strings.ToLower(p.kind)]
		if _, same := v["item"]; same != ok || !ok {
			p.noBest = true
			return
		}
		c := compareItems(map[string]any{"item": best}, map[string]any{"item": p.best})
		if !p.some || (c < 0) == (p.kind == "Min") {
			p.best, p.some = best, true
		}
	}
}

func (p *partialResult) value() (v any, ok bool) {
	switch p.kind {
	case "Count":
		return p.count, true
	case "Sum":
		return p.sum, !p.noSum
	case "Average":
		return p.sum / max(p.count, 1), !p.noSum && p.count > 0
	}
	return p.best, p.some && !p.noBest
}

func mergeGroups(t testing.TB, info query.Info, ranges [][]string) []string {
	t.Helper()
	type groupRow struct {
		Keys    []map[string]any `json:"groupByItems"`
		Payload json.RawMessage  `json:"payload"`
	}
	type merged struct {
		plain    map[string]json.RawMessage
		partials map[string]*partialResult
	}
	groups := map[string]*merged{}
	for _, rows := range ranges {
		if len(info.GroupByExpressions) == 0 && len(rows) != 1 {
			t.Fatalf("%d rows of a partition, where aggregates are one: %v", len(rows), rows)
		}
		for _, text := range rows {
			row := groupRow{Payload: json.RawMessage(text)}
			if text[0] == '{' {
				if err := json.Unmarshal([]byte(text), &row); err != nil || len(row.Keys) != len(info.GroupByExpressions) {
					t.Fatalf("%s: %v", text, err)
				}
			}
			members := map[string]json.RawMessage{"": bytes.Trim(row.Payload, "[]")}
			kinds := map[string]*string{}
			if len(info.Aggregates) > 0 {
				kinds[""] = &info.Aggregates[0]
			} else {
				members, kinds = map[string]json.RawMessage{}, info.GroupByAliasToAggregateType
				if err := json.Unmarshal(row.Payload, &members); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			key := sortedJSON(t, row.Keys)
			if groups[key] == nil {
				groups[key] = &merged{plain: map[string]json.RawMessage{}, partials: map[string]*partialResult{}}
			}
			for name, kind := range kinds {
				if kind == nil {
					if members[name] != nil {
						groups[key].plain[name] = members[name]
					}
					continue
				}
				var v map[string]any
				if err := json.Unmarshal(members[name], &v); err != nil {
					t.Fatalf("%s: %s: %v", text, name, err)
				}
				if groups[key].partials[name] == nil {
					groups[key].partials[name] = &partialResult{kind: *kind}
				}
				groups[key].partials[name].add(v)
			}
		}
	}
	var out []string
	for _, g := range groups {
		if p := g.partials[""]; p != nil {
			if v, ok := p.value(); ok {
				out = append(out, sortedJSON(t, v))
			}
			continue
		}
		row := `{`
		for _, name := range info.GroupByAliases {
			text := string(g.plain[name])
			if p := g.partials[name]; p != nil {
				text = ""
				if v, ok := p.value(); ok {
					text = sortedJSON(t, v)
				}
			}
			if text != "" {
				row += sortedJSON(t, name) + ":" + text + ","
			}
		}
		out = append(out, strings.TrimSuffix(row, ",")+"}")
	}
	return out
}

// documentNumber returns the number of a document, which is a part of its rid.
func documentNumber(t testing.TB, rid string) uint64 {
	t.Helper()
	b, err := layout.RIDEncoding.DecodeString(rid)
	if err != nil || len(b) != 16 {
		t.Fatalf("%q is not the rid of a document: %v", rid, err)
	}
	return uint64(binary.BigEndian.Uint32(b[8:]))
}
