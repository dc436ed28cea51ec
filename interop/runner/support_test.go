package main

import (
	"os"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/server"
)

func TestSupportPageIsUpToDate(t *testing.T) {
	c, err := readCatalogue("../..")
	if err != nil {
		t.Fatal(err)
	}
	want, err := readPage("../..", c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + supportPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: it differs from the routes, interop/scenarios.json, interop/results.json or the missing.json of a suite; run `make support`", supportPage)
	}
}

func TestPageContainsTheResultsOfEachSDK(t *testing.T) {
	in := inputs{
		catalogue: catalogue{
			scenarios: []scenario{
				{"both", []string{"go", "js", "python", "python-async"}, "A."},
				{"new", []string{"js"}, "B."},
			},
			missing: map[string]map[string]string{"go/azcosmos": {"both": "it has no such call"}},
		},
		results: map[string]*suiteResult{
			"go":     {map[string]string{"both": "missing"}, []string{"read a"}},
			"js":     {map[string]string{"both": "ok"}, []string{"read a", "admin split"}},
			"python": {map[string]string{"both": "ok"}, []string{"read a"}},
		},
	}
	operations := []server.Operation{
		{Name: "a trigger", Method: "GET", Path: "/t"},
		{Name: "a trigger", Method: "PUT", Path: "/t"},
		{Name: "read a", Method: "GET", Path: "/a", Supported: true},
		{Name: "write a", Method: "PUT", Path: "/a", Supported: true},
	}
	page, err := in.page(operations)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| read a | `GET /a` | yes | yes |  |  |  |\n", // only one of Python's two clients used the operation
		"| write a | `PUT /a` |  |  |  |  |  |\n",
		"- a trigger: `/t`\n",
		"| both | A. | 1 | yes |  | not recorded |  |\n",
		"| new | B. |  | not recorded |  |  |  |\n",
		"1. Go: it has no such call.\n",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the page lacks %q:\n%s", line, page)
		}
	}
}

func TestUnknownSuitesAndOperationsAreErrors(t *testing.T) {
	for _, results := range []map[string]*suiteResult{
		{"rust": {}},
		{"go": {Operations: []string{"read b"}}},
		{"go": {Operations: []string{"a trigger"}}}, // an operation that the server refuses
	} {
		in := inputs{results: results}
		if _, err := in.page([]server.Operation{{Name: "a trigger"}, {Name: "read a", Supported: true}}); err == nil {
			t.Errorf("%v is accepted", results)
		}
	}
}
