package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
)

// form is a rule for messages of one kind. It refuses the messages that match. The linter
// revive checks the first letter and the last character of errors.
type form struct {
	call   *regexp.Regexp // matches the functions and fields that take the message
	refuse *regexp.Regexp
	remedy string
}

var forms = []form{
	{errorCall, regexp.MustCompile(`(^|: )(failed to|could not|couldn't|can't|unable to) `), `begin an error with "cannot"`},
	{logCall, regexp.MustCompile(`^[A-Z][a-z]+ [a-z]`), "begin a log message with a lower-case letter"},
	{logCall, regexp.MustCompile(`[.!:]$`), "end a log message without punctuation"},
	{shortField, regexp.MustCompile(`^[a-z]+ `), "begin the help of a command with a capital letter"},
	{shortField, regexp.MustCompile(`[.!]$`), "end the help of a command without punctuation"},
	{flagCall, regexp.MustCompile(`^[A-Z][a-z]+ [a-z]`), "begin the help of a flag with a lower-case letter"},
	{flagCall, regexp.MustCompile(`[.!]$`), "end the help of a flag without punctuation"},
}

var (
	errorCall  = regexp.MustCompile(`.`) // functions of many packages make errors
	logCall    = regexp.MustCompile(`(?i)(^|\.)(slog|log|logger)\.(debug|info|warn|error)(context)?$`)
	shortField = regexp.MustCompile(`^Short$`)
	flagCall   = regexp.MustCompile(`(?i)(^|\.)(persistent)?flags?(\(\))?\.\w+$`)
)

// addMessages adds the messages of a file: its strings of three words and more.
func (s *source) addMessages(files *token.FileSet, tree *ast.File) {
	ast.Inspect(tree, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			for _, arg := range node.Args {
				s.checkForm(files, types.ExprString(node.Fun), arg)
			}
		case *ast.KeyValueExpr:
			s.checkForm(files, types.ExprString(node.Key), node.Value)
		case *ast.BasicLit:
			if text, ok := message(node); ok {
				s.addText(numbered(text, files.Position(node.Pos()).Line))
			}
		}
		return true
	})
}

// checkForm checks a message that a function or field takes.
func (s *source) checkForm(files *token.FileSet, call string, expr ast.Expr) {
	text, ok := message(expr)
	for _, f := range forms {
		if ok && f.call.MatchString(call) && f.refuse.MatchString(text) {
			s.findings = append(s.findings, finding{s.path, files.Position(expr.Pos()).Line, fmt.Sprintf("Form: %s: %q", f.remedy, text)})
		}
	}
}

// message returns the text of a string literal that has three words.
func message(expr ast.Expr) (string, bool) {
	lit, ok := expr.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil && len(strings.Fields(text)) >= 3
}
