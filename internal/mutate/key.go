package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keyOf returns the key under which the result of a mutant is kept: a hash of the arguments of
// `go test`, of the files that the mutant changes, before and after, and of the package of its
// test. Two things it deliberately leaves out, because nearly every commit would change them:
// the other files of the mutated package, and the packages that the test imports.
func keyOf(args []string, changes []change, testPackage string) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %s\n", args, testPackage)
	for _, c := range changes {
		_, _ = fmt.Fprintf(h, "%q %q %q\n", c.file, c.before, c.after)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashPackage returns a hash of the Go files of a directory, and of all files in its testdata.
func hashPackage(dir string) (string, error) {
	contents := map[string]string{}
	add := func(file string) error {
		text, err := os.ReadFile(file)
		contents[file] = string(text)
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if err := add(file); err != nil {
			return "", err
		}
	}
	err = filepath.WalkDir(filepath.Join(dir, "testdata"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return add(file)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	h := sha256.New()
	for _, file := range slices.Sorted(maps.Keys(contents)) {
		_, _ = fmt.Fprintf(h, "%q %q\n", strings.TrimPrefix(file, dir), contents[file])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
