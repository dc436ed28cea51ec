package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCountSeesExportedIdentifiersAndCodeLines(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a/a.go", `// Package a is counted.
package a

const X, y = 1, 2 // one exported

/* A comment
of two lines. */
type T[K any] struct{ Field int }

func (t *T[K]) Method() string {
	return `+"`two\nlines // of text`"+`
}

func (t *T[K]) method() {}

type u struct{}

func (u) Method() {}
`)
	write("a/a_test.go", "package a\n\nfunc Tested() {}\n")
	write("a/testdata/b.go", "not Go")
	write("b/b.go", "package b\n\nimport \"example.com/a\"\n\ntype Of = a.T\n")

	var out bytes.Buffer
	if err := run(&out, root); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("got %d lines, want a head, two packages and the total:\n%s", len(lines), out.String())
	}
	// The exported identifiers are X, T and T.Method. Ten lines hold code.
	if got, want := strings.Join(strings.Fields(lines[1])[:3], " "), "3 1 10"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// The exported identifiers are the alias Of, and the Method that it has from a.T.
	if got, want := strings.Join(strings.Fields(lines[2])[:3], " "), "2 1 3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
