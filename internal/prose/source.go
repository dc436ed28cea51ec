package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxWidth is the largest width of a comment line in columns. A tab is four columns.
const maxWidth = 120

// source is the prose of one Go file.
type source struct {
	path       string
	paragraphs [][]line // of comments, then of messages
	comments   int      // the number of paragraphs in comments
	findings   []finding
}

// line is one line of a paragraph.
type line struct {
	number int
	text   string
}

// newSource reads a Go file. It returns nil if the file is generated.
func newSource(path string) (*source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(tree) {
		return nil, err
	}
	s := &source{path: path}
	s.addComments(files, tree)
	s.comments = len(s.paragraphs)
	if !strings.HasSuffix(path, "_test.go") {
		s.addMessages(files, tree)
	}
	for _, l := range numbered(string(text), 1) {
		width := utf8.RuneCountInString(l.text) + 3*strings.Count(l.text, "\t")
		if strings.HasPrefix(strings.TrimSpace(l.text), "//") && width > maxWidth {
			s.findings = append(s.findings, finding{path, l.number, fmt.Sprintf(
				"Width: the comment has %d columns; at most %d are allowed", width, maxWidth)})
		}
	}
	return s, nil
}

// numbered splits a text into lines. number is the line number of its first line in the
// file.
func numbered(text string, number int) []line {
	var lines []line
	for text := range strings.SplitSeq(text, "\n") {
		lines = append(lines, line{number, text})
		number++
	}
	return lines
}

var (
	// directive matches a comment for a tool.
	directive = regexp.MustCompile(`^//(line |extern |export |[a-z0-9]+:[a-z0-9])`)
	// excluded matches the first line of a license and of an example's expected output.
	excluded = regexp.MustCompile(`^(Copyright |SPDX-|(?i:(unordered )?output:))`)
	// item matches the marker of a list item or a heading.
	item = regexp.MustCompile(`^ *([-*+•]|\d+[.)]|#+)\s+`)
)

// addComments adds the comments of a file.
func (s *source) addComments(files *token.FileSet, tree *ast.File) {
	for _, group := range tree.Comments {
		var lines []line
		for _, comment := range group.List {
			if directive.MatchString(comment.Text) {
				continue
			}
			text := strings.TrimSuffix(comment.Text[2:], "*/")
			for _, l := range numbered(text, files.Position(comment.Pos()).Line) {
				lines = append(lines, line{l.number, strings.TrimPrefix(l.text, " ")})
			}
		}
		if len(lines) > 0 && !excluded.MatchString(lines[0].text) {
			s.addText(lines)
		}
	}
}

// addText adds the paragraphs of a text without its indented lines, which are code. A
// list item is a paragraph.
func (s *source) addText(lines []line) {
	inParagraph, inList := false, false
	for _, l := range lines {
		text := strings.TrimSpace(l.text)
		marker := item.FindString(l.text)
		indented := strings.HasPrefix(l.text, "\t") || strings.HasPrefix(l.text, "  ")
		switch {
		case marker != "":
			inParagraph, inList = false, true
			text = strings.TrimSpace(l.text[len(marker):])
		case !indented:
			inList = inList && inParagraph
		case !inList || !strings.HasPrefix(l.text, "    "):
			text = ""
		}
		switch {
		case text == "":
			inParagraph = false
			continue
		case !inParagraph:
			s.paragraphs = append(s.paragraphs, nil)
		}
		inParagraph = true
		last := &s.paragraphs[len(s.paragraphs)-1]
		*last = append(*last, line{l.number, text})
	}
}

// plain removes the characters that Markdown takes for HTML.
var plain = strings.NewReplacer("<", " ", ">", " ")

// markdown returns the paragraphs as a Markdown page, and the line of the file for each
// of its lines.
func (s *source) markdown() (page []byte, numbers []int) {
	var text bytes.Buffer
	for _, paragraph := range s.paragraphs {
		for _, l := range paragraph {
			text.WriteString(plain.Replace(l.text) + "\n")
			numbers = append(numbers, l.number)
		}
		text.WriteByte('\n')
		numbers = append(numbers, 0)
	}
	return text.Bytes(), numbers
}
