// Command prose checks the prose of the repository: comments and messages in Go files,
// and Markdown pages.
//
// Vale checks phrases, by the rules in .vale/Changefeed. Go itself checks the length of
// sentences, the width of comments and the form of messages. Generated files and testdata
// are excluded.
//
//	go run ./internal/prose -vale BIN   prints the findings
//	go run ./internal/prose -draw SEED  prints 30 comments and 10 pages, drawn at random
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	vale := flag.String("vale", "vale", "`path` of the vale binary")
	seed := flag.Uint64("draw", 0, "print comments and pages for a reader to rate, drawn with the `seed`")
	flag.Parse()
	drawing := false
	flag.Visit(func(f *flag.Flag) { drawing = drawing || f.Name == "draw" })
	ctx := context.Background()
	paths, err := tracked(ctx)
	text := ""
	switch {
	case err != nil:
	case drawing:
		text, err = draw(paths, *seed)
	default:
		text, err = report(ctx, *vale, paths)
	}
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

// report returns the findings in files, one on each line. Findings are an error.
func report(ctx context.Context, vale string, paths []string) (string, error) {
	findings, err := check(ctx, vale, paths)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&out, "%s:%d: %s\n", f.path, f.line, f.message)
	}
	if len(findings) > 0 {
		err = fmt.Errorf("%d findings", len(findings))
	}
	return out.String(), err
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
