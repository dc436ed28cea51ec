package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// change is a file before and after a mutant was applied.
type change struct {
	file          string // relative to the module
	before, after string
}

// replacement puts new lines where those stand from first on, up to last.
type replacement struct {
	file        string
	first, last int
	new         []string
	at          string
}

// apply returns the files that the mutant changes, sorted by name. All edits refer to the
// code as it is, and not to what another edit has made of it.
func (m mutant) apply(s *source) ([]change, error) {
	var all []replacement
	for _, e := range m.edits {
		r, err := s.locate(e)
		if err != nil {
			return nil, fmt.Errorf("%s: mutant %s: %w", e.at, m.name, err)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b replacement) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.first, b.first))
	})
	var changes []change
	for i := 0; i < len(all); {
		file, lines := all[i].file, s.lines[all[i].file]
		var after []string
		copied := 0
		for ; i < len(all) && all[i].file == file; i++ {
			r := all[i]
			if r.first < copied {
				return nil, fmt.Errorf("%s: mutant %s: this edit overlaps with another one; make one edit of the two", r.at, m.name)
			}
			after = append(append(after, lines[copied:r.first]...), r.new...)
			copied = r.last
		}
		after = append(after, lines[copied:]...)
		changes = append(changes, change{file, strings.Join(lines, "\n"), strings.Join(after, "\n")})
	}
	return changes, nil
}

// locate finds the lines that e replaces. They must occur exactly once in the declaration.
func (s *source) locate(e edit) (replacement, error) {
	d, err := s.find(e)
	if err != nil {
		return replacement{}, err
	}
	lines := s.lines[d.file]
	var found []int
	for i := d.first; i+len(e.old) <= d.last; i++ {
		if slices.EqualFunc(lines[i:i+len(e.old)], e.old, sameLine) {
			found = append(found, i)
		}
	}
	place := fmt.Sprintf("%s, line %d of %s", e.declaration, d.first+1, path.Base(d.file))
	switch len(found) {
	case 1:
		return replacement{file: d.file, first: found[0], last: found[0] + len(e.old), new: e.new, at: e.at}, nil
	case 0:
		return replacement{}, fmt.Errorf("%s does not contain %s; change the edit, so that it removes the same rule from the code as it is now",
			place, missing(lines[d.first:d.last], e.old))
	}
	return replacement{}, fmt.Errorf("%s contains these lines %d times; add the line above or below them, after a space", place, len(found))
}

// sameLine reports whether two lines are equal except for their indentation. So a mutant
// still applies after its code was moved into a block, or out of one.
func sameLine(a, b string) bool { return strings.TrimLeft(a, " \t") == strings.TrimLeft(b, " \t") }

// missing describes which part of old is not in lines.
func missing(lines, old []string) string {
	for _, line := range old {
		if !slices.ContainsFunc(lines, func(l string) bool { return sameLine(l, line) }) {
			return fmt.Sprintf("the line %q", strings.TrimSpace(line))
		}
	}
	return "these lines in this order"
}
