package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// jsonTables maps each heading of docs/json.md that has a table to the struct type whose
// fields the table lists. A value consists of a file name, a space and a type name.
var jsonTables = map[string]string{
	"lag --json":                      "internal/lag/show.go report",
	"A lease of lag":                  "internal/lag/show.go leaseLag",
	"The total of lag":                "internal/lag/show.go total",
	"leases ls --json":                "internal/leases/table.go Listing",
	"A lease of leases ls":            "internal/leases/table.go Row",
	"The stop of a lease":             "internal/leases/resume.go Stopped",
	"leases check --json":             "internal/leases/damage.go Report",
	"A finding of leases check":       "internal/leases/damage.go Finding",
	"A range of leases check":         "internal/leases/damage.go Keys",
	"leases export and leases import": "internal/leases/file.go File",
	"The container of leases export":  "internal/leases/file.go fileIdentity",
	"partitions ls --json":            "internal/admin/client.go PartitionList",
	"A partition of partitions ls":    "internal/admin/client.go Partition",
	"fault ls --json":                 "internal/admin/fault.go Faults",
	"A fault":                         "internal/admin/fault.go Fault",
	"A frozen range":                  "internal/admin/fault.go Frozen",
	"restore --json":                  "restore.go restoration",
	"A container of restore":          "restore.go restoredContainer",
	"A partition of restore":          "restore.go restoredPartition",
	"serve --health-listen":           "internal/serve/health.go status",
	"partitions split --json":         "partitions.go barePartitionList",
	"A partition of partitions split": "partitions.go barePartition",
	"tail --mode avad":                "tail.go version",
	"The metadata of a change":        "tail.go metadata",
	"tail --position":                 "../../feed/reader_position.go position",
	"The range of a position":         "../../feed/reader_position.go positionRange",
	"A cursor of a position":          "../../feed/reader_position.go positionCursor",
	"replicate":                       "internal/replicate/state.go state",
	"An end of replicate":             "internal/replicate/state.go stateEnd",
	"replicate --set-aside":           "internal/replicate/aside.go asideRecord",
}

// jsonExamples maps each heading that has an example but no table to the struct type of
// the example.
var jsonExamples = map[string]string{"lag --watch --json": jsonTables["lag --json"]}

// internalJSON lists structs with JSON names that the page need not describe, and the
// reason for each. A key consists of a file name, a space and the name of the type or of
// the function around it.
var internalJSON = map[string]string{
	"internal/connect/documents.go list":         "decodes a list of resources",
	"internal/connect/documents.go PartitionKey": "a member of the REST protocol",
	"internal/connect/documents.go Properties":   "decodes the properties of a container",
	"internal/connect/documents.go Throughput":   "decodes an offer",
	"internal/leases/document.go parseDocument":  "decodes a lease document",
	"internal/replicate/writer.go parseFound":    "decodes a row of a query",
	"tail_position.go positionMode":              "decodes a field of a position",
}

// jsonField is a field of a struct in its JSON form, or a row of the page's tables.
type jsonField struct {
	name, typ string
	optional  bool
	// unwritten reports whether the page does not tell what the field means.
	unwritten bool
}

// jsonStruct is a struct with JSON names.
type jsonStruct struct {
	fields []jsonField
	// nested maps the name of a field to the struct type of its value or of its elements.
	nested map[string]string
}

// jsonStructs returns the structs with JSON names in a Go file, by their type names. A
// struct without a name has the name of the function around it.
func jsonStructs(t *testing.T, file string) map[string]*jsonStruct {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[*ast.StructType]string{}
	function := ""
	found := map[string]*jsonStruct{}
	for _, d := range parsed.Decls {
		function = ""
		if f, is := d.(*ast.FuncDecl); is {
			function = f.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, is := n.Type.(*ast.StructType); is && function == "" {
					declared[s] = n.Name.Name
				}
			case *ast.StructType:
				name := declared[n]
				if name == "" {
					name = function
				}
				if s := newJSONStruct(t, n, found); len(s.fields) > 0 {
					found[name] = s
				}
			}
			return true
		})
	}
	return found
}

