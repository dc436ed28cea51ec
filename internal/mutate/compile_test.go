package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/race"
)

// A mutant that doesn't compile proves nothing, and without this check nobody would notice until
// it is run. It type-checks each mutated package in memory, without its test files, because
// building all of them would take many minutes.
func TestEveryMutantCompiles(t *testing.T) {
	if testing.Short() || race.Enabled { // the detector would only make it slower
		t.Skip("type-checks a package for every mutant")
	}
	root, mutants := everyMutant(t)
	for dir, built := range listBuilt(t, root, mutants) {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			s, err := readSource(root, dir)
			if err := errors.Join(err, built.check(nil)); err != nil {
				t.Fatal(err) // no fault of a mutant
			}
			for _, m := range mutants {
				if m.dir != dir {
					continue
				}
				changes, err := m.apply(s)
				if err != nil {
					continue // TestEveryMutantAppliesToTheCodeAsItIs reports it
				}
				if file, ok := built.leavesOut(changes); ok {
					t.Logf("skipped mutant %s: %s isn't built on this platform", m.name, file)
					continue
				}
				if err := built.check(changes); err != nil {
					t.Errorf("%s: mutant %s does not compile; change the edit, so that it removes the same rule and compiles:\n%v", m.at, m.name, err)
				}
			}
		})
	}
}

func TestMutantThatDoesNotCompileIsReported(t *testing.T) {
	root := writeTree(t, map[string]string{
		"go.mod":           "module example.com/m\n\ngo 1.26.0\n",
		"plan/plan.go":     "package plan\n\nimport \"fmt\"\n\nfunc one() { two(1) }\n\nfunc two(n int) {\n\tm := n\n\tfmt.Println(m)\n}\n",
		"plan/plan_w.go":   "//go:build never\n\npackage plan\n\nfunc three() { two(3) }\n",
		"plan/one_test.go": "package plan\n\nvar a = unknown\n",
	})
	built := listBuilt(t, root, []mutant{{dir: "plan"}})["plan"]
	for _, c := range []struct{ name, edits, want string }{
		{"variable", "in: two\n-\tfmt.Println(m)\n+\tfmt.Println()\n", "plan/plan.go:8:2: declared and not used: m"},
		{"import", "in: two\n-\tfmt.Println(m)\n+\t_ = m\n", `plan/plan.go:3:8: "fmt" imported and not used`},
		{"caller elsewhere", "in: two\n-func two(n int) {\n+func two(n string) {\n", "plan/plan.go:5:18: cannot use 1"},
		{"syntax", "in: two\n-\tm := n\n+\tm := (n\n", "plan/plan.go:8:9: expected ')'"},
		{"result", "in: two\n-func two(n int) {\n+func two(n int) int {\n", "plan/plan.go:10:1: missing return"},
		{"none", "in: two\n-\tm := n\n+\tm := n + 1\n", ""},
	} {
		changes, err := applyTo(t, root, c.edits)
		if err != nil {
			t.Fatal(err)
		}
		if err := built.check(changes); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: the error is %v; want %q", c.name, err, c.want)
		}
		if file, ok := built.leavesOut(changes); ok {
			t.Errorf("%s: %s is left out", c.name, file)
		}
	}
	changes, err := applyTo(t, root, "in: three\n-func three() { two(3) }\n+func three() { two() }\n")
	if err != nil {
		t.Fatal(err)
	}
	if file, ok := built.leavesOut(changes); !ok || file != "plan/plan_w.go" {
		t.Errorf("a file with another build constraint: left out is %q", file)
	}
}

// built is a package as the go command builds it on this platform, without its tests.
type built struct {
	path, version string // its import path, and the Go version of its module
	set           *token.FileSet
	files         map[string]*ast.File // by name, relative to the module
	imports       types.Importer
}

// listBuilt returns the packages that the mutants change, by directory. It builds the packages
// that they import, unless the go command has them in its cache.
func listBuilt(t *testing.T, root string, mutants []mutant) map[string]*built {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,CgoFiles,Module", "--"}
	for _, m := range mutants {
		if arg := "./" + m.dir; !slices.Contains(args, arg) {
			args = append(args, arg)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports, packages := map[string]string{}, map[string]*built{}
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no package with mutants depends on %q", path)
		}
		return os.Open(exports[path])
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			Dir, ImportPath, Export string
			GoFiles, CgoFiles       []string
			Module                  *struct{ GoVersion string }
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		dir, err := filepath.Rel(root, p.Dir)
		dir = filepath.ToSlash(dir)
		if err != nil || !slices.Contains(args, "./"+dir) {
			continue
		}
		b := &built{path: p.ImportPath, version: "go" + p.Module.GoVersion, set: token.NewFileSet(), files: map[string]*ast.File{}}
		b.imports = importer.ForCompiler(b.set, "gc", lookup)
		for _, name := range append(p.GoFiles, p.CgoFiles...) {
			name := path.Join(dir, name)
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			if b.files[name], err = parser.ParseFile(b.set, name, text, parser.SkipObjectResolution); err != nil {
				t.Fatal(err)
			}
		}
		packages[dir] = b
	}
	for _, m := range mutants {
		if packages[m.dir] == nil {
			t.Fatalf("go list does not list %s in %s, so its mutants would not be checked", m.dir, root)
		}
	}
	return packages
}

// leavesOut reports whether one of the changed files isn't built on this platform, and which.
func (b *built) leavesOut(changes []change) (file string, ok bool) {
	for _, c := range changes {
		if b.files[c.file] == nil {
			return c.file, true
		}
	}
	return "", false
}

// check type-checks the package with the changed files in place of its own, and returns all
// errors. In a file that uses cgo, it trusts whatever comes from C.
func (b *built) check(changes []change) error {
	var files []*ast.File
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		file := b.files[name]
		for _, c := range changes {
			if c.file != name {
				continue
			}
			var err error
			if file, err = parser.ParseFile(b.set, name, c.after, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		files = append(files, file)
	}
	var problems []error
	conf := types.Config{Importer: b.imports, GoVersion: b.version, FakeImportC: true, Error: func(err error) { problems = append(problems, err) }}
	if _, err := conf.Check(b.path, b.set, files, nil); err != nil && len(problems) == 0 {
		return err
	}
	return errors.Join(problems...)
}
