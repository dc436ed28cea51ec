package syntax

import (
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// refused is the error of a text that the grammar doesn't take. Where the text
// uses something that isn't evaluated here in any form, that is what is said: its
// writer is told the name, and not to mend a text that would be refused then. Its
// forms in the service may be others than the grammar's.
func refused(text string, err *Error) error {
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
	var before, t Token
	for at := 0; ; at = t.End {
		var err *Error
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
			if what := usedUDF(text, t.End); what != "" {
				return what
			}
		case tokIdent:
			name := strings.ToUpper(t.Text)
			f, known := value.Functions[name]
			if next, err := scan(text, t.End); err != nil || next.kind != '(' {
				continue
			}
			switch {
			case known && !f.Evaluated():
				return "the function " + name
			case !value.Aggregates[name].Evaluated():
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
	name, err := scan(text, dot.End)
	switch {
	case err != nil:
		return ""
	case dot.kind == '[' && name.kind == tokString:
		return "the user-defined function udf." + name.str
	case dot.kind == '.' && name.Text != "" && isLetter(name.Text[0]):
		return "the user-defined function udf." + name.Text
	}
	return ""
}