// newJSONStruct returns the JSON fields of a struct. embedded contains the structs that
// are declared before it in the file.
func newJSONStruct(t *testing.T, s *ast.StructType, embedded map[string]*jsonStruct) *jsonStruct {
	t.Helper()
	out := &jsonStruct{nested: map[string]string{}}
	for _, f := range s.Fields.List {
		if name, is := f.Type.(*ast.Ident); is && len(f.Names) == 0 && embedded[name.Name] != nil {
			out.fields = append(out.fields, embedded[name.Name].fields...)
		}
		if f.Tag == nil {
			continue
		}
		name, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		typ, nested := jsonType(f.Type)
		if options == "omitempty" { // what would be null is absent
			typ = strings.TrimSuffix(typ, " or null")
		}
		out.fields = append(out.fields, jsonField{name: name, typ: typ, optional: options != ""})
		out.nested[name] = nested
	}
	return out
}

// jsonType returns the name that the page uses for a Go type. If the type is a struct or
// a list of structs, nested is the name of that struct.
func jsonType(e ast.Expr) (typ, nested string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		typ, nested = jsonType(e.X)
		return typ + " or null", nested
	case *ast.ArrayType:
		typ, nested = jsonType(e.Elt)
		return "array of " + typ + "s", nested
	case *ast.MapType:
		return "object", ""
	case *ast.SelectorExpr:
		return jsonType(e.Sel)
	case *ast.Ident:
		switch e.Name {
		case "string", "State", "Kind", "Continuation", "Step":
			return "string", ""
		case "int", "int64", "uint64":
			return "integer", ""
		case "float64":
			return "number", ""
		case "bool":
			return "boolean", ""
		case "Time":
			return "time", ""
		case "RawMessage":
			return "JSON value", ""
		}
		return "object", e.Name
	}
	return fmt.Sprintf("%T", e), ""
}

// jsonSection is the part of the page under one heading.
type jsonSection struct {
	rows     []jsonField
	examples []any
}

// jsonRow matches a row of a table: a field's name, type, meaning and absence.
var jsonRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|\n")

// writeJSONTables returns the page with tables that have the fields of the code's structs:
// their names, types and order, and whether they may be absent. What a field means and when
// it is absent are prose, which only the page has.
func writeJSONTables(t *testing.T, page string, code map[string]*jsonStruct) string {
	t.Helper()
	for heading, name := range jsonTables {
		s := code[name]
		begin := regexp.MustCompile("(?m)^##+ " + regexp.QuoteMeta(heading) + "\n").FindStringIndex(page)
		if s == nil || begin == nil {
			t.Errorf("jsonTables has %q and %s: the heading found: %t, the type found: %t", heading, name, begin != nil, s != nil)
			continue
		}
		end := len(page)
		if next := regexp.MustCompile("(?m)^##+ ").FindStringIndex(page[begin[1]:]); next != nil {
			end = begin[1] + next[0]
		}
		text := page[begin[1]:end]
		meaning, absent := map[string]string{}, map[string]string{}
		for _, m := range jsonRow.FindAllStringSubmatch(text, -1) {
			meaning[m[1]], absent[m[1]] = m[3], m[4]
		}
		const head = "| field | type | meaning | absent |\n|---|---|---|---|\n"
		before, after, found := strings.Cut(jsonRow.ReplaceAllString(text, ""), head)
		if !found {
			after = "\n"
		}
		rows := head
		for _, f := range s.fields {
			when := absent[f.name]
			switch {
			case !f.optional:
				when = "never"
			case when == "" || when == "never":
				when = jsonProse
			}
			rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.name, f.typ, cmp.Or(meaning[f.name], jsonProse), when)
		}
		page = page[:begin[1]] + before + rows + after + page[end:]
	}
	return page
}

// jsonProse stands in a new row for what its author has to write.
const jsonProse = "(say what it means)"

// jsonSections returns the sections of a page by their headings.
func jsonSections(t *testing.T, page string) map[string]jsonSection {
	t.Helper()
	all := map[string]jsonSection{}
	block := regexp.MustCompile("(?s)```json\n(.*?)```")
	for _, part := range regexp.MustCompile(`(?m)^##+ `).Split(page, -1)[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		var s jsonSection
		for _, m := range jsonRow.FindAllStringSubmatch(text, -1) {
			s.rows = append(s.rows, jsonField{m[1], m[2], m[4] != "never", m[3] == jsonProse || m[4] == jsonProse})
		}
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			for d := json.NewDecoder(strings.NewReader(m[1])); ; {
				var value any
				err := d.Decode(&value)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("an example of %q is not JSON: %v", heading, err)
				}
				s.examples = append(s.examples, value)
			}
		}
		all[heading] = s
	}
	return all
}

