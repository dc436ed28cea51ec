// Package syntax parses the text of a query into a tree, and writes a tree as text. It
// supports the whole language. Package query refuses the features that it does not
// evaluate.
package syntax

import (
	"fmt"
	"iter"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Select is one SELECT, the outermost or a subquery.
type Select struct {
	deep
	Distinct bool
	Top      *Count
	Star     bool // SELECT *
	StarTok  Token
	Value    Expr    // SELECT VALUE value
	Items    []Item  // SELECT items
	From     *Source // nil without FROM
	Where    Expr    // nil without WHERE
	GroupBy  []Expr
	OrderBy  []Order
	OrderTok Token
	Rank     bool // ORDER BY RANK
	Offset   *Count
	Limit    *Count
	Reads    bool // whether FROM of an outermost SELECT names the container; set by package query
	// condition marks the condition of a patch, which has no SELECT.
	condition bool
}

// Count is the number of TOP, OFFSET or LIMIT: a literal or a parameter.
type Count struct {
	Tok   Token
	Param string // with its @, or empty for a literal
	N     int64
}

// Item is an item of a select list. Name is empty without AS.
type Item struct {
	Expr Expr
	Name string
	Tok  Token
}

// Order is a sort key of ORDER BY.
type Order struct {
	Expr  Expr
	order string // "", "ASC" or "DESC", as written
	Desc  bool
}

// Source is a source of FROM: a collection, a path in one, or a subquery. With IN, the
// values are its elements. Joins are the sources joined to it.
type Source struct {
	Collection Expr    // an Ident or a chain of Members
	Subquery   *Select // replaces Collection
	Alias      string
	Tok        Token // the alias, or the token that names the source
	In         bool
	Joins      []*Source
	Binding    int // the binding of the alias; set by package query
}

// Document is the binding of the document itself. Other bindings are numbered from 1 over
// a query and its subqueries.
const Document = 0

// Expr is an expression. Its depth is limited, so callers may walk it recursively.
type Expr interface {
	Depth() int
}

// deep is the number of levels below a node in the tree, which is 0 for a leaf.
type deep int

func (d deep) Depth() int { return int(d) }

// above returns the depth of a node from its children. It ignores children that are nil.
func above(children ...Expr) deep {
	d := 0
	for _, c := range children {
		if c != nil {
			d = max(d, c.Depth())
		}
	}
	return deep(d + 1)
}

type (
	// Literal is a constant.
	Literal struct {
		deep
		Value value.Value
	}
	// Param is @name.
	Param struct {
		deep
		Name string // with its @
		tok  Token
	}
	// Ident is a bare name, which is an alias of FROM.
	Ident struct {
		deep
		Name    string
		Tok     Token
		Binding int // the binding of the name; set by package query
	}
	// Member is base.name, base["name"] or base[index].
	Member struct {
		deep
		Base  Expr
		Name  string // of the first two forms
		Dot   bool
		Index Expr  // of the third form
		Tok   Token // the name, or the brackets with their content
	}
	// Unary is a prefix operator with its operand: - + ~ NOT.
	Unary struct {
		deep
		Op string
		X  Expr
	}
	// Binary is a binary operator other than AND and OR.
	Binary struct {
		deep
		Op   string
		L, R Expr
	}
	// Logical is AND or OR with two or more terms. A chain is one node, because SDKs
	// write a thousand terms to read a thousand items.
	Logical struct {
		deep
		Op    string
		Terms []Expr
	}
	// In is x [NOT] IN (list).
	In struct {
		deep
		X    Expr
		List []Expr
		Not  bool
	}
	// Between is x [NOT] BETWEEN lo AND hi.
	Between struct {
		deep
		X, Lo, Hi Expr
		Not       bool
	}
	// Like is x [NOT] LIKE pattern [ESCAPE escape].
	Like struct {
		deep
		X, Pattern Expr
		Escape     string
		HasEscape  bool
		Not        bool
		Tok        Token // the escape
	}
	// Conditional is test ? then : otherwise.
	Conditional struct {
		deep
		Test, Then, Otherwise Expr
	}
	// Call is name(args), or udf.name(args).
	Call struct {
		deep
		Name string // as written
		Udf  bool
		Args []Expr
		Tok  Token
	}
	// Array is [elements].
	Array struct {
		deep
		Elements []Expr
	}
	// Object is {"name": value}.
	Object struct {
		deep
		Members []Item
	}
	// Subquery is (SELECT ...), or EXISTS, ARRAY, ALL, FIRST or LAST of one.
	Subquery struct {
		deep
		Kind  string // empty or the keyword
		Query *Select
	}
)

// NameOf returns the last name of a path and its token. Both are empty if e has no such
// name.
func NameOf(e Expr) (name string, tok Token) {
	switch e := e.(type) {
	case *Ident:
		return e.Name, e.Tok
	case *Member:
		return e.Name, e.Tok
	}
	return "", Token{}
}

// OutputNames returns the names of a select list's members. A member is named by AS, or
// by the last name of its path. Other members are named $1, $2 and so on.
func OutputNames(items []Item) []string {
	names := make([]string, 0, len(items))
	unnamed := 0
	for _, it := range items {
		name := it.Name
		if name == "" {
			name, _ = NameOf(it.Expr)
			if m, ok := it.Expr.(*Member); name == "" && (!ok || m.Index != nil) {
				unnamed++
				name = fmt.Sprintf("$%d", unnamed)
			}
		}
		names = append(names, name)
	}
	return names
}

// EachChild calls visit for the direct subexpressions of an expression, without those in
// subqueries, until visit returns false. It returns false if visit did.
func EachChild(e Expr, visit func(child Expr) bool) bool {
	switch e := e.(type) {
	case *Member:
		return visit(e.Base) && (e.Index == nil || visit(e.Index))
	case *Unary:
		return visit(e.X)
	case *Binary:
		return visit(e.L) && visit(e.R)
	case *Logical:
		return every(e.Terms, visit)
	case *In:
		return visit(e.X) && every(e.List, visit)
	case *Between:
		return visit(e.X) && visit(e.Lo) && visit(e.Hi)
	case *Like:
		return visit(e.X) && visit(e.Pattern)
	case *Conditional:
		return visit(e.Test) && visit(e.Then) && visit(e.Otherwise)
	case *Call:
		return every(e.Args, visit)
	case *Array:
		return every(e.Elements, visit)
	case *Object:
		for _, m := range e.Members {
			if !visit(m.Expr) {
				return false
			}
		}
	}
	return true
}

// every calls visit for the expressions of a list until it returns false.
func every(list []Expr, visit func(Expr) bool) bool {
	for _, e := range list {
		if !visit(e) {
			return false
		}
	}
	return true
}

// SelectList returns the expressions from which a SELECT creates its row.
func SelectList(q *Select) []Expr {
	if q.Value != nil {
		return []Expr{q.Value}
	}
	list := make([]Expr, len(q.Items))
	for i, it := range q.Items {
		list[i] = it.Expr
	}
	return list
}

// Exprs returns the expressions of all clauses of a SELECT, without their subexpressions.
func (q *Select) Exprs() []Expr {
	list := SelectList(q)
	if q.From != nil {
		for _, s := range append([]*Source{q.From}, q.From.Joins...) {
			if s.Collection != nil {
				list = append(list, s.Collection)
			}
			if s.Subquery != nil {
				list = append(list, &Subquery{deep: s.Subquery.deep + 1, Query: s.Subquery})
			}
		}
	}
	if q.Where != nil {
		list = append(list, q.Where)
	}
	list = append(list, q.GroupBy...)
	for _, o := range q.OrderBy {
		list = append(list, o.Expr)
	}
	return list
}

// Outer returns an iterator over expressions and their subexpressions, without those in
// subqueries.
func Outer(list ...Expr) iter.Seq[Expr] {
	return func(yield func(Expr) bool) {
		every(list, func(e Expr) bool { return visit(e, false, yield) })
	}
}

// All returns an iterator over expressions and their subexpressions, including those in
// subqueries.
func All(list ...Expr) iter.Seq[Expr] {
	return func(yield func(Expr) bool) {
		every(list, func(e Expr) bool { return visit(e, true, yield) })
	}
}

// visit calls yield for an expression and its subexpressions until it returns false. inner
// includes those in subqueries.
func visit(e Expr, inner bool, yield func(Expr) bool) bool {
	if !yield(e) || !EachChild(e, func(child Expr) bool { return visit(child, inner, yield) }) {
		return false
	}
	sub, ok := e.(*Subquery)
	return !ok || !inner || every(sub.Query.Exprs(), func(e Expr) bool { return visit(e, inner, yield) })
}

// Root returns the name that a path begins with. It returns nil if e is not a path.
func Root(e Expr) *Ident {
	for {
		switch m := e.(type) {
		case *Ident:
			return m
		case *Member:
			e = m.Base
		default:
			return nil
		}
	}
}
