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

` + "`changefeed serve`" + ` serves Azure Cosmos DB's databases, containers, documents, queries, batches,
change feeds, throughput, users and permissions. It refuses [a few features](#not-supported) by name, stored
procedures and triggers among them, and [differs from the service](#differences) in some points.

The tables show what Azure Cosmos DB's official SDKs, unmodified, did against it when the interop suites last
ran (` + "`make interop-record`" + `), over TLS and over plain HTTP. The column REST is a suite without an SDK.
.NET has no column, because no .NET client was run; see [.NET](dotnet.md).

` + "`make support`" + ` writes this page from these results and from the server's table of routes.

## Operations

An operation is one thing that a request may ask the server to do. In its path, ` + "`*`" + ` stands for a
resource's id. "yes" means that the server did it for the SDK's suite, and an empty cell that the
suite did not ask for it.

`

const middle = `
## Not supported

The server refuses requests for these features with status 400 and a message that names the feature:

`

const tail = `
## Differences

- **Order of items.** Without ORDER BY, items come in the order in which they were first written,
  within a physical partition, as in the service. But if a range is neither a whole partition nor
  one key, such as a hierarchical key's prefix or what was a partition before a merge, its items are
  sorted by key first.
- **ETags** are unique among an item's versions, but two items may share one.
- **Containers without a partition key** are created and used by clients with API versions before
  2018-12-31, and newer versions see the system key /_partitionKey, as in the service. Here such
  a container always has one partition, also if documents have a _partitionKey. Newer clients
  may create one as well, with the system key that they are shown. With --create, changefeed
  replicate copies such a container into a new one without a key, too, for which it uses API version
  2018-06-18.
- **LSNs.** In the service, containers that share a database's throughput share one sequence of LSNs.
  Here each container counts on its own, partition by partition.

## Scenarios

A scenario is a task that several SDKs' suites run, with assertions about its result. "yes" means
that it passed. If there is a number, the SDK cannot run it, and the note with that number after the
table says why. "not recorded" means that there is no result yet, and an empty cell that the scenario
is not intended for the SDK.

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
