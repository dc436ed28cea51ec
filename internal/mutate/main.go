// Command mutate removes the rules of this module from its code, one at a time, and checks
// that a test fails each time.
//
//	go run ./internal/mutate [-run REGEXP] [-part K/N] [-seeds N] [-fresh] [-v]
//
// The mutants are in internal/mutate/testdata/mutants, in one file per package. See
// docs/simulation.md for how to write one. The command applies each mutant to a copy of the
// tree, runs the test that the mutant names, and takes the change back. A mutant that cannot
// be applied, doesn't compile, or survives its test is a failure.
//
// Every killed mutant is recorded in bin/mutants.jsonl. It isn't run again until the files
// that it changes or its test's package change, so a run that was interrupted continues where
// it stopped. Use -fresh after a change that the record cannot notice, such as one in a package
// that the test only imports.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	var o options
	flag.StringVar(&o.pattern, "run", "", "run only the mutants whose names match this regular expression")
	flag.StringVar(&o.part, "part", "1/1", "K/N: run every N-th mutant, starting at number K modulo N; N parts with consecutive K run every mutant once")
	flag.IntVar(&o.seeds, "seeds", 500, "number of seeds for tests that have seeds")
	flag.BoolVar(&o.fresh, "fresh", false, "run the mutants that were killed before as well")
	flag.BoolVar(&o.verbose, "v", false, "print the output of each test")
	flag.Parse()

	// The first signal ends the run in order. After that, a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// options are the flags of the command.
type options struct {
	pattern, part  string
	seeds          int
	fresh, verbose bool
}

// resultsFile is where the killed mutants are recorded. `make clean` removes it, and Git
// ignores it.
const resultsFile = "bin/mutants.jsonl"

func run(ctx context.Context, out io.Writer, o options) error {
	pattern, err := regexp.Compile(o.pattern)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	results, err := openResults(filepath.Join(root, resultsFile))
	if err != nil {
		return err
	}
	defer func() { _ = results.close() }()
	c, err := copyModule(root)
	if err != nil {
		return err
	}
	defer func() { _ = c.remove() }()

	// The mutants are read from the copy, too. So an edit in the working tree during the run
	// affects neither the run nor what it records.
	mutants, err := load(c.tree, pattern)
	if err != nil {
		return err
	}
	if mutants, err = partOf(mutants, o.part); err != nil {
		return err
	}
	r := runner{
		tree:    c.tree,
		goTest:  c.goTest,
		results: results,
		seeds:   o.seeds,
		fresh:   o.fresh,
		out:     out,
	}
	if o.verbose {
		r.verbose = out
	}
	return r.run(ctx, mutants)
}
