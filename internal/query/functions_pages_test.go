package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// pageExample is an example from the service's documentation of functions: a query, the
// items that it reads, and its result.
type pageExample struct {
	Page   string            `json:"page"`
	Query  string            `json:"query"`
	Data   []json.RawMessage `json:"data"` // one empty item if there are none
	Result []any             `json:"result"`
}

func pageExamples(t *testing.T) []pageExample {
	t.Helper()
	b, err := os.ReadFile("testdata/functions.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []pageExample
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// rowsOf returns the decoded rows of a query over items.
func rowsOf(text string, params map[string]json.RawMessage, items ...json.RawMessage) ([]any, error) {
	rows, err := textsOf(text, params, items...)
	if err != nil {
		return nil, err
	}
	got := make([]any, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row, &got[i]); err != nil {
			return nil, fmt.Errorf("row %s: %w", row, err)
		}
	}
	return got, nil
}

// textsOf returns the JSON of the rows of a query over items.
func textsOf(text string, params map[string]json.RawMessage, items ...json.RawMessage) ([]json.RawMessage, error) {
	q, err := Parse(text)
	if err != nil {
		return nil, err
	}
	b, err := q.Bind(params)
	if err != nil {
		return nil, err
	}
	rows, got := b.Rows(), []json.RawMessage{}
	groups := rows.Groups(100, nil)
	for _, item := range items {
		each := rows.Each(item, func() bool {
			if b.Shape().Grouped {
				groups.Add()
			} else if row, ok := rows.Row(); ok {
				got = append(got, bytes.Clone(row))
			}
			return true
		})
		if each != nil {
			return nil, each
		}
	}
	for _, group := range groups.Rows() {
		got = append(got, group.Row)
	}
	return got, groups.Err()
}

// sameToLastDigit reports whether two results are equal. If both are a single number, the
// last digits may differ, because the service computes logarithms and tangents with
// another library.
func sameToLastDigit(got, want []any) bool {
	if len(got) == 1 && len(want) == 1 {
		a, ok1 := got[0].(float64)
		b, ok2 := want[0].(float64)
		if ok1 && ok2 {
			return math.Abs(a-b) <= 2e-15*math.Abs(b)
		}
	}
	return reflect.DeepEqual(got, want)
}

// Each query in the service's documentation of functions must have the result that is
// shown on its page.
func TestExamplesOfFunctionPages(t *testing.T) {
	for _, e := range pageExamples(t) {
		if e.Data == nil {
			e.Data = []json.RawMessage{json.RawMessage(`{}`)}
		}
		got, err := rowsOf(e.Query, nil, e.Data...)
		if err != nil || !sameToLastDigit(got, e.Result) {
			t.Errorf("%s: %s\nis %v (%v)\nwant %v", e.Page, e.Query, got, err, e.Result)
		}
	}
}

// Every supported function must have an example from its page. Functions whose examples
// depend on the time, on random numbers or on an index are excepted and tested elsewhere.
func TestEveryEvaluatedFunctionHasExamples(t *testing.T) {
	elsewhere := map[string]bool{
		"AGO": true, "NOW": true, "RAND": true, "IS_BOOLEAN": true, "ASIN": true, // its page shows ACOS
		"GETCURRENTDATETIME": true, "GETCURRENTDATETIMESTATIC": true, "GETCURRENTTICKS": true, "GETCURRENTTICKSSTATIC": true,
		"GETCURRENTTIMESTAMP": true, "GETCURRENTTIMESTAMPSTATIC": true,
	}
	var all strings.Builder
	for _, e := range pageExamples(t) {
		all.WriteString(e.Query + "\n")
	}
	for name, kind := range value.Aggregates {
		if kind.Evaluated() && !strings.Contains(all.String(), name+"(") {
			t.Errorf("%s has no example", name)
		}
	}
	for name, f := range value.Functions {
		if f.Evaluated() && !elsewhere[name] && !strings.Contains(all.String(), name+"(") {
			t.Errorf("%s has no example", name)
		}
	}
}
