package syntax

import (
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// refused returns the error of a text that the grammar does not accept. If the text uses
// an unsupported feature, the error names the feature. The author then does not correct a
// text that would still be refused. The feature may have forms in the service that the
// grammar lacks.
func refused(text string, err *Error) error {
	if err.Code == CodeSyntax || err.Code == CodeEnd || err.Code == CodeToken {
		if what := usedInVain(text); what != "" {
			return &UnsupportedError{What: what}
		}
	}
	return err
}

// usedInVain returns the name of the first unsupported feature in a text: a call of an
// unsupported function, or ORDER BY RANK. It returns "" if there is none before the first
// invalid token.
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

// usedUDF returns the name of the user-defined function in udf.name. at is the offset
// after udf. It returns "" if no dot and name follow.
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
