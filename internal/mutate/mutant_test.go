package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every mutant must apply to the current code, because one that does not apply proves nothing.
// If a change of the code broke a mutant, the error says what to edit.
func TestEveryMutantAppliesToTheCodeAsItIs(t *testing.T) {
	root, mutants := everyMutant(t)
	sources := map[string]*source{}
	for _, m := range mutants {
		if sources[m.dir] == nil {
			s, err := readSource(root, m.dir)
			if err != nil {
				t.Fatal(err)
			}
			sources[m.dir] = s
		}
		changes, err := m.apply(sources[m.dir])
		if err != nil {
			t.Error(err)
		}
		for _, c := range changes {
			if _, err := parser.ParseFile(token.NewFileSet(), c.file, c.after, parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: mutant %s is no valid Go: %v", m.at, m.name, err)
			}
		}
	}
}

// Every mutant must name tests that exist. If a test were renamed, no test would run for
// its mutant, and the mutant would survive.
func TestEveryMutantNamesTestsThatExist(t *testing.T) {
	root, mutants := everyMutant(t)
	for _, m := range mutants {
		tests := testsOf(t, filepath.Join(root, m.test[0]))
		named := regexp.MustCompile(`Test\w+`).FindAllString(strings.Join(m.test[1:], " "), -1)
		if len(named) == 0 {
			t.Errorf("%s names no test: %v", m.name, m.test)
		}
		for _, name := range named {
			if !strings.Contains(tests, fmt.Sprintf("\nfunc %s(", name)) {
				t.Errorf("%s: test %s does not exist in %s", m.name, name, m.test[0])
			}
		}
	}
}

// CI runs one part of the mutants for each commit. Every mutant must be in exactly one
// part, because a mutant in no part would never run.
func TestEveryMutantIsInExactlyOnePart(t *testing.T) {
	_, mutants := everyMutant(t)
	parts := map[string]int{}
	for k := 610; k < 620; k++ {
		chosen, err := partOf(mutants, fmt.Sprintf("%d/10", k))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range chosen {
			parts[m.name]++
		}
	}
	for _, m := range mutants {
		if parts[m.name] != 1 {
			t.Errorf("%s is in %d of 10 parts", m.name, parts[m.name])
		}
	}
	for _, part := range []string{"", "1", "1/0", "-1/3", "a/b", fmt.Sprintf("%d/%d", len(mutants), len(mutants)+1)} {
		if chosen, err := partOf(mutants, part); err == nil {
			t.Errorf("-part %q is accepted and holds %d mutants", part, len(chosen))
		}
	}
}

// everyName matches the name of every mutant.
var everyName = regexp.MustCompile("")

// everyMutant returns the root of the module and all its mutants.
func everyMutant(t *testing.T) (root string, mutants []mutant) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if mutants, err = load(root, everyName); err != nil {
		t.Fatal(err)
	}
	if len(mutants) == 0 {
		t.Fatal("no mutant found")
	}
	return root, mutants
}

// testsOf returns the concatenated source of a package's test files.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	return text.String()
}
