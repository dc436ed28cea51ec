package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// The sizes of a drawing.
const (
	drawnComments = 30
	drawnPages    = 10
)

// draw returns comments, each with the lines of code around it, and the paths of pages.
// It draws them at random. The same seed and files give the same result.
func draw(paths []string, seed uint64) (string, error) {
	var comments, pages []string
	for _, path := range paths {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
			continue
		}
		in, err := commentsIn(path)
		if err != nil {
			return "", err
		}
		comments = append(comments, in...)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	var out strings.Builder
	for i, at := range random.Perm(len(comments))[:min(drawnComments, len(comments))] {
		fmt.Fprintf(&out, "--- comment %d of %d\n%s\n", i+1, drawnComments, comments[at])
	}
	for i, at := range random.Perm(len(pages))[:min(drawnPages, len(pages))] {
		fmt.Fprintf(&out, "--- page %d of %d\n%s\n", i+1, drawnPages, pages[at])
	}
	return out.String(), nil
}

// commentsIn returns the comments of a Go file: each with its position, the line before
// it and the two lines after it. Directives, generated files and comments of fewer than
// four words are excluded.
func commentsIn(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(tree) {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	var comments []string
	for _, group := range tree.Comments {
		if len(strings.Fields(group.Text())) < 4 || excluded.MatchString(group.Text()) {
			continue
		}
		first, last := files.Position(group.Pos()).Line, files.Position(group.End()).Line
		around := lines[max(first-2, 0):min(last+2, len(lines))]
		comments = append(comments, fmt.Sprintf("%s:%d\n%s\n", path, first, strings.Join(around, "\n")))
	}
	return comments, nil
}
