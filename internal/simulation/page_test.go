package simulation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var pagesUpdate = flag.Bool("pages.update", false, "write the tables of docs/simulation.md from the features")

// docs/simulation.md must list the features of the code, and the cases without seeds.
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
	const seeds = 10_000
	have := map[string]int{}
	for seed := range uint64(seeds) {
		for name := range newScenario(plan{seed: seed + 1}).features {
			have[name]++
		}
	}
	b.WriteString("| feature | content | needs | of all seeds | mutant |\n|---|---|---|---|---|\n")
	for _, f := range features {
		var needs []string
		for _, n := range f.needs {
			needs = append(needs, n.text)
		}
		share := fmt.Sprintf("%.1f %%", 100*float64(have[f.name])/seeds)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.name, f.text, strings.Join(needs, ", "), share, f.mutant)
	}
	return b.String()
}

// gapTable returns the table of notGenerated in Markdown.
func gapTable() string {
	var b strings.Builder
	b.WriteString("| not generated | tested by |\n|---|---|\n")
	for _, g := range notGenerated {
		fmt.Fprintf(&b, "| %s | %s |\n", g.what, g.testedBy)
	}
	return b.String()
}
