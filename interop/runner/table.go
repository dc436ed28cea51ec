package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table contains the outcome of each scenario in each run, and other problems of the
// runs.
type table struct {
	catalogue
	columns  []string
	cells    map[string]map[string]string // outcome by column (suite and transport) and scenario
	problems []string
}

func newTable(c catalogue) *table {
	return &table{catalogue: c, cells: map[string]map[string]string{}}
}

// add adds the report of a run. It records a problem if a scenario of the suite is
// neither ok nor declared as missing, or if the report contains another scenario.
func (t *table) add(suite, transport string, reported map[string]string, err error) {
	column := suite + "/" + transport
	t.columns = append(t.columns, column)
	cells := map[string]string{}
	t.cells[column] = cells
	problem := func(format string, args ...any) {
		t.problems = append(t.problems, column+": "+fmt.Sprintf(format, args...))
	}
	if err != nil {
		problem("%v", err)
	}
	known := map[string]bool{}
	for _, s := range t.scenarios {
		known[s.Name] = true
		verdict, ran := reported[s.Name]
		_, lacks := t.missing[suites[suite].directory][s.Name]
		switch {
		case !slices.Contains(s.Suites, suite):
			cells[s.Name] = "."
			if ran || lacks {
				problem("%s is not a scenario of this suite", s.Name)
			}
		case ran && lacks:
			cells[s.Name] = "FAILED"
			problem("%s ran but is declared missing", s.Name)
		case lacks:
			cells[s.Name] = "missing"
		case !ran:
			cells[s.Name] = "FAILED"
			problem("%s was not run", s.Name)
		case verdict == "ok":
			cells[s.Name] = "ok"
		default:
			cells[s.Name] = "FAILED"
			problem("%s: %s", s.Name, strings.Join(strings.Fields(verdict), " "))
		}
	}
	for name := range reported {
		if !known[name] {
			problem("%s is not a scenario of scenarios.json", name)
		}
	}
}

// print writes the table, a summary and the problems. It returns an error if there is a
// problem.
func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	printf(w, "scenario\t%s\t\n", strings.Join(t.columns, "\t"))
	passed, failed, missing := 0, 0, 0
	for _, s := range t.scenarios {
		row := []string{s.Name}
		for _, column := range t.columns {
			cell := t.cells[column][s.Name]
			row = append(row, cell)
			switch cell {
			case "ok":
				passed++
			case "missing":
				missing++
			case "FAILED":
				failed++
			}
		}
		if slices.ContainsFunc(row[1:], func(cell string) bool { return cell != "." }) {
			printf(w, "%s\t\n", strings.Join(row, "\t"))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	slices.Sort(t.problems)
	for _, p := range t.problems {
		printf(out, "%s\n", p)
	}
	printf(out, "%d passed, %d failed, %d skipped\n", passed, failed, missing)
	if len(t.problems) > 0 {
		return errors.New("not all is as it should be")
	}
	return nil
}
