package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/server"
)

const head = `# Supported operations and scenarios

The interop suites run the official SDKs of Azure Cosmos DB, unmodified, against
` + "`changefeed serve`" + `. They run over TLS and over plain HTTP. This page shows their last recorded
results (` + "`make interop-record`" + `). The column REST shows a suite that sends requests without an
SDK. There is no column for .NET, because no .NET client was run; see [.NET](dotnet.md).

` + "`make support`" + ` generates this page from these results and from the server's table of routes.

## Operations

An operation is a kind of request that the server carries out. In its path, ` + "`*`" + ` represents the
id of a resource. "yes" means that the server carried out the operation for the SDK's suite. An
empty cell means that the suite did not use the operation.

`

const middle = `
The server refuses requests for the following features. The answer has status 400 and a
message that names the feature:

`

const tail = `
## Differences

- **Order of items.** Without ORDER BY, items come in the order in which they were first written,
  within a physical partition, as in the service. But the items of a range of keys that is neither
  a whole partition nor one key, such as a prefix of a hierarchical key or the range of a partition
  that was merged, are sorted by key before.
- **ETags** are unique among the versions of an item, but two items may share one.
- **Containers without a partition key** are created and used by clients of API versions before
  2018-12-31, and newer versions see the system key /_partitionKey, as in the service. Here such
  a container always has one partition, also if documents have a _partitionKey. Newer clients
  may create one as well, with the system key that they are shown. With --create, changefeed
  replicate copies such a container into a new one of the kind, for which it uses API version
  2018-06-18.
- **LSNs.** The service's containers that share the throughput of a database share one sequence
  of LSNs. Here every partition of every container has its own.

## Scenarios

A scenario is a task that the suites of several SDKs run, with assertions about its result. "yes"
means that it passed. A number means that the SDK cannot run it; the note with this number, after
the table, gives the reason. "not recorded" means that there is no result yet. An empty cell means
that the scenario is not intended for the SDK.

`

// supportPage is the path of the generated page, from the repository's root.
const supportPage = "docs/support.md"

// sdk is a column of the tables: its title, and the suites of which it combines the
// results.
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

// inputs contains the sources of the page, except the server's table of routes.
type inputs struct {
	catalogue
	results map[string]*suiteResult
}

// writeSupport generates the page and writes it to the repository at root.
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

// page returns the text of the page. It returns an error if the results contain an
// unknown suite or an unknown operation.
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
	row(&b, append([]string{"scenario", "assertion"}, titles...)...)
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

// check returns an error if the results contain an unknown suite or an unknown operation,
// for instance after a rename.
func (in inputs) check(operations []server.Operation) error {
	for suite, r := range in.results {
		if !slices.ContainsFunc(sdks, func(s sdk) bool { return slices.Contains(s.suites, suite) }) {
			return fmt.Errorf("the results contain the unknown suite %q; record them again (make interop-record)", suite)
		}
		for _, name := range r.Operations {
			known := slices.ContainsFunc(operations, func(o server.Operation) bool { return o.Supported && o.Name == name })
			if !known && !strings.HasPrefix(name, "admin ") {
				return fmt.Errorf("suite %s used the unknown operation %q; record the results again (make interop-record)", suite, name)
			}
		}
	}
	return nil
}

// uses reports whether the server carried out an operation for all suites of an SDK.
func (in inputs) uses(s sdk, operation string) bool {
	for _, suite := range s.suites {
		r := in.results[suite]
		if r == nil || !slices.Contains(r.Operations, operation) {
			return false
		}
	}
	return true
}

// verdict returns the table cell for a scenario and an SDK. If the SDK cannot run the
// scenario, verdict adds the reason to notes.
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

// note returns the number under which a note is printed. It adds the note to notes if it
// is not there yet.
func note(text string, notes *[]string) string {
	i := slices.Index(*notes, text)
	if i < 0 {
		*notes = append(*notes, text)
		i = len(*notes) - 1
	}
	return fmt.Sprint(i + 1)
}

// refusals returns the lines about the operations that the server refuses, in the order
// of the routes.
func refusals(operations []server.Operation) (lines []string) {
	var names []string
	paths := map[string][]string{}
	for _, o := range operations {
		if o.Supported {
			continue
		}
		name := strings.TrimPrefix(o.Name, "refuse ")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if !slices.Contains(paths[name], o.Path) {
			paths[name] = append(paths[name], o.Path)
		}
	}
	for _, name := range names {
		lines = append(lines, fmt.Sprintf("- %s: `%s`\n", name, strings.Join(paths[name], "`, `")))
	}
	return lines
}
