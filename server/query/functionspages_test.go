package query

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// pageExample is an example of a page of the service's documentation of
// functions: what a query makes of items, in their order.
type pageExample struct {
	Page   string            `json:"page"`
	Query  string            `json:"query"`
	Data   []json.RawMessage `json:"data"` // one empty item when there is none
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

// rowsOf returns what a query makes of items.
func rowsOf(text string, params map[string]json.RawMessage, items ...json.RawMessage) ([]any, error) {
	q, err := Parse(text)
	if err != nil {
		return nil, err
	}
	b, err := q.Bind(params)
	if err != nil {
		return nil, err
	}
	rows, got := b.Rows(), []any{}
	for _, item := range items {
		row, ok, err := rows.Eval(item)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		var v any
		if err := json.Unmarshal(row, &v); err != nil {
			return nil, fmt.Errorf("row %s: %w", row, err)
		}
		got = append(got, v)
	}
	return got, nil
}

// The examples of the service's documentation, page by page, have its results.
func TestExamplesOfFunctionPages(t *testing.T) {
	for _, e := range pageExamples(t) {
		if e.Data == nil {
			e.Data = []json.RawMessage{json.RawMessage(`{}`)}
		}
		got, err := rowsOf(e.Query, nil, e.Data...)
		if err != nil || !reflect.DeepEqual(got, e.Result) {
			t.Errorf("%s: %s\nis %v (%v)\nand should be %v", e.Page, e.Query, got, err, e.Result)
		}
	}
}

// Those pages whose examples depend on the time, on chance, or on an index are
// tested elsewhere or refused.
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
	for name, f := range functions {
		if f.evaluated() && !elsewhere[name] && !strings.Contains(all.String(), name+"(") {
			t.Errorf("%s has no example", name)
		}
	}
}
