package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// errFailed is what goTest returns if the test failed, which kills the mutant.
var errFailed = &exec.ExitError{}

// bench is a small module with four mutants, whose tests are imitated.
type bench struct {
	t       *testing.T
	root    string
	kept    string // file of the results
	ran     []string
	imitate func(mutated string) (string, error) // for the value that the running mutant writes
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, root: writeTree(t, map[string]string{
		"a/a.go":              "package a\n\nfunc one() int { return 1 }\n\nfunc two() int { return 2 }\n",
		"a/b.go":              "package a\n\nfunc three() int { return 3 }\n",
		"c/c.go":              "package c\n\nfunc four() int { return 4 }\n",
		"c/c_test.go":         "package c\n",
		"c/testdata/in/x.txt": "x\n",
		mutantDirectory + "/a.txt": `package: ./a
mutant: m1
rule: r1
test: ./c -run ^TestC$
in: one
-func one() int { return 1 }
+func one() int { return 10 }

mutant: m2
rule: r2
test: ./a -run ^TestA$
in: two
-func two() int { return 2 }
+func two() int { return 20 }

mutant: m3
rule: r3
test: ./internal/simulation -run ^TestA$
in: three
-func three() int { return 3 }
+func three() int { return 30 }
`,
		mutantDirectory + "/c.txt": `package: ./c
mutant: m4
rule: r4
test: ./c -run ^TestC$
in: four
-func four() int { return 4 }
+func four() int { return 40 }
`,
		"internal/simulation/s_test.go": "package simulation\n",
	})}
	b.kept = filepath.Join(b.root, resultsFile)
	b.imitate = func(string) (string, error) { return "", errFailed }
	return b
}

// run runs all mutants as one call of the command does, and returns those that ran.
func (b *bench) run(ctx context.Context, change func(r *runner)) ([]string, string, error) {
	b.t.Helper()
	results, err := openResults(b.kept)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = results.close() }()
	mutants := b.mutants()
	b.ran = nil
	var out strings.Builder
	r := &runner{tree: b.root, results: results, seeds: 500, out: &out, goTest: func(context.Context, []string) (string, error) {
		name := b.mutated()
		b.ran = append(b.ran, name)
		return b.imitate(name)
	}}
	if change != nil {
		change(r)
	}
	err = r.run(ctx, mutants)
	if left := b.mutated(); left != "" {
		b.t.Errorf("the tree still has mutant %s after the run", left)
	}
	return b.ran, out.String(), err
}

// mutated returns the mutant that the tree has now.
func (b *bench) mutated() (name string) {
	b.t.Helper()
	for value, file := range map[string]string{"10": "a/a.go", "20": "a/a.go", "30": "a/b.go", "40": "c/c.go"} {
		text, err := os.ReadFile(filepath.Join(b.root, file))
		if err != nil {
			b.t.Fatal(err)
		}
		if strings.Contains(string(text), "return "+value) {
			name += "m" + value[:1]
		}
	}
	return name
}

// expect runs the mutants and fails the test unless exactly the wanted ones ran and were killed.
func (b *bench) expect(why string, change func(r *runner), want ...string) {
	b.t.Helper()
	ran, _, err := b.run(b.t.Context(), change)
	if err != nil || !slices.Equal(ran, want) {
		b.t.Errorf("%s: ran %v, %v; want %v", why, ran, err, want)
	}
}

// While a test runs, the tree has its mutant and no other one; run checks that none is left.
func TestRunTriesEachMutantAlone(t *testing.T) {
	newBench(t).expect("all", nil, "m1", "m2", "m3", "m4")
}

// A killed mutant runs again only when its file, its test's package, or the mutant changes.
func TestKilledMutantsRunAgainOnlyAfterAChangeThatConcernsThem(t *testing.T) {
	b := newBench(t)
	b.expect("first", nil, "m1", "m2", "m3", "m4")
	b.expect("nothing changed", nil)
	b.expect("all are wanted", func(r *runner) { r.fresh = true }, "m1", "m2", "m3", "m4")
	b.expect("other number of seeds", func(r *runner) { r.seeds = 7 }, "m3")
	b.expect("back to the first number", nil)

	writeFile(t, b.root, "c/readme.md", "Neither Go nor testdata.\n")
	b.expect("a page of the test's package", nil)
	writeFile(t, b.root, "a/b.go", "package a\n\n// Changed.\nfunc three() int { return 3 }\n")
	b.expect("file of m3, which is in the test's package of m2", nil, "m2", "m3")
	writeFile(t, b.root, "c/c_test.go", "package c // changed\n")
	b.expect("test of m1 and m4", nil, "m1", "m4")
	writeFile(t, b.root, "c/testdata/in/x.txt", "changed\n")
	b.expect("data of the same test", nil, "m1", "m4")
	writeFile(t, b.root, "c/c_test.go", "package c\n")
	writeFile(t, b.root, "c/testdata/in/x.txt", "x\n")
	b.expect("back to a state in which they were killed", nil)

	name := mutantDirectory + "/a.txt"
	text, err := os.ReadFile(filepath.Join(b.root, name))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, b.root, name, "# A comment.\n"+string(text))
	b.expect("a comment in the file of the mutants", nil)
	writeFile(t, b.root, name, strings.Replace(string(text), "return 10 ", "return 100 ", 1))
	b.expect("the edit of m1", nil, "m1")
}

