package query

import (
	"strings"
)

// refused is the error of a text that the grammar doesn't take. Where the text
// uses something that isn't evaluated here in any form, that is what is said: its
// writer is told the name, and not to mend a text that would be refused then. Its
// forms in the service may be others than the grammar's.
func refused(text string, err *SyntaxError) error {
	if err.Code == CodeSyntax {
		if what := usedInVain(text); what != "" {
			return &UnsupportedError{What: what}
		}
	}
	return err
}

// usedInVain names the first call of a function that is refused, or ORDER BY
// RANK, in a text of any form; empty: there is none as far as it can be read.
func usedInVain(text string) string {
	var before, t token
	for at := 0; ; at = t.end {
		var err *SyntaxError
		before = t
		if t, err = scan(text, at); err != nil || t.kind == 0 {
			return ""
		}
		if before.kind == '.' {
			continue // the name of a member
		}
		switch t.kind {
		case tokRank:
			if before.kind == tokBy {
				return "ORDER BY RANK"
			}
		case tokUdf:
			if what := usedUDF(text, t.end); what != "" {
				return what
			}
		case tokIdent:
			name := strings.ToUpper(t.text)
			f, known := functions[name]
			if next, err := scan(text, t.end); err != nil || next.kind != '(' {
				continue
			}
			switch {
			case known && !f.evaluated():
				return "the function " + name
			case !aggregateKinds[name].evaluated():
				return "the aggregate function " + name
			}
		}
	}
}

// usedUDF names the user-defined function whose name follows udf; empty: none does.
func usedUDF(text string, at int) string {
	dot, err := scan(text, at)
	if err != nil || dot.kind != '.' && dot.kind != '[' {
		return ""
	}
	name, err := scan(text, dot.end)
	switch {
	case err != nil:
		return ""
	case dot.kind == '[' && name.kind == tokString:
		return "the user-defined function udf." + name.str
	case dot.kind == '.' && name.text != "" && isLetter(name.text[0]):
		return "the user-defined function udf." + name.text
	}
	return ""
}
