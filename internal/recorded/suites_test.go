package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The outcomes come from real lines of `go test -json`, so the test runs it on a package
// with a test of each kind.
func TestReportHasEveryOutcomeWithItsReason(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/suites\n",
		"a_test.go": `package a

import "testing"

func TestSuite(t *testing.T) {
	t.Run("good one", func(t *testing.T) { t.Log("no matter") })
	t.Run("bad one", func(t *testing.T) { t.Error("42, want 41") })
	t.Run("dear one", func(t *testing.T) { t.Skip("it costs 40,000 RU/s") })
}

func TestAlone(t *testing.T) {}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	lines, err := cmd.Output()
	if err == nil {
		t.Fatal("the package has no test that fails")
	}
	all, err := outcomes(strings.NewReader(string(lines)))
	if err != nil || len(all) != 4 || count(all, "pass") != 2 || count(all, "fail") != 1 || count(all, "skip") != 1 {
		t.Fatalf("%v: %+v", err, all)
	}
	page := report(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), "  7 differs  a case\n", all)
	for _, want := range []string{
		"on 1 December 2026", "2 tests passed, 1 failed, and 1 were skipped.",
		"### Failed\n\n- TestSuite/bad one\n  - a_test.go:7: 42, want 41\n", "### Skipped\n\n- TestSuite/dear one\n  - a_test.go:8: it costs 40,000 RU/s\n",
		"### Passed\n\n- TestSuite/good one\n- TestAlone\n", "```\n7 differs  a case\n```",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %q:\n%s", want, page)
		}
	}
	broken, err := outcomes(strings.NewReader(`{"Action":"output","Output":"undefined: x\n"}` + "\n" + `{"Action":"fail"}`))
	if err != nil || len(broken) != 1 || !strings.Contains(broken[0].why, "undefined: x") {
		t.Errorf("a package that does not compile: %v: %+v", err, broken)
	}
}
