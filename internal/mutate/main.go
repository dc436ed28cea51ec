// Command mutate removes the rules of this module, one at a time, and checks that a test
// fails each time.
//
//	go run ./internal/mutate [-run REGEXP] [-part K/N] [-seeds N] [-v]
//
// A mutant is a patch in internal/mutate/testdata/mutants. Its head names the rule that it
// removes and the test that must fail:
//
//	rule: a lease is released only when nothing of it is used any more
//	test: ./internal/simulation -run ^TestSimulation$
//	diff --git a/worker_end.go b/worker_end.go
//	...
//
// The command applies each mutant to one copy of the tree, runs the test, and reverts the
// patch. Flag -seeds is passed to tests that have seeds. A mutant that does not apply,
// does not compile, or survives is a failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	only := flag.String("run", "", "run only the mutants whose names match this regular expression")
	part := flag.String("part", "1/1", "K/N: run every N-th mutant, starting at number K modulo N; N parts with consecutive K run every mutant once")
	seeds := flag.Int("seeds", 500, "number of seeds for tests that have seeds")
	verbose := flag.Bool("v", false, "print the output of each test")
	flag.Parse()
	if err := run(context.Background(), *only, *part, *seeds, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

const mutantDirectory = "internal/mutate/testdata/mutants"

func run(ctx context.Context, only, part string, seeds int, verbose bool) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	mutants, err := load(root, pattern)
	if err != nil {
		return err
	}
	if mutants, err = partOf(mutants, part); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := copyTree(root, work); err != nil {
		return err
	}
	var bad []string
	for _, m := range mutants {
		begin := time.Now()
		err := m.try(ctx, work, seeds, verbose)
		took := time.Since(begin).Round(100 * time.Millisecond)
		if err != nil {
			bad = append(bad, m.name)
			fmt.Printf("FAILED %-44s %8s  %v\n", m.name, took, err)
			continue
		}
		fmt.Printf("killed %-44s %8s  %s\n", m.name, took, m.rule)
	}
	fmt.Printf("%d mutants, %d killed\n", len(mutants), len(mutants)-len(bad))
	if len(bad) > 0 {
		return fmt.Errorf("not killed: %s", strings.Join(bad, ", "))
	}
	return nil
}

// mutant is one patch: its name, its file, the rule that it removes, and the test that
// must fail.
type mutant struct {
	name, file string
	rule       string
	test       []string // arguments of `go test` that run the test
}

// load returns the mutants whose names match pattern, sorted by name. It reads the rule
// and the test from the head of each patch.
func load(root string, pattern *regexp.Regexp) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(root, mutantDirectory, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".patch")
		if !pattern.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m := mutant{name: name, file: file}
		for line := range strings.Lines(string(text)) {
			if rule, ok := strings.CutPrefix(line, "rule: "); ok {
				m.rule = strings.TrimSpace(rule)
			}
			if test, ok := strings.CutPrefix(line, "test: "); ok {
				m.test = strings.Fields(test)
			}
			if strings.HasPrefix(line, "diff ") {
				break
			}
		}
		if m.rule == "" || len(m.test) == 0 {
			return nil, fmt.Errorf("mutant %s lacks a rule or a test", name)
		}
		mutants = append(mutants, m)
	}
	if len(mutants) == 0 {
		return nil, errors.New("no mutant has such a name")
	}
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

// These errors are the reasons why a mutant is not killed.
var (
	errApply    = errors.New("does not apply")
	errCompile  = errors.New("does not compile")
	errSurvived = errors.New("survived")
	errRevert   = errors.New("cannot be reverted")
)

// featureSeeds is the largest number of seeds for a mutant of a feature of the
// simulation. All these seeds have the feature.
const featureSeeds = 200

// try applies the mutant to the tree in dir and runs its test, which must fail. It then
// reverts the patch.
func (m mutant) try(ctx context.Context, dir string, seeds int, verbose bool) (err error) {
	if out, err := command(ctx, dir, "git", "apply", "-p1", m.file); err != nil {
		return fmt.Errorf("%w: %s", errApply, strings.TrimSpace(out))
	}
	defer func() {
		if out, undo := command(ctx, dir, "git", "apply", "-R", "-p1", m.file); undo != nil {
			err = errors.Join(err, fmt.Errorf("%w: %s", errRevert, strings.TrimSpace(out)))
		}
	}()
	args := append([]string{"test", "-count=1", "-timeout=5m", "-vet=off"}, m.test...)
	switch m.test[0] {
	case "./internal/simulation":
		if slices.ContainsFunc(m.test, func(arg string) bool { return strings.HasPrefix(arg, "-sim.feature=") }) {
			seeds = min(seeds, featureSeeds)
		}
		args = append(args, "-sim.seeds="+strconv.Itoa(seeds))
	case "./internal/engine":
		args = append(args, "-model.seeds="+strconv.Itoa(seeds))
	}
	out, err := command(ctx, dir, "go", args...)
	if verbose {
		fmt.Print(out)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return errSurvived
	case !errors.As(err, &exit):
		return err
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return fmt.Errorf("%w: %s", errCompile, out)
	}
	return nil
}

func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	// Git must not find a repository in a directory above the copy and use its index.
	c.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := c.CombinedOutput()
	return string(out), err
}

// moduleRoot returns the directory of go.mod. This is the current directory or one above
// it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("not in a Go module")
		}
		dir = filepath.Dir(dir)
	}
}

// copyTree copies the module to the directory to, without subdirectories that no test
// needs.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}
