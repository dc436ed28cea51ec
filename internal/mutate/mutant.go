package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mutantDirectory holds the mutants, in one file for each package that they change.
const mutantDirectory = "internal/mutate/testdata/mutants"

// mutant is one rule, removed from the code of one package.
type mutant struct {
	name  string
	rule  string   // what the code no longer does
	test  []string // arguments of `go test`: the package of the test that must fail, then flags
	dir   string   // directory of the package that the edits change, relative to the module
	edits []edit
	at    string // file and line of the mutant, for errors
}

// edit replaces some lines of one declaration.
type edit struct {
	declaration string   // for example "(*worker).renew", "Terms", or "import"
	file        string   // the declaration's file, only needed if several files have such a declaration
	old, new    []string // lines, without their line ends
	at          string   // file and line of the edit, for errors
}

// load returns the mutants whose names match pattern, sorted by name.
func load(root string, pattern *regexp.Regexp) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(root, mutantDirectory, "*.txt"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	where := map[string]string{} // name of a mutant, or directory of a package -> its file and line
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := path.Join(mutantDirectory, filepath.Base(file))
		all, err := parse(name, string(text))
		if err != nil {
			return nil, err
		}
		dir := "./" + all[0].dir
		if other, ok := where[dir]; ok {
			return nil, fmt.Errorf("%s: %s has the mutants of package %s as well; put them into one file", name, other, dir)
		}
		where[dir] = name
		for _, m := range all {
			if other, ok := where[m.name]; ok {
				return nil, fmt.Errorf("%s: there is another mutant %s at %s; rename one of them", m.at, m.name, other)
			}
			where[m.name] = m.at
			if pattern.MatchString(m.name) {
				mutants = append(mutants, m)
			}
		}
	}
	if len(mutants) == 0 {
		return nil, errors.New("no mutant has such a name")
	}
	slices.SortFunc(mutants, func(a, b mutant) int { return strings.Compare(a.name, b.name) })
	return mutants, nil
}

// partOf returns one part of the mutants. For the part "K/N" these are the mutants whose
// index is K modulo N. It returns an error if the part has another form or contains no
// mutant.
func partOf(mutants []mutant, part string) ([]mutant, error) {
	first, count, ok := strings.Cut(part, "/")
	k, errK := strconv.ParseUint(first, 10, 32)
	n, errN := strconv.ParseUint(count, 10, 32)
	if !ok || errK != nil || errN != nil || n == 0 {
		return nil, fmt.Errorf("-part is %q; use the form K/N with whole numbers, N at least 1", part)
	}
	var chosen []mutant
	for i, m := range mutants {
		if uint64(i)%n == k%n {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-part %s selects none of the %d mutants", part, len(mutants))
	}
	return chosen, nil
}

// featureSeeds is the largest number of seeds for a mutant of a feature of the
// simulation. All these seeds have the feature.
const featureSeeds = 200

// arguments returns the arguments of `go test` that run the mutant's test. seeds is passed to
// the tests that have seeds.
func (m mutant) arguments(seeds int) []string {
	args := append([]string{"-count=1", "-timeout=5m", "-vet=off"}, m.test...)
	switch m.test[0] {
	case "./internal/simulation":
		if slices.ContainsFunc(m.test, func(arg string) bool { return strings.HasPrefix(arg, "-sim.feature=") }) {
			seeds = min(seeds, featureSeeds)
		}
		args = append(args, "-sim.seeds="+strconv.Itoa(seeds))
	case "./internal/engine":
		args = append(args, "-model.seeds="+strconv.Itoa(seeds))
	}
	return args
}
