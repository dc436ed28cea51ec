package serve

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// This file reads the file of --init. It checks the form of the file and of the documents'
// files: JSON, its members, and their types. Whether the server accepts the properties and
// the documents is tried later (init_apply.go).

// initFile is the content of the file of --init.
type initFile struct{ databases []initDatabase }

// initDatabase is a database to create.
type initDatabase struct {
	place
	id         string
	throughput string // in RU/s, or empty
	containers []initContainer
}

// initContainer is a container to create.
type initContainer struct {
	place
	id         string
	throughput string // in RU/s, or empty
	// given are the container's properties, as the file has them.
	given map[string]jsontext.Value
	// inline are the documents in the file itself. path is the file with one document a
	// line that the container has instead, or empty.
	inline []initDocument
	path   string
}

// initDocument is a document to create.
type initDocument struct {
	place
	text []byte
}

// place is where a part of an init file begins. Lines and columns count from 1, and columns
// count characters, as editors do.
type place struct {
	file         string
	line, column int
}

// refuse returns the error for the part of the file at p.
func (p place) refuse(format string, args ...any) error {
	return refuse("--init: %s:%d:%d: %s", p.file, p.line, p.column, fmt.Sprintf(format, args...))
}

// after returns the place behind text, which begins at p.
func (p place) after(text []byte) place {
	if n := bytes.Count(text, []byte("\n")); n > 0 {
		p.line, p.column, text = p.line+n, 1, text[bytes.LastIndexByte(text, '\n')+1:]
	}
	p.column += utf8.RuneCount(text)
	return p
}

// initForm is an example of an init file.
const initForm = `{"databases":[{"id":"shop","containers":[{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash","version":2},"documents":[{"id":"1","customer":"ada"}]}]}]}`

// readInit reads the init file at path. It returns a *ConfigError with the file, the line
// and the column that are wrong.
func readInit(path string) (*initFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, refuse("--init: cannot read the file: %v", err)
	}
	top, err := parsePart(text, place{path, 1, 1})
	if err != nil {
		return nil, err
	}
	var f initFile
	return &f, top.members("the file", func(name string, v part) error {
		if name != "databases" {
			return v.refuse("a file of --init has no member %.60q; its form is %s", name, initForm)
		}
		return v.elements("databases", func(v part) error {
			d, err := v.database()
			if slices.ContainsFunc(f.databases, func(o initDatabase) bool { return o.id == d.id }) {
				return v.refuse("database %q is in the file twice; put its containers into one", d.id)
			}
			f.databases = append(f.databases, d)
			return err
		})
	})
}

// part is a JSON value in an init file.
type part struct {
	place
	value jsontext.Value
}

// maxDepth is the maximum nesting of an init file. It is more than the store accepts.
const maxDepth = 512

// parsePart checks that text is one JSON value, and returns it as a part. p is where text
// begins.
func parsePart(text []byte, p place) (part, error) {
	value := bytes.TrimLeft(text, jsonSpace)
	p, value = p.after(text[:len(text)-len(value)]), bytes.TrimRight(value, jsonSpace)
	in := jsonscan.New(value, maxDepth)
	err := in.Value(1)
	if err == nil {
		err = in.End()
	}
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		p = p.after(value[:syntax.Offset])
		if syntax.Truncated {
			return part{}, p.refuse("not valid JSON: the text ends too early: %s", syntax.Problem)
		}
		return part{}, p.refuse("not valid JSON: %s", syntax.Problem)
	}
	var v jsontext.Value
	err = json.Unmarshal(value, &v)
	if twice, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return part{}, p.after(value[:twice.ByteOffset]).refuse("the member %.60q is in its object twice; remove one of them", twice.JSONPointer.LastToken())
	}
	if err != nil {
		return part{}, p.refuse("not valid JSON: %v", err)
	}
	return part{p, value}, nil
}

// jsonSpace is the white space of JSON.
const jsonSpace = " \t\r\n"

// members calls do for each member of the object v. what describes v in errors.
func (v part) members(what string, do func(name string, v part) error) error {
	return v.each('{', what+" must be an object, not %.40s", do)
}

// elements calls do for each element of the array v. what describes v in errors.
func (v part) elements(what string, do func(v part) error) error {
	return v.each('[', what+" must be an array, not %.40s", func(_ string, v part) error { return do(v) })
}

