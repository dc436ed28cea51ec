package simulation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every feature must have a mutant, whose test runs seeds with that feature and nothing
// else. Otherwise nothing proves that the feature finds bugs.
func TestEveryFeatureHasAMutantThatItFinds(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "mutate", "testdata", "mutants", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var mutants strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		mutants.Write(text)
	}
	for _, f := range features {
		if f.mutant == "" {
			t.Errorf("the feature %q has no mutant", f.name)
			continue
		}
		_, head, ok := strings.Cut(mutants.String(), "\nmutant: "+f.mutant+"\n")
		if !ok {
			t.Errorf("the mutant %s of the feature %q does not exist", f.mutant, f.name)
			continue
		}
		_, head, _ = strings.Cut(head, "\ntest: ")
		line, _, _ := strings.Cut(head, "\n")
		if want := "./internal/simulation -run ^TestSimulation$ -sim.feature=" + f.name; line != want {
			t.Errorf("the mutant %s of the feature %q has the test %q; want %q", f.mutant, f.name, line, want)
		}
	}
}
