package changefeed

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program that uses the processor must link few packages. feed and lease may import the
// standard library, the rules for following a feed and the scanner of JSON only. The root
// package and estimator may also import OpenTelemetry's APIs of metrics and traces, and their hash
// function.
func TestRootFeedAndLeaseLinkLittle(t *testing.T) {
	const module = "github.com/changefeed-go/changefeed"
	api := []string{"go.opentelemetry.io/otel/", "github.com/cespare/xxhash/v2"}
	for _, c := range []struct {
		of      []string
		allowed []string // prefixes of other modules' packages
	}{
		{[]string{module + "/feed", module + "/lease", module + "/letters"}, nil},
		{[]string{module, module + "/estimator", module + "/internal/balance", module + "/internal/hook", module + "/internal/keypath", module + "/internal/outage", module + "/internal/protocol", module + "/internal/seeded"}, api},
	} {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}, c.of...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		ours := map[string]bool{module + "/feed": true, module + "/lease": true, module + "/letters": true, module + "/internal/follow": true, module + "/internal/jsonscan": true}
		for _, path := range c.of {
			ours[path] = true
		}
		found := 0
		for path := range strings.FieldsSeq(string(out)) {
			if ours[path] {
				found++
				continue
			}
			light := false
			for _, prefix := range c.allowed {
				light = light || strings.HasPrefix(path, prefix)
			}
			if !light || strings.Contains(path, "/sdk/") {
				t.Errorf("%v links %s", c.of, path)
			}
		}
		if found != len(ours) {
			t.Errorf("go list shows %d of our %d packages", found, len(ours))
		}
	}
}

// A program that imports only the root package and package cosmos must not get the
// storage engine Pebble in its go.mod. `go mod tidy` also follows imports of these
// packages' tests. So tests that need Pebble are in internal/integration.
func TestRootAndCosmosNeedNoPebble(t *testing.T) {
	const module = "github.com/changefeed-go/changefeed"
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	fresh := t.TempDir()
	// Copy the versions and sums from this module, so that tidy downloads nothing.
	ours := read("go.mod")
	for name, text := range map[string]string{
		"go.mod": strings.Replace(ours, "module "+module+"\n", "module example.com/fresh\n", 1) +
			"\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n",
		"go.sum":  read("go.sum"),
		"main.go": "package main\n\nimport (\n\t_ \"" + module + "\"\n\t_ \"" + module + "/cosmos\"\n)\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(fresh, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "mod", "tidy")
	cmd.Dir, cmd.Env = fresh, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sums := read(filepath.Join(fresh, "go.sum"))
	if !strings.Contains(sums, "azcore") {
		t.Errorf("go.sum lacks azcore, which cosmos needs:\n%s", sums)
	}
	for line := range strings.Lines(sums) {
		if strings.Contains(line, "cockroachdb") {
			t.Errorf("go.sum has %s", line)
		}
	}
}
