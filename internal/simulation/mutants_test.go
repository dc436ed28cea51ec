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
	for _, f := range features {
		if f.mutant == "" {
			t.Errorf("the feature %q has no mutant", f.name)
			continue
		}
		patch, err := os.ReadFile(filepath.Join("..", "mutate", "testdata", "mutants", f.mutant+".patch"))
		if err != nil {
			t.Error(err)
			continue
		}
		_, head, _ := strings.Cut(string(patch), "\ntest: ")
		line, _, _ := strings.Cut(head, "\n")
		if want := "./internal/simulation -run ^TestSimulation$ -sim.feature=" + f.name; line != want {
			t.Errorf("the mutant %s of the feature %q has the test %q; want %q", f.mutant, f.name, line, want)
		}
	}
}