// The tables of docs/json.md are written from the code's structs, and its examples must have
// their fields.
func TestJSONPageIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]*jsonStruct{}
	add := func(file string) {
		for name, s := range jsonStructs(t, file) {
			code[filepath.ToSlash(file)+" "+name] = s
		}
	}
	err = filepath.WalkDir(".", func(file string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			add(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	add("../../feed/reader_position.go")
	text := writeJSONTables(t, string(page), code)
	comparePage(t, "json.md", text)
	sections := jsonSections(t, text)
	checkJSONTables(t, sections)
	checkJSONExamples(t, sections, code)

	shown := slices.Collect(maps.Values(jsonTables))
	for name := range code {
		if !slices.Contains(shown, name) && internalJSON[name] == "" {
			t.Errorf("docs/json.md has no table of %s", name)
		}
	}
	for name := range internalJSON {
		if code[name] == nil {
			t.Errorf("internalJSON has %s, which does not exist", name)
		}
	}
}

// checkJSONTables fails the test if a table is of no struct, or lacks prose.
func checkJSONTables(t *testing.T, sections map[string]jsonSection) {
	t.Helper()
	for heading, s := range sections {
		if len(s.rows) > 0 && jsonTables[heading] == "" && heading != "tail" {
			t.Errorf("docs/json.md has a table under %q, which jsonTables does not name", heading)
		}
		for _, f := range s.rows {
			if f.unwritten {
				t.Errorf("docs/json.md, %q: write what the field %s means, and when it is absent", heading, f.name)
			}
		}
	}
}

// checkJSONExamples fails the test unless each example has only fields of its struct.
func checkJSONExamples(t *testing.T, sections map[string]jsonSection, code map[string]*jsonStruct) {
	t.Helper()
	roots := maps.Clone(jsonTables)
	maps.Copy(roots, jsonExamples)
	for heading, name := range roots {
		if nested := regexp.MustCompile("^(A|An|The) ").MatchString(heading); len(sections[heading].examples) == 0 && !nested {
			t.Errorf("docs/json.md, %q, has no example", heading)
		}
		for _, example := range sections[heading].examples {
			checkJSONExample(t, heading, example, name, code)
		}
	}
}

// checkJSONExample checks an example value of the struct name, or an array of such
// values. at describes the place of the value for errors.
func checkJSONExample(t *testing.T, at string, value any, name string, code map[string]*jsonStruct) {
	t.Helper()
	if list, is := value.([]any); is {
		for _, v := range list {
			checkJSONExample(t, at, v, name, code)
		}
		return
	}
	object, is := value.(map[string]any)
	if !is || code[name] == nil {
		t.Errorf("docs/json.md, %q: the example has %v, not an object of %s", at, value, name)
		return
	}
	file, _, _ := strings.Cut(name, " ")
	fields := map[string]bool{}
	for _, f := range code[name].fields {
		fields[f.name] = true
		v, has := object[f.name]
		if !has && !f.optional {
			t.Errorf("docs/json.md, %q: the example has no %s", at, f.name)
		}
		if nested := code[name].nested[f.name]; has && nested != "" {
			checkJSONExample(t, at+", "+f.name, v, file+" "+nested, code)
		}
	}
	for field := range object {
		if !fields[field] && !strings.HasPrefix(field, "_") { // the service adds system properties
			t.Errorf("docs/json.md, %q: the example has %s, which %s does not have", at, field, name)
		}
	}
}

// docs/json.md must list the system properties in a line of `tail`. They come from the
// store, and not from a struct.
func TestJSONPageHasTheSystemPropertiesOfALine(t *testing.T) {
	page, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, out, _ := command(t, tailOf(shop(t, 0))...)
	var got, want []string
	var document map[string]any
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&document); err != nil {
		t.Fatal(err)
	}
	for name := range document {
		if strings.HasPrefix(name, "_") {
			got = append(got, name)
		}
	}
	for _, row := range jsonSections(t, string(page))["tail"].rows {
		want = append(want, row.name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("docs/json.md has the system properties %v, and a line has %v", want, got)
	}
}
