package simulation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mutants returns the text of all mutants.
func mutants(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "mutate", "testdata", "mutants", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// testOf returns the test of a mutant. It returns "" if the mutant does not exist.
func testOf(mutants, name string) string {
	_, head, _ := strings.Cut(mutants, "\nmutant: "+name+"\n")
	_, head, _ = strings.Cut(head, "\ntest: ")
	line, _, _ := strings.Cut(head, "\n")
	return line
}

// Every feature must have a mutant, whose test runs seeds with that feature and nothing
// else. Otherwise nothing proves that the feature finds bugs.
func TestEveryFeatureHasAMutantThatItFinds(t *testing.T) {
	all := mutants(t)
	for _, f := range allFeatures {
		want := "./internal/simulation -run ^TestSimulation$ -sim.feature=" + f.name
		if got, _, _ := strings.Cut(testOf(all, f.mutant), " -sim.rule="); got != want {
			t.Errorf("the mutant %q of the feature %q has the test %q; want %q", f.mutant, f.name, got, want)
		}
	}
}

// Every rule must have a sentence and a mutant. The mutant's test judges by that rule alone,
// because a rule that no planted bug breaks may judge nothing.
func TestEveryRuleHasAMutant(t *testing.T) {
	all, named := mutants(t), map[string]bool{}
	for _, r := range allRules {
		if r.text == "" || named[r.name] {
			t.Errorf("the rule %q has the sentence %q, or its name is used twice", r.name, r.text)
		}
		named[r.name] = true
		got, flag := testOf(all, r.mutant), " -sim.rule="+r.name
		if !strings.HasPrefix(got, "./internal/simulation -run ^TestSimulation$") || !strings.HasSuffix(got, flag) {
			t.Errorf("the mutant %q of the rule %q has the test %q; want TestSimulation with%s", r.mutant, r.name, got, flag)
		}
	}
}
