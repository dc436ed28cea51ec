package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// parse reads a file of mutants. Such a file looks like this:
//
//	package: ./lease
//
//	mutant: 03-no-extra-second
//	rule: a host waits a second longer than a lease lasts
//	test: ./lease -run ^TestWait$
//
//	in: Terms.Wait
//	-	return t.Expiration + time.Second
//	+	return t.Expiration
//
// The lines below "in:" are those of a diff: "-" removes a line, "+" adds one, and a space
// keeps one. A kept line is needed where nothing is removed, or where the removed lines alone
// occur more than once in the declaration. Lines that start with "#" are comments.
func parse(name, text string) ([]mutant, error) {
	p := fileParser{name: name}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		p.number++
		if err := p.line(strings.TrimSuffix(line, "\r")); err != nil {
			return nil, err
		}
	}
	if err := p.endMutant(); err != nil {
		return nil, err
	}
	if len(p.mutants) == 0 {
		return nil, fmt.Errorf("%s: there is no mutant in this file; add one, or delete the file", name)
	}
	return p.mutants, nil
}

// fileParser holds what parse has read so far.
type fileParser struct {
	name    string // of the file
	number  int    // of the line, from 1
	dir     string
	mutants []mutant
}

func (p *fileParser) at() string { return fmt.Sprintf("%s:%d", p.name, p.number) }

// errorf returns an error about the current line.
func (p *fileParser) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", p.at(), fmt.Errorf(format, args...))
}

func (p *fileParser) line(line string) error {
	switch {
	case strings.HasPrefix(line, "#"):
		return nil
	case line == "":
		p.diff(" ")
		return nil
	case strings.ContainsAny(line[:1], "-+ "):
		if !p.diff(line) {
			return p.errorf(`a changed line belongs below a line "in: DECLARATION"`)
		}
		return nil
	}
	key, value, ok := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	if !ok || value == "" {
		return p.errorf(`%q is neither a "key: value" nor a line of a diff; start the latter with "-", "+" or a space`, line)
	}
	if key == "package" {
		if p.dir != "" {
			return p.errorf("the package is named a second time; put another package's mutants into another file")
		}
		p.dir = path.Clean(value)
		return nil
	}
	if key == "mutant" {
		return p.beginMutant(value)
	}
	if len(p.mutants) == 0 {
		return p.errorf(`%q stands before the first line "mutant: NAME"`, key)
	}
	m := &p.mutants[len(p.mutants)-1]
	switch key {
	case "rule":
		m.rule = value
	case "test":
		m.test = strings.Fields(value)
	case "in":
		file, declaration, ok := strings.Cut(value, ": ")
		if !ok {
			file, declaration = "", value
		}
		m.edits = append(m.edits, edit{declaration: declaration, file: file, at: p.at()})
	default:
		return p.errorf("the key %q is unknown; use package, mutant, rule, test or in", key)
	}
	return nil
}

// diff adds a line to the current edit. It returns false if there is no edit.
func (p *fileParser) diff(line string) bool {
	if len(p.mutants) == 0 {
		return false
	}
	m := &p.mutants[len(p.mutants)-1]
	if len(m.edits) == 0 {
		return false
	}
	e := &m.edits[len(m.edits)-1]
	if line[0] != '+' {
		e.old = append(e.old, line[1:])
	}
	if line[0] != '-' {
		e.new = append(e.new, line[1:])
	}
	return true
}

func (p *fileParser) beginMutant(name string) error {
	if p.dir == "" {
		return p.errorf(`the package is missing; start the file with "package: ./DIRECTORY"`)
	}
	if err := p.endMutant(); err != nil {
		return err
	}
	p.mutants = append(p.mutants, mutant{name: name, dir: p.dir, at: p.at()})
	return nil
}

// endMutant checks that the last mutant is complete. It drops the empty lines around each of
// its edits, because they only separate the edit from what surrounds it.
func (p *fileParser) endMutant() error {
	if len(p.mutants) == 0 {
		return nil
	}
	m := &p.mutants[len(p.mutants)-1]
	if m.rule == "" || len(m.test) == 0 || len(m.edits) == 0 {
		return fmt.Errorf(`%s: mutant %s needs a "rule:", a "test:" and an "in:" with the lines that it changes`, m.at, m.name)
	}
	for i := range m.edits {
		e := &m.edits[i]
		for len(e.old) > 0 && len(e.new) > 0 && e.old[0] == "" && e.new[0] == "" {
			e.old, e.new = e.old[1:], e.new[1:]
		}
		for len(e.old) > 0 && len(e.new) > 0 && e.old[len(e.old)-1] == "" && e.new[len(e.new)-1] == "" {
			e.old, e.new = e.old[:len(e.old)-1], e.new[:len(e.new)-1]
		}
		if len(e.old) == 0 {
			return fmt.Errorf("%s: mutant %s only adds lines, so nothing says where; start the line above or below them with a space", e.at, m.name)
		}
		if slices.Equal(e.old, e.new) {
			return fmt.Errorf("%s: mutant %s changes nothing here", e.at, m.name)
		}
	}
	return nil
}