func (v part) each(kind jsontext.Kind, mismatch string, do func(name string, v part) error) error {
	if v.value.Kind() != kind {
		return v.refuse(mismatch, v.value)
	}
	d := jsontext.NewDecoder(bytes.NewReader(v.value))
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	at, passed := v.place, 0
	for d.PeekKind() != kind+2 { // the closing bracket
		var name string
		if kind == '{' {
			t, err := d.ReadToken()
			if err != nil {
				return err
			}
			name = t.String()
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		begin := int(d.InputOffset()) - len(value)
		at, passed = at.after(v.value[passed:begin]), begin
		if err := do(name, part{at, value.Clone()}); err != nil {
			return err
		}
	}
	return nil
}

func (v part) database() (d initDatabase, err error) {
	d.place = v.place
	err = v.members("a database", func(name string, v part) error {
		switch name {
		case "id":
			return v.text(&d.id)
		case "throughput":
			return v.rate(&d.throughput)
		case "containers":
			return v.elements("containers", func(v part) error {
				c, err := v.container()
				if slices.ContainsFunc(d.containers, func(o initContainer) bool { return o.id == c.id }) {
					return v.refuse("container %q is in its database twice; give one of them another id", c.id)
				}
				d.containers = append(d.containers, c)
				return err
			})
		}
		return v.refuse("a database of --init has no member %.60q; its members are id, throughput and containers", name)
	})
	if err == nil && d.id == "" {
		err = v.refuse("the database has no id; add one")
	}
	return d, err
}

func (v part) container() (c initContainer, err error) {
	c.place, c.given = v.place, map[string]jsontext.Value{}
	err = v.members("a container", func(name string, v part) error {
		switch name {
		case "throughput":
			return v.rate(&c.throughput)
		case "documents":
			return v.documents(&c)
		case "id":
			if err := v.text(&c.id); err != nil {
				return err
			}
		}
		c.given[name] = v.value
		return nil
	})
	if err == nil && c.id == "" {
		err = v.refuse("the container has no id; add one")
	}
	return c, err
}

// documents reads the documents of a container: an array, or the path of a file with one
// document a line. The path is relative to the init file.
func (v part) documents(c *initContainer) error {
	if v.value.Kind() != '"' {
		return v.elements(`documents, unless it is the path of a file with one document a line,`, func(v part) error {
			c.inline = append(c.inline, initDocument{v.place, v.value})
			return nil
		})
	}
	if err := v.text(&c.path); err != nil {
		return err
	}
	if !filepath.IsAbs(c.path) {
		c.path = filepath.Join(filepath.Dir(v.file), c.path)
	}
	if _, err := os.Stat(c.path); err != nil {
		return v.refuse("cannot read the documents: %v; the path is relative to the file of --init", err)
	}
	return nil
}

func (v part) text(s *string) error {
	if json.Unmarshal(v.value, s) != nil || *s == "" {
		return v.refuse("%.60s must be a text that is not empty", v.value)
	}
	return nil
}

// rate reads a throughput.
func (v part) rate(s *string) error {
	if _, err := strconv.Atoi(string(v.value)); err != nil {
		return v.refuse("throughput is %.60s; it must be a whole number of request units per second", v.value)
	}
	*s = string(v.value)
	return nil
}

// each calls do for each document of a container, in the order of the file.
func (c *initContainer) each(do func(initDocument) error) (err error) {
	for _, d := range c.inline {
		if err := do(d); err != nil {
			return err
		}
	}
	if c.path == "" {
		return nil
	}
	f, err := os.Open(c.path)
	if err != nil {
		return c.refuse("cannot read the documents: %v", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := bufio.NewReaderSize(f, 64<<10)
	for line := 1; ; line++ {
		text, end := r.ReadBytes('\n')
		if end != nil && !errors.Is(end, io.EOF) {
			return c.refuse("cannot read the documents: %v", end)
		}
		if len(bytes.Trim(text, jsonSpace)) > 0 {
			v, err := parsePart(text, place{c.path, line, 1})
			if err != nil {
				return err
			}
			if err := do(initDocument{v.place, v.value}); err != nil {
				return err
			}
		}
		if end != nil {
			return nil
		}
	}
}
