// Command mutate removes the rules of this module, one at a time, and checks that a test
// fails each time.
//
//	go run ./internal/mutate [-run REGEXP] [-part K/N] [-seeds N] [-v]
//
// The mutants are in internal/mutate/testdata/mutants, in one file per package. The command
// applies each of them to one copy of the tree, runs the test that it names, and takes the
// change back. Flag -seeds is passed to tests that have seeds. A mutant that does not apply,
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

// These errors are the reasons why a mutant is not killed.
var (
	errCompile  = errors.New("does not compile")
	errSurvived = errors.New("survived")
	errRevert   = errors.New("cannot be reverted")
)

// try applies the mutant to the tree in dir and runs its test, which must fail. It then puts
// the files back.
func (m mutant) try(ctx context.Context, dir string, seeds int, verbose bool) (err error) {
	s, err := readSource(dir, m.dir)
	if err != nil {
		return err
	}
	changes, err := m.apply(s)
	if err != nil {
		return err
	}
	defer func() {
		for _, c := range changes {
			if undo := os.WriteFile(filepath.Join(dir, c.file), []byte(c.before), 0o644); undo != nil {
				err = errors.Join(err, fmt.Errorf("%w: %w", errRevert, undo))
			}
		}
	}()
	for _, c := range changes {
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.after), 0o644); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, m.arguments(seeds)...)...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	out := string(text)
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
