package deploy

import (
	"archive/zip"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const module = "github.com/changefeed-go/changefeed"

var installs = flag.Bool("deploy.install", false, "install the command from a module proxy in a directory (5 minutes)")

// text returns a file of the repository. Its path is relative to the root.
func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// decode decodes a YAML file of the repository. Members that to does not have are errors if
// strict is true.
func decode(t *testing.T, path string, to any, strict bool) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text(t, path)))
	d.KnownFields(strict)
	if err := d.Decode(to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// The commands of make, which every user of the machine can list, have no key.
func TestMakeShowsNoKey(t *testing.T) {
	tool, err := exec.LookPath("make")
	if err != nil {
		t.Skip("needs make")
	}
	cmd := exec.CommandContext(t.Context(), tool, "-C", "..", "-n", "azure", "ENDPOINT=https://a.example.com")
	cmd.Env = append(os.Environ(), "COSMOS_KEY=c2VjcmV0")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "-endpoint 'https://a.example.com'") || strings.Contains(string(out), "c2VjcmV0") {
		t.Errorf("%v: %s", err, out)
	}
}

// A release has a binary for each system and processor that the documents promise, and
// tells its version, which a wrong name after -X would leave out without an error.
func TestReleaseHasEveryBinaryAndItsVersion(t *testing.T) {
	var c struct {
		Builds []struct {
			Main                              string
			Env, Goos, Goarch, Flags, Ldflags []string
		}
		Archives []struct{ Files []string }
		Checksum struct{ Algorithm string }
		Release  struct{ Draft bool }
	}
	decode(t, ".goreleaser.yaml", &c, false)
	if len(c.Builds) != 1 || len(c.Archives) != 1 {
		t.Fatalf("%d builds and %d archives; want 1 and 1", len(c.Builds), len(c.Archives))
	}
	b := c.Builds[0]
	if !slices.Equal(b.Goos, []string{"linux", "darwin", "windows"}) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) {
		t.Errorf("builds for %v on %v", b.Goos, b.Goarch)
	}
	if !slices.Contains(b.Env, "CGO_ENABLED=0") || c.Checksum.Algorithm != "sha256" || !c.Release.Draft {
		t.Errorf("env %v, checksums by %q, draft %v", b.Env, c.Checksum.Algorithm, c.Release.Draft)
	}
	source := text(t, b.Main+"/version.go")
	sets := regexp.MustCompile(`-X main\.(\w+)=\S*\{\{ \.\w+ \}\}`).FindAllStringSubmatch(strings.Join(b.Ldflags, "\n"), -1)
	if len(sets) != 3 {
		t.Errorf("%d variables are set; want the version, the commit and its date", len(sets))
	}
	for _, m := range sets {
		if !regexp.MustCompile(`(?m)^var (\w+, )*` + m[1] + `(, \w+)* string$`).MatchString(source) {
			t.Errorf("main.%s is no variable of version.go", m[1])
		}
	}
	for _, file := range c.Archives[0].Files {
		text(t, file)
	}
}

// `go install` of a version refuses a module whose go.mod has one of these directives.
func TestModuleCanBeInstalledByVersion(t *testing.T) {
	if m := regexp.MustCompile(`(?m)^\s*(replace|exclude)\b.*`).FindString(text(t, "go.mod")); m != "" {
		t.Errorf("go.mod has %q", m)
	}
}

// A user without a clone installs the command from a module proxy. Here that is a directory
// with the files of this work tree that Git knows. Other modules come from the cache, into which
// go has put only what it had verified, so the database of sums is not asked again.
func TestCommandIsInstalledFromAProxy(t *testing.T) {
	if !*installs {
		t.Skip("needs -deploy.install (make release-check)")
	}
	const version = "v0.0.1-proxy"
	dir := t.TempDir()
	at := filepath.Join(dir, "proxy", module, "@v")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"list": version + "\n", version + ".mod": text(t, "go.mod"), version + ".info": `{"Version":"` + version + `"}`,
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	zipModule(t, filepath.Join(at, version+".zip"), module+"@"+version+"/")
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cache := strings.TrimSpace(output(t, "go", "env", "GOMODCACHE"))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOSUMDB=off",
			"GOBIN="+filepath.Join(dir, "bin"), "GOMODCACHE="+filepath.Join(dir, "modules"),
			"GOPROXY=file://"+filepath.Join(dir, "proxy")+",file://"+cache+"/cache/download")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("go", "install", module+"/cmd/changefeed@"+version)
	if out := run(filepath.Join(dir, "bin", "changefeed"), "--version"); !strings.HasPrefix(out, "changefeed "+version+" go") {
		t.Errorf("--version prints %q", out)
	}
}

// zipModule writes the files of the root module that Git knows to a zip file, under prefix,
// as a module proxy serves them: without the modules in directories below.
func zipModule(t *testing.T, path, prefix string) {
	t.Helper()
	files := strings.Fields(output(t, "git", "-C", "..", "ls-files", "-co", "--exclude-standard"))
	var below []string
	for _, f := range files {
		if dir, ok := strings.CutSuffix(f, "/go.mod"); ok {
			below = append(below, dir+"/")
		}
	}
	archive, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(archive)
	for _, f := range files {
		if slices.ContainsFunc(below, func(dir string) bool { return strings.HasPrefix(f, dir) }) {
			continue
		}
		entry, err := w.Create(prefix + f)
		if err == nil {
			_, err = io.WriteString(entry, text(t, f))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return string(out)
}
