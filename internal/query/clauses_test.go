package query_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
)

// answer returns the rows of a query over documents. It applies the clauses that concern
// several documents as a server does for one partition.
func answer(t *testing.T, text string, params map[string]json.RawMessage, docs []json.RawMessage) ([]json.RawMessage, error) {
	t.Helper()
	q, err := query.Parse(text)
	if err != nil {
		return nil, err
	}
	b, err := q.Bind(params)
	if err != nil {
		return nil, err
	}
	shape, rows := b.Shape(), b.Rows()
	if shape.NoSource {
		docs = []json.RawMessage{json.RawMessage(`{}`)}
	}
	const all = 1 << 20
	sorter := b.NewSorter(all, nil)
	groups := rows.Groups(all, nil)
	for i, doc := range docs {
		at := query.Position{Tie: uint64(i)} //nolint:gosec // an index
		err := rows.Each(doc, func() bool {
			if shape.Grouped {
				groups.Add()
			} else if row, ok := rows.Row(); ok {
				at.Key = rows.OrderKey(nil)
				sorter.Add(at, row)
				at.Row++
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	sorted := sorter.Rows()
	if shape.Grouped {
		sorted = groups.Rows()
	}
	list := []json.RawMessage{}
	for _, r := range sorted {
		if r.Row != nil {
			list = append(list, r.Row)
		}
	}
	if shape.Offset != nil {
		list = list[min(int(*shape.Offset), len(list)):]
	}
	for _, n := range []*int64{shape.Limit, shape.Top} {
		if n != nil {
			list = list[:min(int(*n), len(list))]
		}
	}
	return list, nil
}

// Each example of the documentation's pages on clauses, keywords and operators must
// return the rows on its page. An example has the name of its page.
func TestExamplesOfClausePages(t *testing.T) {
	text, err := os.ReadFile("testdata/clauses.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Page, Case, Query string
		Items             []json.RawMessage
		Parameters        map[string]json.RawMessage
		Rows              []any
		AnyOrder          bool
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Page+"/"+c.Case, func(t *testing.T) {
			rows, err := answer(t, c.Query, c.Parameters, c.Items)
			if err != nil {
				t.Fatal(err)
			}
			got := decoded(t, rows)
			if c.AnyOrder {
				inOrder(t, got)
				inOrder(t, c.Rows)
			}
			if len(got) != len(c.Rows) || len(got) > 0 && !reflect.DeepEqual(got, c.Rows) {
				t.Errorf("%s\nmakes %v\nwant  %v", c.Query, got, c.Rows)
			}
			// The query is printed and parsed again. It must return the same rows.
			q, err := query.Parse(c.Query)
			if err != nil {
				t.Fatal(err)
			}
			again, err := answer(t, q.String(), c.Parameters, c.Items)
			if err != nil {
				t.Fatalf("%s: %v", q, err)
			}
			printed := decoded(t, again)
			if c.AnyOrder {
				inOrder(t, printed)
			}
			if !reflect.DeepEqual(printed, got) {
				t.Errorf("%s\nmakes %v\nwant  %v", q, printed, got)
			}
		})
	}
}

func decoded(t *testing.T, rows []json.RawMessage) []any {
	t.Helper()
	list := make([]any, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &list[i]); err != nil {
			t.Fatalf("%q: %v", row, err)
		}
	}
	return list
}

func inOrder(t *testing.T, list []any) {
	t.Helper()
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(text(a), text(b)) })
}
