package syntax

import (
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// printer writes a tree in the service's own spelling: one clause a line, each operation
// in parentheses, strings in double quotes. The parser reads this text as the same tree.
type printer struct {
	strings.Builder
	// plain is true if equal expressions must have equal texts. Then a["b"] is written as
	// a.b, and names of functions in upper case.
	plain bool
}

// String returns the query in the service's spelling.
func (q *Select) String() string {
	var p printer
	p.query(q)
	return p.String()
}

// Format returns an expression in the service's spelling.
func Format(e Expr) string {
	var p printer
	p.expr(e)
	return p.String()
}

func (p *printer) text(words ...string) {
	for _, w := range words {
		p.WriteString(w)
	}
}

func (p *printer) query(q *Select) {
	if !q.condition {
		p.text("SELECT ")
		if q.Distinct {
			p.text("DISTINCT ")
		}
		if q.Top != nil {
			p.text("TOP ", q.Top.Tok.Text, " ")
		}
		p.selection(q)
	}
	if q.From != nil {
		if !q.condition {
			p.text("\n")
		}
		p.text("FROM ")
		p.source(q.From)
		for _, j := range q.From.Joins {
			p.text("\nJOIN ")
			p.source(j)
		}
	}
	if q.Where != nil {
		p.text("\nWHERE ")
		p.expr(q.Where)
	}
	if len(q.GroupBy) > 0 {
		p.text("\nGROUP BY ")
		p.list(q.GroupBy)
	}
	p.order(q)
	if q.Limit != nil {
		p.text("\nOFFSET ", q.Offset.Tok.Text, " LIMIT ", q.Limit.Tok.Text)
	}
}

func (p *printer) selection(q *Select) {
	switch {
	case q.Star:
		p.text("*")
	case q.Value != nil:
		p.text("VALUE ")
		p.expr(q.Value)
	default:
		for i, it := range q.Items {
			if i > 0 {
				p.text(", ")
			}
			p.expr(it.Expr)
			if it.Name != "" {
				p.text(" AS ", it.Name)
			}
		}
	}
}

func (p *printer) order(q *Select) {
	if len(q.OrderBy) == 0 {
		return
	}
	p.text("\nORDER BY ")
	if q.Rank {
		p.text("RANK ")
	}
	for i, o := range q.OrderBy {
		if i > 0 {
			p.text(", ")
		}
		p.expr(o.Expr)
		if o.order != "" {
			p.text(" ", o.order)
		}
	}
}

func (p *printer) source(s *Source) {
	if s.In {
		p.text(s.Alias, " IN ")
	}
	if s.Subquery != nil {
		p.text("(")
		p.query(s.Subquery)
		p.text(")")
	} else {
		p.expr(s.Collection)
	}
	if !s.In && s.Alias != "" {
		p.text(" AS ", s.Alias)
	}
}

func (p *printer) list(list []Expr) {
	for i, e := range list {
		if i > 0 {
			p.text(", ")
		}
		p.expr(e)
	}
}

func (p *printer) quoted(s string) { p.Write(value.AppendString(nil, []byte(s))) }

func word(not bool, w string) string {
	if not {
		return " NOT " + w + " "
	}
	return " " + w + " "
}

func (p *printer) expr(e Expr) {
	switch e := e.(type) {
	case *Literal:
		if e.Value.Kind == value.Undefined {
			p.text("undefined")
			return
		}
		p.Write(e.Value.AppendJSON(nil))
	case *Param:
		p.text(e.Name)
	case *Ident:
		p.text(e.Name)
	case *Member:
		p.member(e)
	case *Call:
		if e.Udf {
			p.text("udf.")
		}
		name := e.Name
		if p.plain && !e.Udf {
			name = strings.ToUpper(name)
		}
		p.text(name, "(")
		p.list(e.Args)
		p.text(")")
	case *Array:
		p.text("[")
		p.list(e.Elements)
		p.text("]")
	case *Object:
		p.text("{")
		for i, m := range e.Members {
			if i > 0 {
				p.text(", ")
			}
			p.quoted(m.Name)
			p.text(": ")
			p.expr(m.Expr)
		}
		p.text("}")
	case *Subquery:
		p.text(e.Kind, "(")
		p.query(e.Query)
		p.text(")")
	default:
		p.text("(")
		p.operation(e)
		p.text(")")
	}
}

func (p *printer) member(e *Member) {
	if l, ok := e.Base.(*Literal); ok && l.Value.Kind == value.Number {
		p.text("(") // 0.a would begin with the number 0.
		p.expr(l)
		p.text(")")
	} else {
		p.expr(e.Base)
	}
	switch {
	case e.Dot && !p.plain:
		p.text(".", e.Name)
	case e.Index == nil:
		p.text("[")
		p.quoted(e.Name)
		p.text("]")
	default:
		p.text("[")
		p.expr(e.Index)
		p.text("]")
	}
}

// operation writes an operation without the parentheses around it.
func (p *printer) operation(e Expr) {
	switch e := e.(type) {
	case *Unary:
		p.text(e.Op)
		if e.Op == "NOT" {
			p.text(" ")
		}
		// A blank keeps -(-1) from becoming a comment.
		if l, ok := e.X.(*Literal); ok && l.Value.Kind == value.Number && e.Op == "-" {
			p.text(" ")
		}
		p.expr(e.X)
	case *Binary:
		p.expr(e.L)
		p.text(" ", e.Op, " ")
		p.expr(e.R)
	case *Logical:
		for i, t := range e.Terms {
			if i > 0 {
				p.text(" ", e.Op, " ")
			}
			p.expr(t)
		}
	case *In:
		p.expr(e.X)
		p.text(word(e.Not, "IN"), "(")
		p.list(e.List)
		p.text(")")
	case *Between:
		p.expr(e.X)
		p.text(word(e.Not, "BETWEEN"))
		p.expr(e.Lo)
		p.text(" AND ")
		p.expr(e.Hi)
	case *Like:
		p.expr(e.X)
		p.text(word(e.Not, "LIKE"))
		p.expr(e.Pattern)
		if e.HasEscape {
			p.text(" ESCAPE ")
			p.quoted(e.Escape)
		}
	case *Conditional:
		p.expr(e.Test)
		p.text(" ? ")
		p.expr(e.Then)
		p.text(" : ")
		p.expr(e.Otherwise)
	}
}

// Spelling returns the text of an expression, with the same spelling for equal
// expressions: c["x"] for c.x, function names in upper case.
func Spelling(e Expr) string {
	p := printer{plain: true}
	p.expr(e)
	return p.String()
}
