// Command count prints the size of every package below the current directory: exported
// identifiers, files and lines of code, all outside tests.
//
// An exported identifier is a type, function, constant or variable of the package, or a
// method of an exported type. Methods of a type that an alias names count for the alias
// as well. Fields are not counted, nor are methods of interfaces. A line of code holds
// more than a comment. Generated files count as well.
//
//	go run ./internal/count
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(os.Stdout, "."); err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
}

// size is the size of one package.
type size struct {
	dir                   string
	exported, files, code int
	methods               map[string]int // the number of exported methods of each type
	aliases               []alias        // the exported aliases of types of other packages
}

// alias is an alias of a type of another package.
type alias struct{ path, name string }

// run prints a line for every package below the directory root, and a line with the sums.
func run(w io.Writer, root string) error {
	sizes := map[string]*size{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if sizes[dir] == nil {
			sizes[dir] = &size{dir: dir, methods: map[string]int{}}
		}
		return sizes[dir].add(path, text)
	})
	if err != nil {
		return err
	}
	addAliases(root, sizes)
	return write(w, sizes)
}

// addAliases adds to each package the methods of the types of other packages that it
// exports by aliases.
func addAliases(root string, sizes map[string]*size) {
	for _, s := range sizes {
		for _, a := range s.aliases {
			for dir, from := range sizes {
				relative, err := filepath.Rel(root, dir)
				if err == nil && strings.HasSuffix(a.path, "/"+filepath.ToSlash(relative)) {
					s.exported += from.methods[a.name]
				}
			}
		}
	}
}

// add adds the identifiers and the lines of code of one Go file to the size of its
// package.
func (s *size) add(path string, text []byte) error {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s.files++
	s.code += codeLines(text)
	for _, decl := range tree.Decls {
		s.exported += exported(decl)
		s.addTypes(tree, decl)
	}
	return nil
}

// addTypes records the exported method or the exported type aliases that a declaration
// declares.
func (s *size) addTypes(tree *ast.File, decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv != nil && decl.Name.IsExported() {
			s.methods[receiver(decl.Recv.List[0].Type)]++
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok && spec.Assign.IsValid() && spec.Name.IsExported() {
				if of, ok := spec.Type.(*ast.SelectorExpr); ok {
					s.aliases = append(s.aliases, alias{importPath(tree, of.X), of.Sel.Name})
				}
			}
		}
	}
}

// importPath returns the path of the package that file imports by the name x.
func importPath(file *ast.File, x ast.Expr) string {
	name, _ := x.(*ast.Ident)
	for _, i := range file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		if i.Name != nil && i.Name.Name == name.Name || i.Name == nil && filepath.Base(path) == name.Name {
			return path
		}
	}
	return ""
}

// codeLines counts the lines that hold a token other than a comment.
func codeLines(text []byte) int {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var scan scanner.Scanner
	scan.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, literal := scan.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // the scanner has inserted this semicolon
		}
		first := file.Line(pos)
		for line := first; line <= first+strings.Count(literal, "\n"); line++ {
			lines[line] = true
		}
	}
}

// exported counts the exported identifiers of a declaration.
func exported(decl ast.Decl) int {
	count := 0
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Name.IsExported() && (decl.Recv == nil || ast.IsExported(receiver(decl.Recv.List[0].Type))) {
			count++
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					count++
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						count++
					}
				}
			}
		}
	}
	return count
}

// receiver returns the name of the type of a method's receiver, without a pointer and
// type parameters.
func receiver(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return receiver(expr.X)
	case *ast.IndexExpr:
		return receiver(expr.X)
	case *ast.IndexListExpr:
		return receiver(expr.X)
	case *ast.Ident:
		return expr.Name
	}
	return ""
}

// write prints the table of sizes, sorted by directory.
func write(w io.Writer, sizes map[string]*size) error {
	// Writes to the table are buffered; Flush returns their errors.
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "exported\tfiles\tcode\t package")
	total := size{dir: "total"}
	rows := []*size{}
	for _, s := range sizes {
		rows = append(rows, s)
		total.exported += s.exported
		total.files += s.files
		total.code += s.code
	}
	slices.SortFunc(rows, func(a, b *size) int { return cmp.Compare(a.dir, b.dir) })
	for _, s := range append(rows, &total) {
		_, _ = fmt.Fprintf(table, "%d\t%d\t%d\t %s\n", s.exported, s.files, s.code, s.dir)
	}
	return table.Flush()
}
