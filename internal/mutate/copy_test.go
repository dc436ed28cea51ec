package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The tests run in a copy, so that nobody's working tree ever has a mutant.
func TestCopyHasTheModuleAndIsRemoved(t *testing.T) {
	root := writeTree(t, map[string]string{
		"a/a.go": "package a\n", "a/testdata/x": "x\n", ".git": "gitdir: elsewhere\n", "bin/mutants.jsonl": "{}\n",
	})
	c, err := copyModule(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a/a.go": true, "a/testdata/x": true, ".git": false, "bin": false} {
		if _, err := os.Stat(filepath.Join(c.tree, name)); (err == nil) != want {
			t.Errorf("%s: copied is %t; want %t", name, err == nil, want)
		}
	}
	if err := c.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
		t.Errorf("the copy is still there: %v", err)
	}
}
