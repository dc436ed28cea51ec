package changefeed_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goFiles returns the module's Go files, as filesWith does.
func goFiles(t *testing.T) []string {
	t.Helper()
	return filesWith(t, ".go")
}

// filesWith returns the files whose names end in one of extensions, relative to the
// module's root. It leaves out testdata and the directories into which tools write.
func filesWith(t *testing.T, extensions ...string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && (strings.HasPrefix(e.Name(), ".") || slices.Contains([]string{"testdata", "bin", "node_modules", "target"}, e.Name())):
			return filepath.SkipDir
		case slices.Contains(extensions, filepath.Ext(path)):
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReadmesExampleRuns(t *testing.T) {
	m := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(document(t, "README.md"))
	if m == nil {
		t.Fatal("README.md has no example")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(m[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", file).Output() // the log is on standard error
	if err != nil || string(out) != "ada has ordered\n" {
		t.Errorf("it prints %q (%v)", out, err)
	}
}

// The README must give its two commands once each. CI must run them, and the checks of
// the Makefile.
func TestReadmesTwoCommandsMatchCI(t *testing.T) {
	readme, ci := document(t, "README.md"), document(t, ".ci/run")
	for _, command := range []string{"go test ./...", "go run ./cmd/changefeed demo"} {
		if strings.Count(readme, "\n    "+command+"\n") != 1 {
			t.Errorf("README.md does not have %q exactly once on a line of its own", command)
		}
	}
	for _, want := range []string{"README.md", "go run ./cmd/changefeed demo", "make race", "make lint", "make fuzz", "make bench"} {
		if !strings.Contains(ci, want) {
			t.Errorf(".ci/run has no %q", want)
		}
	}
}

// Every test and every test flag that the Makefile names must exist. Otherwise a rarely
// used target could be broken without notice.
func TestMakefilesFlagsAndTestsExist(t *testing.T) {
	makefile := document(t, "Makefile")
	var code strings.Builder
	for _, file := range goFiles(t) {
		code.WriteString(document(t, file))
	}
	for _, m := range regexp.MustCompile(` -([a-z]+\.[a-z]+|ratios)\b`).FindAllStringSubmatch(makefile, -1) {
		if !regexp.MustCompile(`flag\.\w+\("` + regexp.QuoteMeta(m[1]) + `"`).MatchString(code.String()) {
			t.Errorf("the Makefile gives -%s, which no test has", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`Test[A-Z]\w*`).FindAllString(makefile, -1) {
		if !strings.Contains(code.String(), "func "+m) {
			t.Errorf("the Makefile runs %s, which does not exist", m)
		}
	}
}

// guides returns the paths of the Markdown pages in docs and deploy.
func guides(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("docs has no pages: %v", err)
	}
	return append(pages, "deploy/README.md")
}

// Every test that a page names must exist. Otherwise a claim of that page would be
// untested.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	have := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`)
	for _, file := range goFiles(t) {
		for _, m := range function.FindAllStringSubmatch(document(t, file), -1) {
			have[m[1]] = true
		}
	}
	named := regexp.MustCompile("`((?:Test|Example|Fuzz|Benchmark)[A-Z_]\\w*)`")
	for _, page := range append(guides(t), "README.md", "DESIGN.md", "CONTRIBUTING.md", "TROUBLESHOOTING.md", "internal/layout/FORMAT.md") {
		for _, m := range named.FindAllStringSubmatch(document(t, page), -1) {
			if !have[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

func TestDocumentsLinksLeadSomewhere(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, page := range append(guides(t), "README.md", "DESIGN.md", "CONTRIBUTING.md", "TROUBLESHOOTING.md") {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(document(t, page), ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

// A remedy that a page links must be where the link says: a heading that was renamed leaves
// the reader at the top of the page. The test makes anchors of headings as GitHub does.
func TestDocumentsAnchorsExist(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```")
	heading := regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	link := regexp.MustCompile(`\]\(([^)#:\s]*)#([^)\s]+)\)`)
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	anchors := func(page string) map[string]bool {
		found := map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(document(t, page), ""), -1) {
			found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
		}
		return found
	}
	links := 0
	for _, page := range append(guides(t), "README.md", "DESIGN.md", "CONTRIBUTING.md", "TROUBLESHOOTING.md") {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(document(t, page), ""), -1) {
			target := page
			if m[1] != "" {
				target = path.Join(path.Dir(page), m[1])
			}
			if links++; path.Ext(target) == ".md" && !anchors(target)[m[2]] {
				t.Errorf("%s links to #%s of %s, which has no such heading", page, m[2], target)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links are found", links)
	}
}

// A page that refers to an example must link it, because its readers may not have the
// repository.
func TestDocumentsLinkTheExamplesThatTheyName(t *testing.T) {
	loose := regexp.MustCompile(`(?i)(as in|see) the\s+example\s+of|\(` + "`" + `[\w/]*example_\w+\.go` + "`" + `\)`)
	for _, page := range append(guides(t), "TROUBLESHOOTING.md") {
		if m := loose.FindString(document(t, page)); m != "" {
			t.Errorf("%s says %q without a link", page, m)
		}
	}
}

// namedFiles returns the file names in a text: names that end in .go, .md, .yml or
// .patch, and directories that begin with "./".
func namedFiles(text string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(^|[\s("\x60])((?:\./)?[A-Za-z][\w./-]*\.(?:go|md|yml|patch)|\./[a-z][\w/-]*[a-z])\b`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[2])
	}
	return names
}

// comments returns the text of all comments in a Go file.
func comments(t *testing.T, file string) string {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, group := range tree.Comments {
		text.WriteString(group.Text())
	}
	return text.String()
}

// Every file that a page or a comment names must exist. A name with a directory is looked
// up from the module's root and beside the page. A name without one is looked up anywhere
// in the module.
func TestCitedFilesExist(t *testing.T) {
	bare := map[string]bool{}
	for _, file := range goFiles(t) {
		bare[path.Base(file)] = true
	}
	for _, page := range append(guides(t), "internal/layout/FORMAT.md", "CHANGELOG.md", "CONTRIBUTING.md", "DESIGN.md", "README.md", "TROUBLESHOOTING.md") {
		bare[path.Base(page)] = true
	}
	exists := func(from, name string) bool {
		if bare[name] {
			return true
		}
		for _, dir := range []string{".", path.Dir(from)} {
			if _, err := os.Stat(path.Join(dir, name)); err == nil {
				return true
			}
		}
		return false
	}
	// These names are not files of the module: built binaries, programs of users, the two
	// sides of a patch, and the report of a run against an account, which nobody has made yet.
	elsewhere := regexp.MustCompile(`^(main\.go|\./changefeed|[ab]/.*|docs/azure\.md)$`)
	texts := map[string]string{}
	for _, file := range goFiles(t) {
		texts[file] = comments(t, file)
	}
	for _, page := range append(guides(t), "CONTRIBUTING.md", "DESIGN.md", "README.md", "TROUBLESHOOTING.md", "internal/layout/FORMAT.md", "Makefile", ".golangci.yml", ".ci/run", ".ci/fuzz") {
		texts[page] = document(t, page)
	}
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		for _, name := range namedFiles(texts[file]) {
			if !elsewhere.MatchString(name) && !exists(file, name) {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}

// Section 3 of DESIGN.md lists the packages. It must name every package of the module, or
// a parent directory of it followed by "/...".
func TestHouseNamesEveryPackage(t *testing.T) {
	_, house, _ := strings.Cut(document(t, "DESIGN.md"), "\n## 3. ")
	house, _, found := strings.Cut(house, "\n## 4. ")
	if !found {
		t.Fatal("DESIGN.md has no section 3")
	}
	for _, file := range goFiles(t) {
		dir := path.Dir(file)
		if dir == "." || strings.HasPrefix(dir, "examples/") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		named := strings.Contains(house, "| "+dir+" |") || strings.Contains(house, "| "+dir+"/ |")
		for above := dir; above != "." && !named; above = path.Dir(above) {
			named = strings.Contains(house, "| "+above+"/... |")
		}
		if !named {
			t.Errorf("section 3 of DESIGN.md does not name %s", dir)
		}
	}
}
