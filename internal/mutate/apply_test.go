package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// planCode is the package that the tests of this file change.
const planCode = `package plan

import "fmt"

// Plan is a plan.
type Plan[K any] struct{ steps int }

const (
	few  = 1
	many = 2
)

func (p *Plan[K]) make() {
	p.steps++
	fmt.Println()
	if p.steps > few {
		fmt.Println()
	}
}

func make2() {
	fmt.Println()
}
`

// writeTree writes files into a new directory.
func writeTree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		writeFile(t, root, name, text)
	}
	return root
}

func writeFile(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// applyTo applies a mutant with the given edits to the package plan of a tree.
func applyTo(t *testing.T, root, edits string) ([]change, error) {
	t.Helper()
	mutants, err := parse("m.txt", "package: ./plan\nmutant: one\nrule: r\ntest: ./plan\n"+edits)
	if err != nil {
		t.Fatal(err)
	}
	s, err := readSource(root, "plan")
	if err != nil {
		t.Fatal(err)
	}
	return mutants[0].apply(s)
}

func TestApplyChangesOnlyTheDeclarationsThatItNames(t *testing.T) {
	root := writeTree(t, map[string]string{"plan/plan.go": planCode})
	for _, c := range []struct{ name, edits, old, new string }{
		{"method", "in: (*Plan).make\n-\tp.steps++\n", "\tp.steps++\n", ""},
		{"method without its pointer", "in: Plan.make\n-\tp.steps++\n", "\tp.steps++\n", ""},
		{"function", "in: make2\n-\tfmt.Println()\n+\tpanic(1)\n", "make2() {\n\tfmt.Println()", "make2() {\n\tpanic(1)"},
		{"kept line", "in: (*Plan).make\n \tp.steps++\n+\tp.steps++\n", "\tp.steps++\n", "\tp.steps++\n\tp.steps++\n"},
		{"other indentation", "in: (*Plan).make\n-p.steps++\n+\tp.steps--\n", "\tp.steps++\n", "\tp.steps--\n"},
		{"type", "in: Plan\n-type Plan[K any] struct{ steps int }\n+type Plan[K any] struct{ steps uint }\n", "steps int", "steps uint"},
		{"comment", "in: Plan\n-// Plan is a plan.\n", "// Plan is a plan.\n", ""},
		{"group", "in: many\n-\tfew  = 1\n+\tfew  = 2\n", "few  = 1", "few  = 2"},
		{"imports", "in: import\n import \"fmt\"\n+import \"os\"\n", "import \"fmt\"\n", "import \"fmt\"\nimport \"os\"\n"},
	} {
		changes, err := applyTo(t, root, c.edits)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := strings.Replace(planCode, c.old, c.new, 1)
		if len(changes) != 1 || changes[0].file != "plan/plan.go" || changes[0].before != planCode || changes[0].after != want {
			t.Errorf("%s: got %+v; want %s", c.name, changes, want)
		}
	}
}

// The edits of a mutant all refer to the code as it is, in whatever order they are written.
func TestApplyMakesAllEditsOfAMutant(t *testing.T) {
	root := writeTree(t, map[string]string{
		"plan/plan.go":  planCode,
		"plan/other.go": "package plan\n\nfunc other() {\n\tmake2()\n}\n",
	})
	changes, err := applyTo(t, root, "in: make2\n-\tfmt.Println()\n\nin: other\n-\tmake2()\n\nin: many\n-\tfew  = 1\n+\tfew  = 1\n+\tsome = 1\n")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(planCode, "make2() {\n\tfmt.Println()\n", "make2() {\n", 1)
	want = strings.Replace(want, "few  = 1\n", "few  = 1\n\tsome = 1\n", 1)
	if len(changes) != 2 || changes[0].after != "package plan\n\nfunc other() {\n}\n" || changes[1].after != want {
		t.Errorf("got %+v", changes)
	}
}

// A mutant is found by the name of its declaration, so it survives that other code changes and
// that the declaration moves to another file or gets another receiver.
func TestApplyFindsADeclarationThatHasMoved(t *testing.T) {
	code := "package plan\n\ntype Plan[K any] struct{ steps int }\n\nfunc (p Plan[K]) make() {\n\tif true {\n\t\tp.steps++\n\t}\n}\n"
	root := writeTree(t, map[string]string{
		"plan/plan.go":      "package plan\n\nfunc added() {}\n",
		"plan/moved.go":     code,
		"plan/plan_test.go": "package plan\n\nfunc (p Plan[K]) make() {}\n",
	})
	changes, err := applyTo(t, root, "in: (*Plan).make\n-\tp.steps++\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(code, "\t\tp.steps++\n", "", 1); len(changes) != 1 || changes[0].file != "plan/moved.go" || changes[0].after != want {
		t.Errorf("got %+v", changes)
	}
}

// An edit that does not apply says where it is written, what is wrong, and what to do.
func TestApplyExplainsWhyAnEditDoesNotApply(t *testing.T) {
	root := writeTree(t, map[string]string{
		"plan/plan.go":       planCode,
		"plan/open_linux.go": "package plan\n\nfunc open() {\n\tmake2()\n}\n",
		"plan/open_other.go": "//go:build !linux\n\npackage plan\n\nfunc open() {\n\tmake2()\n}\n",
	})
	const at = "m.txt:5: mutant one: "
	for _, c := range []struct{ name, edits, want string }{
		{"missing function", "in: gone\n-a()\n", at + `package plan does not declare gone; if it was renamed, correct the line "in:"`},
		{"missing in its file", "in: other.go: make2\n-a()\n", at + `plan/other.go does not declare make2; correct`},
		{"two files", "in: open\n-\tmake2()\n", at + `package plan declares open in open_linux.go and open_other.go; write "in: FILE: open"`},
		{"missing line", "in: (*Plan).make\n-\tp.steps++\n-\tp.steps--\n", at + `(*Plan).make, line 13 of plan.go does not contain the line "p.steps--"; change the edit`},
		{"line of another function", "in: make2\n-\tp.steps++\n", at + `make2, line 21 of plan.go does not contain the line "p.steps++"`},
		{"other order", "in: (*Plan).make\n-\tfmt.Println()\n-\tp.steps++\n", at + `(*Plan).make, line 13 of plan.go does not contain these lines in this order`},
		{"ambiguous", "in: (*Plan).make\n-\tfmt.Println()\n", at + `(*Plan).make, line 13 of plan.go contains these lines 2 times; add the line above or below`},
		{"overlapping", "in: make2\n-\tfmt.Println()\n\nin: make2\n-\tfmt.Println()\n }\n", "m.txt:8: mutant one: this edit overlaps"},
	} {
		if _, err := applyTo(t, root, c.edits); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: the error is %v; want one that starts with %s", c.name, err, c.want)
		}
	}
	if _, err := applyTo(t, root, "in: open_linux.go: open\n-\tmake2()\n"); err != nil {
		t.Errorf("a declaration with its file: %v", err)
	}
}