// A run that is interrupted has kept what it finished. The next one runs the rest, beginning
// with the mutant whose test was interrupted: its test ended with an error, too, but because
// it was killed and not because it found the mutant.
func TestInterruptedRunContinuesWithTheRest(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.imitate = func(name string) (string, error) {
		if name == "m3" {
			cancel()
		}
		return "", errFailed
	}
	ran, out, err := b.run(ctx, nil)
	if !slices.Equal(ran, []string{"m1", "m2", "m3"}) || err == nil || !strings.Contains(err.Error(), "2 mutants were killed and 2 are left") {
		t.Errorf("the interrupted run ran %v and ended with %v:\n%s", ran, err, out)
	}
	b.imitate = func(string) (string, error) { return "", errFailed }
	b.expect("the rest", nil, "m3", "m4")
	b.expect("nothing is left", nil)
}

// A process that is killed while it writes leaves half a line. It is ignored, and the next
// line does not become part of it.
func TestResultsSurviveAnIncompleteLine(t *testing.T) {
	b := newBench(t)
	b.expect("first", nil, "m1", "m2", "m3", "m4")
	text, err := os.ReadFile(b.kept)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, b.root, resultsFile, string(text[:len(text)-20]))
	b.expect("the last line was cut off", nil, "m4")
	b.expect("it is there again", nil)
}

// A mutant that is not killed runs again each time, and the run fails.
func TestOnlyKilledMutantsAreKept(t *testing.T) {
	for _, c := range []struct {
		name, output string
		err          error
		want         string
	}{
		{"survived", "ok\n", nil, "survived"},
		{"does not compile", "FAIL\ta [build failed]\n", errFailed, "does not compile"},
		{"killed by the kernel", "=== RUN TestC\nsignal: killed\nFAIL\ta\t1s\n", errFailed, "ended by a signal"},
		{"no go command", "", exec.ErrNotFound, "not found"},
	} {
		b := newBench(t)
		b.imitate = func(name string) (string, error) {
			if name == "m2" {
				return c.output, c.err
			}
			return "", errFailed
		}
		for _, want := range [][]string{{"m1", "m2", "m3", "m4"}, {"m2"}} {
			ran, out, err := b.run(t.Context(), nil)
			if !slices.Equal(ran, want) || err == nil || err.Error() != "not killed: m2" || !strings.Contains(out, c.want) {
				t.Errorf("%s: ran %v, %v; want %v:\n%s", c.name, ran, err, want, out)
			}
		}
	}
}

// A mutant that does not apply is reported before any test runs, and the others run.
func TestMutantThatDoesNotApplyIsAFailure(t *testing.T) {
	b := newBench(t)
	writeFile(t, b.root, "a/a.go", "package a\n\nfunc two() int { return 2 }\n")
	ran, out, err := b.run(t.Context(), nil)
	if !slices.Equal(ran, []string{"m2", "m3", "m4"}) || err == nil || err.Error() != "not killed: m1" {
		t.Errorf("ran %v, %v", ran, err)
	}
	if want := "FAILED " + mutantDirectory + "/a.txt:5: mutant m1: package a does not declare one; "; !strings.HasPrefix(out, want) {
		t.Errorf("the output does not start with %q:\n%s", want, out)
	}
}

func TestEstimateUsesTheLengthsOfEarlierRuns(t *testing.T) {
	r, err := openResults(filepath.Join(t.TempDir(), "r"))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.estimate([]string{"a"}); got != 0 {
		t.Errorf("without results the estimate is %s", got)
	}
	for name, length := range map[string]time.Duration{"a": 10 * time.Second, "b": 20 * time.Second} {
		if err := r.add(name, name, length); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.estimate([]string{"a", "new"}); got != 25*time.Second {
		t.Errorf("the estimate is %s; want 10 s for a, and the average of 15 s for the new one", got)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
}

// load refuses what would hide a mutant or a file.
func TestLoadRefusesDoubleNamesAndPackages(t *testing.T) {
	b := newBench(t)
	c := filepath.Join(b.root, mutantDirectory, "c.txt")
	text, err := os.ReadFile(c)
	if err != nil {
		t.Fatal(err)
	}
	for old, with := range map[string]string{"m4": "m1", "package: ./c": "package: ./a"} {
		writeFile(t, b.root, mutantDirectory+"/c.txt", strings.Replace(string(text), old, with, 1))
		if _, err := load(b.root, everyName); err == nil {
			t.Errorf("a second %s is accepted", with)
		}
	}
}

// mutants returns the mutants of the bench.
func (b *bench) mutants() []mutant {
	b.t.Helper()
	mutants, err := load(b.root, everyName)
	if err != nil {
		b.t.Fatal(err)
	}
	return mutants
}
