// Command prose checks the prose of the repository: comments and messages in Go files,
// and Markdown pages.
//
// Vale checks phrases, by the rules in .vale/Changefeed. Go itself checks the length of
// sentences, the width of comments and the form of messages. Generated files and testdata
// are excluded.
//
// Files that do not pass yet are listed in .vale/unwritten.txt. Their findings are
// skipped. The list only shrinks: a listed file that passes, or is gone, is an error.
//
//	go run ./internal/prose -vale BIN        prints the findings
//	go run ./internal/prose -vale BIN -list  prints a new list, which must not grow
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listPath is the path of the list of files that are not rewritten yet.
const listPath = ".vale/unwritten.txt"

func main() {
	vale := flag.String("vale", "vale", "`path` of the vale binary")
	list := flag.Bool("list", false, "print the files that have findings")
	flag.Parse()
	text, err := run(context.Background(), *vale, *list)
	fmt.Print(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

// finding is a place where a file breaks a rule.
type finding struct {
	path    string
	line    int
	message string
}

// run checks the files of the repository in the current directory. It returns the text to
// print.
func run(ctx context.Context, vale string, list bool) (string, error) {
	paths, err := tracked(ctx)
	if err != nil {
		return "", err
	}
	findings, err := check(ctx, vale, paths)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(listPath)
	if err != nil {
		return "", err
	}
	listed := strings.Fields(string(text))
	if list {
		return newList(findings, listed)
	}
	unlisted, err := skipListed(findings, listed)
	if len(unlisted) > 0 {
		err = errors.Join(fmt.Errorf("%d findings", len(unlisted)), err)
	}
	out := ""
	for _, f := range unlisted {
		out += fmt.Sprintf("%s:%d: %s\n", f.path, f.line, f.message)
	}
	return out, err
}

// newList returns the text of the new list. Renamed files may enter it, but it does not
// grow.
func newList(findings []finding, listed []string) (string, error) {
	bad := failing(findings)
	if len(bad) > len(listed) {
		added := slices.DeleteFunc(bad, func(path string) bool { return slices.Contains(listed, path) })
		return "", fmt.Errorf("%s would grow; rewrite the files that it does not have:\n%s", listPath, strings.Join(added, "\n"))
	}
	return strings.Join(append(bad, ""), "\n"), nil
}

// tracked returns the Go files and Markdown pages of the repository that exist, without
// those below testdata.
func tracked(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "git", "ls-files", "-co", "--exclude-standard", "*.go", "*.md").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list files: %w", err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(path string) bool {
		_, err := os.Stat(path)
		return err != nil || slices.Contains(strings.Split(path, "/"), "testdata")
	}), nil
}

// check returns the findings in files, sorted.
func check(ctx context.Context, vale string, paths []string) ([]finding, error) {
	var sources []*source
	var pages []string
	var findings []finding
	for _, path := range paths {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
			continue
		}
		src, err := newSource(path)
		if err != nil {
			return nil, err
		}
		if src != nil {
			sources = append(sources, src)
			findings = append(findings, src.findings...)
		}
	}
	alerts, err := runVale(ctx, vale, sources, pages)
	if err != nil {
		return nil, err
	}
	findings = slices.Concat(findings, lengthFindings(sources), alerts)
	slices.SortFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.line, b.line), cmp.Compare(a.message, b.message))
	})
	return slices.Compact(findings), nil
}

// failing returns the files that have findings, sorted.
func failing(findings []finding) []string {
	var paths []string
	for _, f := range findings {
		paths = append(paths, f.path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// skipListed returns the findings in files that are not listed. Its error names the
// listed files that do not exist, that have no findings, or that are out of order.
func skipListed(findings []finding, listed []string) ([]finding, error) {
	bad := failing(findings)
	var missing, clean, errs []string
	for _, path := range listed {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, path)
		} else if !slices.Contains(bad, path) {
			clean = append(clean, path)
		}
	}
	if missing != nil {
		errs = append(errs, "remove the files that do not exist:\n"+strings.Join(missing, "\n"))
	}
	if clean != nil {
		errs = append(errs, "remove the files without findings:\n"+strings.Join(clean, "\n"))
	}
	if !slices.IsSorted(listed) {
		errs = append(errs, "sort it")
	}
	unlisted := slices.DeleteFunc(slices.Clone(findings), func(f finding) bool { return slices.Contains(listed, f.path) })
	if errs != nil {
		return unlisted, fmt.Errorf("%s is out of date: %s", listPath, strings.Join(errs, "\n"))
	}
	return unlisted, nil
}
