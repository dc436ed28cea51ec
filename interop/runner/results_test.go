package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const someMetrics = `# HELP changefeed_server_request_duration_seconds
changefeed_server_request_duration_seconds_count{operation="read account",status="200"} 3
changefeed_server_request_duration_seconds_count{operation="create document",status="201"} 1
changefeed_server_request_duration_seconds_count{operation="read change feed",status="304"} 1
changefeed_server_request_duration_seconds_count{operation="refuse a trigger",status="400"} 1
changefeed_server_request_duration_seconds_sum{operation="batch",status="200"} 1
`

func TestOnlySuccessfulOperationsAreRead(t *testing.T) {
	got := map[string]bool{"before": true}
	if err := operationsOf(strings.NewReader(someMetrics), got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 || !got["read account"] || !got["create document"] || !got["read change feed"] {
		t.Errorf("%v", got)
	}
	if err := operationsOf(strings.NewReader("nothing\n"), got); err == nil {
		t.Error("metrics in another form are accepted")
	}
}

func TestRecordReplacesTheSuitesThatRanAndKeepsTheOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(path, []byte(`{"suites":{"go":{"scenarios":{"old":"ok"}},"java":{"scenarios":{"a":"ok"},"operations":["x"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	table := newTable(catalogue{
		scenarios: []scenario{{Name: "a", Suites: []string{"go"}}, {Name: "b", Suites: []string{"go", "js"}}},
		missing:   map[string]map[string]string{"go/azcosmos": {"b": "it can't"}},
	})
	table.add("go", "tls", map[string]string{"a": "ok"}, nil)
	if err := record(path, table, "go", map[string]bool{"read a": true}); err != nil {
		t.Fatal(err)
	}
	r, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	g := r.Suites["go"]
	if len(g.Scenarios) != 2 || g.Scenarios["a"] != "ok" || g.Scenarios["b"] != "missing" || !slices.Equal(g.Operations, []string{"read a"}) {
		t.Errorf("go: %+v", g)
	}
	if j := r.Suites["java"]; j == nil || j.Scenarios["a"] != "ok" || len(r.Suites) != 2 {
		t.Errorf("the others: %+v", r.Suites)
	}
}

func TestASuiteWithAProblemOverOneTransportIsNotClean(t *testing.T) {
	table := newTable(catalogue{scenarios: []scenario{{Name: "a", Suites: []string{"python", "python-async"}}}})
	table.add("python", "tls", map[string]string{"a": "ok"}, nil)
	table.add("python-async", "tls", map[string]string{"a": "ok"}, nil)
	table.add("python-async", "plain", map[string]string{"a": "failed\twhy"}, nil)
	if !table.clean("python") || table.clean("python-async") {
		t.Errorf("problems: %q", table.problems)
	}
}
