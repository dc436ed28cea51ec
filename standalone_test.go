package changefeed_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exampleFiles returns the paths of the programs in examples/ and of the example tests of
// the packages, relative to the module's root. It omits examples/flights, which has
// several files.
func exampleFiles(t *testing.T) (programs, packages []string) {
	t.Helper()
	for _, file := range goFiles(t) {
		switch dir, base := filepath.Split(file); {
		case strings.HasPrefix(dir, "examples/flights/"), strings.HasPrefix(dir, "sonicjson/"), strings.HasPrefix(dir, "interop/"), strings.Contains("/"+dir, "/internal/"):
		case strings.HasPrefix(dir, "examples/") && !strings.HasSuffix(base, "_test.go"):
			programs = append(programs, file)
		case strings.HasPrefix(base, "example") && strings.HasSuffix(base, "_test.go"):
			packages = append(packages, file)
		}
	}
	if len(programs) < 7 || len(packages) < 10 {
		t.Fatalf("found %d programs and %d package examples", len(programs), len(packages))
	}
	return programs, packages
}

// A reader copies one example file into a new module. It must compile there, without
// other files of this repository.
func TestEveryExampleCompilesWhenItsFileIsCopied(t *testing.T) {
	const module = "github.com/changefeed-go/changefeed"
	fresh := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(fresh, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	// Copy the versions from this module, so that nothing is downloaded.
	requires := strings.Replace(document(t, "go.mod"), "module "+module+"\n", "module example.com/fresh\n", 1)
	put("go.mod", requires+"\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n")
	put("go.sum", document(t, "go.sum"))
	programs, packages := exampleFiles(t)
	for _, file := range append(programs, packages...) {
		put(filepath.Join(strings.TrimSuffix(file, ".go"), filepath.Base(file)), document(t, file))
	}
	// go vet checks the types before any analyzer runs. The analyzer "assign" is fast. go
	// build would also link each program, and most other analyzers read all dependencies.
	cmd := exec.CommandContext(t.Context(), "go", "vet", "-assign", "./...")
	cmd.Dir, cmd.Env = fresh, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every package for users must have an example, from which a reader can start. Each
// example must have an output, or a comment that states why it has none.
func TestEveryPackageForUsersHasAnExampleWithOutput(t *testing.T) {
	_, examples := exampleFiles(t)
	example := regexp.MustCompile(`(?ms)(?:^//[^\n]*\n)*^func Example\w*\(\) \{$.*?^\}$`)
	found := map[string]bool{}
	for _, file := range examples {
		for _, text := range example.FindAllString(document(t, file), -1) {
			found[filepath.Dir(file)] = true
			if !regexp.MustCompile(`(?i)\t// (unordered )?output:|\bno output,\s+(//\s+)?because\b`).MatchString(text) {
				t.Errorf("%s: an example has neither an output nor the reason why:\n%s", file, text)
			}
		}
	}
	for _, file := range goFiles(t) {
		dir := filepath.Dir(file)
		switch first, _, _ := strings.Cut(dir, "/"); {
		case strings.HasSuffix(file, "_test.go"), strings.Contains("/"+dir+"/", "/internal/"):
		case first == "cmd", first == "examples", first == "interop", first == "sonicjson": // the last is a module of its own
		case !found[dir]:
			t.Errorf("package %s has no example", dir)
			found[dir] = true
		}
	}
	if len(found) < 11 {
		t.Errorf("found %d packages with examples", len(found))
	}
}

// Service managers and Kubernetes end a process with SIGTERM. So every example that
// handles signals must handle SIGTERM.
func TestEveryExampleThatHandlesSignalsHandlesSIGTERM(t *testing.T) {
	handles := regexp.MustCompile(`signal\.Notify\w*\(.*`)
	found := 0
	programs, _ := exampleFiles(t)
	for _, file := range append(programs, "README.md", "examples/flights/main.go", "docs/where-to-run.md") {
		for _, call := range handles.FindAllString(document(t, file), -1) {
			found++
			if !strings.Contains(call, "syscall.SIGTERM") {
				t.Errorf("%s: %s", file, call)
			}
		}
	}
	if found < 9 {
		t.Errorf("found %d calls", found)
	}
}
