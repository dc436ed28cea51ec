package query

import (
	"strings"
)

// printer writes a tree in the service's own spelling: a clause a line, each
// operation in parentheses, strings in double quotes. The grammar reads it back
// as the same tree.
type printer struct {
	strings.Builder
	// plain gives every expression one spelling: a["b"] for a.b, names of functions in upper case.
	plain bool
}

// String returns the query in the service's spelling.
func (q *selectQuery) String() string {
	var p printer
	p.query(q)
	return p.String()
}

func printExpr(e expr) string {
	var p printer
	p.expr(e)
	return p.String()
}

func (p *printer) text(words ...string) {
	for _, w := range words {
		p.WriteString(w)
	}
}

func (p *printer) query(q *selectQuery) {
	if !q.condition {
		p.text("SELECT ")
		if q.distinct {
			p.text("DISTINCT ")
		}
		if q.top != nil {
			p.text("TOP ", q.top.tok.text, " ")
		}
		p.selection(q)
	}
	if q.from != nil {
		if !q.condition {
			p.text("\n")
		}
		p.text("FROM ")
		p.source(q.from)
		for _, j := range q.from.joins {
			p.text("\nJOIN ")
			p.source(j)
		}
	}
	if q.where != nil {
		p.text("\nWHERE ")
		p.expr(q.where)
	}
	if len(q.groupBy) > 0 {
		p.text("\nGROUP BY ")
		p.list(q.groupBy)
	}
	p.order(q)
	if q.limit != nil {
		p.text("\nOFFSET ", q.offset.tok.text, " LIMIT ", q.limit.tok.text)
	}
}

func (p *printer) selection(q *selectQuery) {
	switch {
	case q.star:
		p.text("*")
	case q.value != nil:
		p.text("VALUE ")
		p.expr(q.value)
	default:
		for i, it := range q.items {
			if i > 0 {
				p.text(", ")
			}
			p.expr(it.e)
			if it.name != "" {
				p.text(" AS ", it.name)
			}
		}
	}
}

func (p *printer) order(q *selectQuery) {
	if len(q.orderBy) == 0 {
		return
	}
	p.text("\nORDER BY ")
	if q.rank {
		p.text("RANK ")
	}
	for i, o := range q.orderBy {
		if i > 0 {
			p.text(", ")
		}
		p.expr(o.e)
		if o.order != "" {
			p.text(" ", o.order)
		}
	}
}

func (p *printer) source(s *source) {
	if s.in {
		p.text(s.alias, " IN ")
	}
	if s.subquery != nil {
		p.text("(")
		p.query(s.subquery)
		p.text(")")
	} else {
		p.expr(s.collection)
	}
	if !s.in && s.alias != "" {
		p.text(" AS ", s.alias)
	}
}

func (p *printer) list(list []expr) {
	for i, e := range list {
		if i > 0 {
			p.text(", ")
		}
		p.expr(e)
	}
}

func (p *printer) quoted(s string) { p.Write(appendString(nil, []byte(s))) }

func word(not bool, w string) string {
	if not {
		return " NOT " + w + " "
	}
	return " " + w + " "
}

func (p *printer) expr(e expr) {
	switch e := e.(type) {
	case *literal:
		if e.v.kind == kindUndefined {
			p.text("undefined")
			return
		}
		p.Write(e.v.appendJSON(nil))
	case *param:
		p.text(e.name)
	case *ident:
		p.text(e.name)
	case *member:
		p.member(e)
	case *call:
		if e.udf {
			p.text("udf.")
		}
		name := e.name
		if p.plain && !e.udf {
			name = strings.ToUpper(name)
		}
		p.text(name, "(")
		p.list(e.args)
		p.text(")")
	case *array:
		p.text("[")
		p.list(e.elements)
		p.text("]")
	case *object:
		p.text("{")
		for i, m := range e.members {
			if i > 0 {
				p.text(", ")
			}
			p.quoted(m.name)
			p.text(": ")
			p.expr(m.e)
		}
		p.text("}")
	case *subquery:
		p.text(e.kind, "(")
		p.query(e.q)
		p.text(")")
	default:
		p.text("(")
		p.operation(e)
		p.text(")")
	}
}

func (p *printer) member(e *member) {
	if l, ok := e.base.(*literal); ok && l.v.kind == kindNumber {
		p.text("(") // 0.a would begin with the number 0.
		p.expr(l)
		p.text(")")
	} else {
		p.expr(e.base)
	}
	switch {
	case e.dot && !p.plain:
		p.text(".", e.name)
	case e.index == nil:
		p.text("[")
		p.quoted(e.name)
		p.text("]")
	default:
		p.text("[")
		p.expr(e.index)
		p.text("]")
	}
}

// operation writes what stands in parentheses.
func (p *printer) operation(e expr) {
	switch e := e.(type) {
	case *unary:
		p.text(e.op)
		if e.op == "NOT" {
			p.text(" ")
		}
		// A blank keeps -(-1) from becoming a comment.
		if l, ok := e.x.(*literal); ok && l.v.kind == kindNumber && e.op == "-" {
			p.text(" ")
		}
		p.expr(e.x)
	case *binaryOp:
		p.expr(e.l)
		p.text(" ", e.op, " ")
		p.expr(e.r)
	case *logical:
		for i, t := range e.terms {
			if i > 0 {
				p.text(" ", e.op, " ")
			}
			p.expr(t)
		}
	case *inList:
		p.expr(e.x)
		p.text(word(e.not, "IN"), "(")
		p.list(e.list)
		p.text(")")
	case *between:
		p.expr(e.x)
		p.text(word(e.not, "BETWEEN"))
		p.expr(e.lo)
		p.text(" AND ")
		p.expr(e.hi)
	case *like:
		p.expr(e.x)
		p.text(word(e.not, "LIKE"))
		p.expr(e.pattern)
		if e.hasEscape {
			p.text(" ESCAPE ")
			p.quoted(e.escape)
		}
	case *conditional:
		p.expr(e.test)
		p.text(" ? ")
		p.expr(e.then)
		p.text(" : ")
		p.expr(e.otherwise)
	}
}

// spelling is an expression's text with one spelling for each: c["x"] for c.x,
// names of functions in upper case.
func spelling(e expr) string {
	p := printer{plain: true}
	p.expr(e)
	return p.String()
}
