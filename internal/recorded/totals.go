package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// classes has all classes of facts, in the order in which they are printed.
var classes = []string{
	classStatus, classSubStatus, classText, classTail, classHeaders, classOther, classValues,
	classBody, classOrder, classNumbers, classCharge, classContinuation, classPlan,
}

// lesser are the classes that the first total leaves out.
var lesser = []string{classTail, classHeaders, classOther, classCharge}

// totals counts the cases that agree and differ.
type totals struct {
	cases, agree, agreeWhole int
	differ                   map[string]int
}

func newTotals() *totals { return &totals{differ: map[string]int{}} }

// add counts one case.
func (t *totals) add(x result) {
	t.cases++
	found := x.classes()
	if len(found) == 0 {
		t.agreeWhole++
	}
	if !slices.ContainsFunc(found, func(class string) bool { return !slices.Contains(lesser, class) }) {
		t.agree++
	}
	for _, class := range found {
		t.differ[class]++
	}
}

// classes returns the classes in which the case differs.
func (x *result) classes() (found []string) {
	for _, class := range classes {
		if slices.ContainsFunc(x.found, func(d difference) bool { return d.class == class }) {
			found = append(found, class)
		}
	}
	return found
}

// print prints one case.
func (t *totals) print(out io.Writer, x result, verbose bool) {
	if len(x.found) == 0 {
		_, _ = fmt.Fprintf(out, "%4d agrees   %s\n", x.N, x.Name)
	} else {
		_, _ = fmt.Fprintf(out, "%4d differs  %s: %s\n", x.N, x.Name, strings.Join(x.classes(), ", "))
	}
	if x.note != "" {
		_, _ = fmt.Fprintf(out, "       %s\n", x.note)
	}
	if verbose {
		for _, d := range x.found {
			_, _ = fmt.Fprintf(out, "       %v\n", d)
		}
	}
}

// summary prints the totals.
func (t *totals) summary(out io.Writer) {
	_, _ = fmt.Fprintf(out, "\nOf %d cases, %d agree, and %d when %s are left out. Differences by class:\n",
		t.cases, t.agreeWhole, t.agree, strings.Join(lesser, ", "))
	for _, class := range classes {
		_, _ = fmt.Fprintf(out, "  %-13s %d\n", class, t.differ[class])
	}
}
