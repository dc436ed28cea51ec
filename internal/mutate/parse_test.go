package main

import (
	"reflect"
	"strings"
	"testing"
)

// A file of mutants is read as it is meant: kept, removed and added lines, several edits, and
// empty lines that are part of an edit or only stand between two.
func TestParseReadsMutantsWithTheirEdits(t *testing.T) {
	got, err := parse("m.txt", `# A comment.
package: ./internal/plan

mutant: 01-first
rule: a plan is made once
test: ./internal/plan -run ^TestOnce$

in: (*Plan).make
-	a()

-	b()
+	c()

in: plan.go: import
 import (
+	"os"

mutant: 02-second
rule: another
test: .
in: limit
-const limit = 3
+const limit = 4
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []mutant{
		{
			name: "01-first", rule: "a plan is made once", dir: "internal/plan", at: "m.txt:4",
			test: []string{"./internal/plan", "-run", "^TestOnce$"},
			edits: []edit{
				{declaration: "(*Plan).make", old: []string{"\ta()", "", "\tb()"}, new: []string{"", "\tc()"}, at: "m.txt:8"},
				{declaration: "import", file: "plan.go", old: []string{"import ("}, new: []string{"import (", "\t\"os\""}, at: "m.txt:14"},
			},
		},
		{
			name: "02-second", rule: "another", dir: "internal/plan", at: "m.txt:18", test: []string{"."},
			edits: []edit{{declaration: "limit", old: []string{"const limit = 3"}, new: []string{"const limit = 4"}, at: "m.txt:21"}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// An error about a file of mutants names the line, and says what belongs there.
func TestParseNamesTheLineOfAnError(t *testing.T) {
	const head = "package: ./p\nmutant: one\nrule: r\ntest: ./p\n"
	for _, c := range []struct{ name, text, want string }{
		{"no mutant", "package: ./p\n", "m.txt: there is no mutant"},
		{"no package", "mutant: one\n", `m.txt:1: the package is missing`},
		{"two packages", "package: ./p\npackage: ./q\n", "m.txt:2: the package is named a second time"},
		{"rule before the mutant", "package: ./p\nrule: r\n", `m.txt:2: "rule" stands before`},
		{"unknown key", head + "why: because\n", `m.txt:5: the key "why" is unknown`},
		{"no key", head + "in: f\n\tcode()\n", `m.txt:6: "\tcode()" is neither`},
		{"diff without declaration", head + "-a()\n", "m.txt:5: a changed line belongs below"},
		{"no edit", head, `m.txt:2: mutant one needs`},
		{"no edit before the next", head + "mutant: two\n", `m.txt:2: mutant one needs`},
		{"only added", head + "in: f\n+a()\n", "m.txt:5: mutant one only adds lines"},
		{"nothing changed", head + "in: f\n a()\n", "m.txt:5: mutant one changes nothing"},
	} {
		if _, err := parse("m.txt", c.text); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: the error is %v; want one that starts with %s", c.name, err, c.want)
		}
	}
}
