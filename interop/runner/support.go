package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/server"
)

const head = `# What is supported

This page is generated (` + "`make support`" + `) from the server's table of routes and from what the interop suites did when they were last recorded
(` + "`make interop-record`" + `). Official SDKs, unmodified, ran against ` + "`changefeed serve`" + `, over TLS and plain HTTP. No .NET client was run: what is there
for it is tested with requests written as its SDK writes them. REST is requests without an SDK.

## Operations

"yes": the SDK's suite had the operation carried out. An empty cell: the suite doesn't use it.

`

const middle = `
Refused by name, with 400:

`

const tail = `
## Scenarios

"yes": it passed. A number: the SDK has no means for it, and the note says which. "not recorded": it is newer than the last record.

`

// supportPage is the file that is written, from the repository's root.
const supportPage = "docs/support.md"

// An sdk is a column of the tables: its title, and the suites whose results count together.
type sdk struct {
	title  string
	suites []string
}

var sdks = []sdk{
	{"Go", []string{"go"}},
	{"JavaScript", []string{"js"}},
	{"Java", []string{"java"}},
	{"Python", []string{"python", "python-async"}},
	{"REST", []string{"raw"}},
}

// inputs are the sources of the page, besides the table of routes.
type inputs struct {
	catalogue
	results map[string]*suiteResult
}

// writeSupport writes the page of the repository at root.
func writeSupport(root string, c catalogue) error {
	text, err := readPage(root, c)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, supportPage), []byte(text), 0o644) //nolint:gosec // it is a part of the repository
}

func readPage(root string, c catalogue) (string, error) {
	r, err := readResults(filepath.Join(root, "interop/results.json"))
	if err != nil {
		return "", err
	}
	return inputs{c, r.Suites}.page(server.Operations())
}

// page writes the whole page. Errors: results of a suite or an operation that there isn't.
func (in inputs) page(operations []server.Operation) (string, error) {
	if err := in.check(operations); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(head)
	titles := make([]string, len(sdks))
	for i, s := range sdks {
		titles[i] = s.title
	}
	row(&b, append([]string{"operation", "request"}, titles...)...)
	b.WriteString(strings.Repeat("|---", len(sdks)+2) + "|\n")
	for _, o := range operations {
		if !o.Supported {
			continue
		}
		cells := []string{o.Name, "`" + o.Method + " " + o.Path + "`"}
		for _, s := range sdks {
			cells = append(cells, yes(in.uses(s, o.Name)))
		}
		row(&b, cells...)
	}
	b.WriteString(middle)
	for _, line := range refusals(operations) {
		b.WriteString(line)
	}
	b.WriteString(tail)
	row(&b, append([]string{"scenario", "what it asserts"}, titles...)...)
	b.WriteString(strings.Repeat("|---", len(sdks)+2) + "|\n")
	var notes []string
	for _, sc := range in.scenarios {
		cells := []string{sc.Name, strings.ReplaceAll(sc.Asserts, "|", "\\|")}
		for _, s := range sdks {
			cells = append(cells, in.verdict(s, sc, &notes))
		}
		row(&b, cells...)
	}
	b.WriteByte('\n')
	for i, note := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, note)
	}
	return b.String(), nil
}

func row(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// check finds results that belong to nothing: of suites that were renamed, of operations that are gone.
func (in inputs) check(operations []server.Operation) error {
	for suite, r := range in.results {
		if !slices.ContainsFunc(sdks, func(s sdk) bool { return slices.Contains(s.suites, suite) }) {
			return fmt.Errorf("results of a suite %q, which there isn't", suite)
		}
		for _, name := range r.Operations {
			known := slices.ContainsFunc(operations, func(o server.Operation) bool { return o.Supported && o.Name == name })
			if !known && !strings.HasPrefix(name, "admin ") {
				return fmt.Errorf("the suite %s used the operation %q, which the server hasn't: record it again (make interop-record)", suite, name)
			}
		}
	}
	return nil
}

// uses reports whether all suites of an SDK had an operation carried out.
func (in inputs) uses(s sdk, operation string) bool {
	for _, suite := range s.suites {
		r := in.results[suite]
		if r == nil || !slices.Contains(r.Operations, operation) {
			return false
		}
	}
	return true
}

// verdict is the cell of a scenario in an SDK's column; a reason why it can't is added to the notes.
func (in inputs) verdict(s sdk, sc scenario, notes *[]string) string {
	verdict := ""
	for _, suite := range s.suites {
		if !slices.Contains(sc.Suites, suite) {
			continue
		}
		if reason := in.missing[suites[suite].directory][sc.Name]; reason != "" {
			return note(s.title+": "+strings.TrimSuffix(reason, ".")+".", notes)
		}
		if r := in.results[suite]; r == nil || r.Scenarios[sc.Name] != "ok" {
			return "not recorded"
		}
		verdict = "yes"
	}
	return verdict
}

// note is the number of a note, which is added unless it is there.
func note(text string, notes *[]string) string {
	i := slices.Index(*notes, text)
	if i < 0 {
		*notes = append(*notes, text)
		i = len(*notes) - 1
	}
	return fmt.Sprint(i + 1)
}

// refusals are lines about what is refused, in the order of the routes.
func refusals(operations []server.Operation) (lines []string) {
	var names []string
	paths := map[string][]string{}
	for _, o := range operations {
		if o.Supported {
			continue
		}
		if !slices.Contains(names, o.Name) {
			names = append(names, o.Name)
		}
		if !slices.Contains(paths[o.Name], o.Path) {
			paths[o.Name] = append(paths[o.Name], o.Path)
		}
	}
	for _, name := range names {
		lines = append(lines, fmt.Sprintf("- %s: `%s`\n", name, strings.Join(paths[name], "`, `")))
	}
	return lines
}
