package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
)

// results contains the last recorded results of the suites (-record). docs/support.md is
// generated from them.
type results struct {
	About  string                  `json:"about"`
	Suites map[string]*suiteResult `json:"suites"`
}

// suiteResult is the result of one suite.
type suiteResult struct {
	// Scenarios maps a scenario to "ok" or "missing". Missing means that the SDK cannot
	// run it.
	Scenarios map[string]string `json:"scenarios"`
	// Operations are the operations that the server carried out for the suite.
	Operations []string `json:"operations"`
}

const aboutResults = "Results of the interop suites when they last passed, written by the runner (make interop-record). Do not edit."

func readResults(path string) (results, error) {
	r := results{Suites: map[string]*suiteResult{}}
	err := readJSON(path, &r)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	r.About = aboutResults
	return r, err
}

// record replaces the results of one suite in the file of results.
func record(path string, t *table, suite string, operations map[string]bool) error {
	r, err := readResults(path)
	if err != nil {
		return err
	}
	s := &suiteResult{Scenarios: map[string]string{}, Operations: slices.Sorted(maps.Keys(operations))}
	for _, column := range t.columnsOf(suite) {
		for scenario, cell := range t.cells[column] {
			if cell != "." {
				s.Scenarios[scenario] = cell
			}
		}
	}
	r.Suites[suite] = s
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // it is a part of the repository
}

// columnsOf returns the columns of a suite in the table, one for each transport.
func (t *table) columnsOf(suite string) (columns []string) {
	for _, column := range t.columns {
		if name, _, _ := strings.Cut(column, "/"); name == suite {
			columns = append(columns, column)
		}
	}
	return columns
}

// clean reports whether no run of a suite had a problem.
func (t *table) clean(suite string) bool {
	return !slices.ContainsFunc(t.problems, func(p string) bool { return strings.HasPrefix(p, suite+"/") })
}

// answered matches a line of the server's metrics about successful requests. Its first
// group is the name of the operation.
var answered = regexp.MustCompile(`^changefeed_server_request_duration_seconds_count\{operation="([^"]+)",status="([23]\d\d)"\} [1-9]`)

// readOperations adds the names of the operations that the server has carried out so far
// to into.
func readOperations(ctx context.Context, metrics string, into map[string]bool) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, metrics, http.NoBody)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("cannot read the server's metrics: %w", err)
	}
	defer a.Body.Close() //nolint:errcheck // it was read
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("cannot read the server's metrics: %s", a.Status)
	}
	return operationsOf(a.Body, into)
}

func operationsOf(metrics io.Reader, into map[string]bool) error {
	found := false
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		if m := answered.FindStringSubmatch(lines.Text()); m != nil {
			into[m[1]], found = true, true
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("cannot read the server's metrics: %w", err)
	}
	if !found {
		return errors.New("the server's metrics contain no successful operation")
	}
	return nil
}
