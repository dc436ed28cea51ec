package simulation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var pagesUpdate = flag.Bool("pages.update", false, "write the tables of docs/simulation.md from the features")

// docs/simulation.md must list the features of the code, and what is not generated.
func TestSimulationPageIsCurrent(t *testing.T) {
	const file = "../../docs/simulation.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	current := string(page)
	for name, table := range map[string]string{"features": featureTable(), "not generated": gapTable()} {
		begin, end := fmt.Sprintf("<!-- %s: written by make pages -->\n", name), fmt.Sprintf("<!-- end of %s -->\n", name)
		before, rest, found := strings.Cut(current, begin)
		_, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s lacks the lines %q and %q", file, begin, end)
		}
		current = before + begin + "\n" + table + "\n" + end + after
	}
	switch {
	case current == string(page):
	case *pagesUpdate:
		if err := os.WriteFile(file, []byte(current), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the table of features; run: make pages", file)
	}
}

// featureTable returns the table of the features in Markdown.
func featureTable() string {
	var b strings.Builder
	b.WriteString("| feature | what happens | share | of the seeds with |\n|---|---|---|---|\n")
	for _, f := range features {
		var needs []string
		for _, n := range f.needs {
			needs = append(needs, n.text)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %.2g %% | %s |\n", f.name, f.text, 100*f.share, strings.Join(needs, ", "))
	}
	return b.String()
}

// gapTable returns the table of what is not generated, in Markdown.
func gapTable() string {
	var b strings.Builder
	b.WriteString("| not generated | tested by |\n|---|---|\n")
	for _, g := range notGenerated {
		fmt.Fprintf(&b, "| %s | %s |\n", g.what, g.testedBy)
	}
	return b.String()
}
