package simulation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The mutant of a feature must exist, and its test must run seeds with that feature.
// Otherwise it does not prove that the feature finds bugs.
func TestMutantOfAFeatureRunsItsSeeds(t *testing.T) {
	for _, f := range features {
		if f.mutant == "" {
			continue
		}
		patch, err := os.ReadFile(filepath.Join("..", "mutate", "testdata", "mutants", f.mutant+".patch"))
		if err != nil {
			t.Error(err)
			continue
		}
		_, head, _ := strings.Cut(string(patch), "\ntest: ")
		line, _, _ := strings.Cut(head, "\n")
		if words := strings.Fields(line); !slices.Contains(words, "./internal/simulation") || !slices.Contains(words, "-sim.feature="+f.name) {
			t.Errorf("the mutant %s of the feature %q has the line %q", f.mutant, f.name, line)
		}
	}
}
