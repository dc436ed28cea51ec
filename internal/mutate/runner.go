package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// runner runs mutants in a tree of files that it may change.
type runner struct {
	tree    string
	goTest  func(ctx context.Context, args []string) (output string, err error)
	results *results
	seeds   int
	fresh   bool      // also run mutants that were killed before
	out     io.Writer // for one line per mutant
	verbose io.Writer // for the output of the tests, unless nil
}

// trial is a mutant that is ready to run.
type trial struct {
	mutant
	args    []string // of `go test`
	changes []change
	key     string
}

// These errors are the reasons why a mutant is not killed.
var (
	errCompile  = errors.New("does not compile")
	errSurvived = errors.New("survived")
	errAborted  = errors.New("its test was ended by a signal")
)

// run runs the mutants that were not killed before. It stops when ctx ends.
func (r *runner) run(ctx context.Context, mutants []mutant) error {
	trials, kept, bad, err := r.prepare(mutants)
	if err != nil {
		return err
	}
	names := make([]string, len(trials))
	for i, t := range trials {
		names[i] = t.name
	}
	if kept > 0 {
		_, _ = fmt.Fprintf(r.out, "%d of %d mutants were killed before, and what they depend on has not changed; %d to run%s\n",
			kept, len(mutants), len(trials), r.left(names))
	}
	killed := 0
	for i, t := range trials {
		begin := time.Now()
		err := r.try(ctx, t)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %d mutants were killed and %d are left; the same command continues with those", killed+kept, len(trials)-i)
		}
		if errors.Is(err, errRestore) {
			return err
		}
		took := time.Since(begin)
		word, text := "killed", t.rule
		if err == nil {
			killed++
			err = r.results.add(t.name, t.key, took)
			if err != nil {
				return err
			}
		} else {
			bad = append(bad, t.name)
			word, text = "FAILED", err.Error()
		}
		_, _ = fmt.Fprintf(r.out, "%s %-44s %7s  %d/%d%s  %s\n", word, t.name, took.Round(100*time.Millisecond), i+1, len(trials), r.left(names[i+1:]), text)
	}
	_, _ = fmt.Fprintf(r.out, "%d mutants: %d killed now, %d killed before, %d not killed\n", len(mutants), killed, kept, len(bad))
	if len(bad) > 0 {
		return fmt.Errorf("not killed: %s", strings.Join(bad, ", "))
	}
	return nil
}

// left returns how long the named mutants will take, as the end of a sentence.
func (r *runner) left(names []string) string {
	left := r.results.estimate(names)
	if left < time.Second {
		return ""
	}
	return fmt.Sprintf(", about %s left", left.Round(time.Second))
}

// prepare applies the mutants in memory. It returns those that must run, the number of those
// that were killed before, and the names of those that do not apply, which it also reports.
func (r *runner) prepare(mutants []mutant) (trials []trial, kept int, bad []string, err error) {
	sources := map[string]*source{}
	hashes := map[string]string{} // directory of a test's package -> its hash
	for _, m := range mutants {
		if sources[m.dir] == nil {
			if sources[m.dir], err = readSource(r.tree, m.dir); err != nil {
				return nil, 0, nil, err
			}
		}
		changes, err := m.apply(sources[m.dir])
		if err != nil {
			_, _ = fmt.Fprintf(r.out, "FAILED %v\n", err)
			bad = append(bad, m.name)
			continue
		}
		if hashes[m.test[0]] == "" {
			if hashes[m.test[0]], err = hashPackage(filepath.Join(r.tree, m.test[0])); err != nil {
				return nil, 0, nil, err
			}
		}
		t := trial{mutant: m, args: m.arguments(r.seeds), changes: changes}
		t.key = keyOf(t.args, changes, hashes[m.test[0]])
		if r.results.killed[t.key] && !r.fresh {
			kept++
			continue
		}
		trials = append(trials, t)
	}
	return trials, kept, bad, nil
}

// abortedTest is what `go test` prints if a signal ended the test, for example because the
// machine ran out of memory. That is not the failure that kills a mutant.
var abortedTest = regexp.MustCompile(`(?m)^signal: \w+\nFAIL\t`)

// try writes the mutant's files, runs its test, and puts the files back. It returns nil if the
// test failed, as it must.
func (r *runner) try(ctx context.Context, t trial) (err error) {
	defer func() { err = errors.Join(err, r.restore(t.changes)) }()
	for _, c := range t.changes {
		if err := os.WriteFile(filepath.Join(r.tree, c.file), []byte(c.after), 0o644); err != nil {
			return err
		}
	}
	out, err := r.goTest(ctx, t.args)
	if r.verbose != nil {
		_, _ = fmt.Fprint(r.verbose, out)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return errSurvived
	case !errors.As(err, &exit):
		return err
	case abortedTest.MatchString(out):
		return errAborted
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return fmt.Errorf("%w: %s", errCompile, out)
	}
	return nil
}

// errRestore ends a run, because no other mutant may run in a tree that still has one.
var errRestore = errors.New("cannot take a mutant back")

func (r *runner) restore(changes []change) error {
	for _, c := range changes {
		if err := os.WriteFile(filepath.Join(r.tree, c.file), []byte(c.before), 0o644); err != nil {
			return fmt.Errorf("%w: %w", errRestore, err)
		}
	}
	return nil
}
