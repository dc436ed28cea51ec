package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// source is the code of one package, without its tests.
type source struct {
	dir          string                   // relative to the module
	lines        map[string][]string      // file, relative to the module -> its lines
	declarations map[string][]declaration // name, as declarationName returns it
}

// declaration is where a function, a type, or a group of variables or constants is.
type declaration struct {
	file        string
	first, last int // its lines with its comment, counted from 0; last is the one after
}

// readSource parses the package in directory dir of the module at root.
func readSource(root, dir string) (*source, error) {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	s := &source{dir: dir, lines: map[string][]string{}, declarations: map[string][]declaration{}}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := s.add(path.Join(dir, filepath.Base(file)), string(text)); err != nil {
			return nil, err
		}
	}
	if len(s.lines) == 0 {
		return nil, fmt.Errorf("%s has no Go files; correct the line \"package:\"", dir)
	}
	return s, nil
}

func (s *source) add(file, text string) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s.lines[file] = strings.Split(text, "\n")
	for _, d := range parsed.Decls {
		names, doc := declared(d)
		begin := d.Pos()
		if doc != nil {
			begin = doc.Pos()
		}
		for _, name := range names {
			s.declarations[name] = append(s.declarations[name], declaration{
				file:  file,
				first: set.Position(begin).Line - 1,
				last:  set.Position(d.End()).Line,
			})
		}
	}
	return nil
}

// declared returns the names under which a declaration is found, and its comment. A group in
// parentheses is one declaration with the names of all its members.
func declared(d ast.Decl) (names []string, doc *ast.CommentGroup) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil && len(d.Recv.List) > 0 {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		return []string{name}, d.Doc
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
		if d.Tok == token.IMPORT {
			names = []string{"import"}
		}
		return names, d.Doc
	}
	return nil, nil
}

// receiver returns the name of a method's type, without pointer and type parameters.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// withoutPointer turns "(*worker).renew" into "worker.renew", so that a mutant still applies
// when its method gets a pointer receiver, or loses it.
var withoutPointer = strings.NewReplacer("(", "", "*", "", ")", "")

// find returns the declaration that e names.
func (s *source) find(e edit) (declaration, error) {
	var found []declaration
	var files []string
	for _, d := range s.declarations[withoutPointer.Replace(e.declaration)] {
		if e.file == "" || path.Base(d.file) == e.file {
			found = append(found, d)
			files = append(files, path.Base(d.file))
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return declaration{}, fmt.Errorf(`package %s declares %s in %s; write "in: FILE: %s"`,
			s.dir, e.declaration, strings.Join(files, " and "), e.declaration)
	case e.file != "":
		return declaration{}, fmt.Errorf(`%s does not declare %s; correct the line "in:", and leave out the file if the package declares it once`,
			path.Join(s.dir, e.file), e.declaration)
	}
	return declaration{}, fmt.Errorf(`package %s does not declare %s; if it was renamed, correct the line "in:"`, s.dir, e.declaration)
}
