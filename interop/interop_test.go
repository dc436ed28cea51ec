// Package interop_test checks, without a server, that the suites match the list of
// scenarios.
package interop_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// suites maps each suite's name to the directory of its sources and the ending of their
// file names.
var suites = map[string]struct{ directory, ending string }{
	"go":   {"go/azcosmos", "_test.go"},
	"raw":  {"go/raw", "_test.go"},
	"js":   {"js/test", ".test.js"},
	"java": {"java/src", ".java"},

	"python":       {"python/suite", ".py"},
	"python-async": {"python/suite", ".py"},
}

type scenario struct {
	Name, Asserts string
	Suites        []string
}

func catalogue(t *testing.T) []scenario {
	t.Helper()
	var file struct{ Scenarios []scenario }
	decode(t, "scenarios.json", &file)
	return file.Scenarios
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestScenariosAreNamedOnceAndExplained(t *testing.T) {
	var names []string
	for _, s := range catalogue(t) {
		if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(s.Name) {
			t.Errorf("%q is not a valid name of a scenario", s.Name)
		}
		if len(s.Suites) == 0 || !strings.HasSuffix(s.Asserts, ".") {
			t.Errorf("%s: suites are missing, or the text of asserts does not end in a period", s.Name)
		}
		for _, suite := range s.Suites {
			if _, known := suites[suite]; !known {
				t.Errorf("%s: suite %q does not exist", s.Name, suite)
			}
		}
		names = append(names, s.Name)
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%q contains a name twice", names)
	}
}

// The sources of each suite must contain each of its scenarios, or its missing.json must
// contain a reason. Some sources compose a scenario's name from a prefix and the name of
// a reader or a mode. They must contain both parts. (The runner checks that each scenario
// runs.)
func TestEachSuiteHasItsScenariosOrAReason(t *testing.T) {
	for suite, at := range suites {
		words := wordsOf(t, at.directory, at.ending)
		missing := map[string]string{}
		directory, _, _ := strings.Cut(at.directory, "/")
		if directory == "go" {
			directory = at.directory
		}
		path := filepath.Join(directory, "missing.json")
		decode(t, path, &missing)
		known := map[string]bool{}
		for _, s := range catalogue(t) {
			if !slices.Contains(s.Suites, suite) {
				continue
			}
			known[s.Name] = true
			prefix, rest, _ := strings.Cut(s.Name, "-")
			composed := slices.Contains([]string{"split", "merge", "processor"}, prefix) &&
				(words[prefix] || words[prefix+"-"]) && (words[rest] || words["-"+rest])
			reason, lacks := missing[s.Name]
			switch {
			case lacks && len(reason) < 20:
				t.Errorf("%s: %s lacks a reason", path, s.Name)
			case lacks && words[s.Name]:
				t.Errorf("%s: %s is in the suite", path, s.Name)
			case !lacks && !words[s.Name] && !composed:
				t.Errorf("%s lacks %s, and %s has no reason", at.directory, s.Name, path)
			}
		}
		for name := range missing {
			if !known[name] {
				t.Errorf("%s: %s is not a scenario of that suite", path, name)
			}
		}
	}
}

// wordsOf returns the words in all sources of a directory, in lower case. A hyphen counts
// as a part of a word.
func wordsOf(t *testing.T, directory, ending string) map[string]bool {
	t.Helper()
	words := map[string]bool{}
	word := regexp.MustCompile(`[A-Za-z0-9-]+`)
	err := filepath.WalkDir(directory, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ending) {
			return err
		}
		text, err := os.ReadFile(path)
		for _, w := range word.FindAllString(string(text), -1) {
			words[strings.ToLower(w)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return words
}
