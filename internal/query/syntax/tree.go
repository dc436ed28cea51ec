// Package syntax reads the text of a query into a tree, and writes a tree as text. It has the
// whole language; package query refuses what is not evaluated.
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
	Reads    bool // of an outermost SELECT: FROM names the container; set by check
	// condition marks the form of a patch's condition, which has no SELECT.
	condition bool
}

// Count is the number of TOP, OFFSET or LIMIT: a literal or a parameter.
type Count struct {
	Tok   Token
	Param string // with its @; empty for a literal
	N     int64
}

// Item is an item of a select list; name is empty without AS.
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

// Source is what FROM names: a collection or a path in it, or a subquery, each
// element of it with IN, joined to others.
type Source struct {
	Collection Expr    // an ident or a member chain
	Subquery   *Select // instead of collection
	Alias      string
	Tok        Token // the alias, or the name that it is taken from
	In         bool
	Joins      []*Source
	Binding    int // what the alias stands for; set by check
}

// Document is the binding of the document itself. The others are numbered from 1,
// over a query and its subqueries.
const Document = 0

// Expr is an expression. Its depth is bounded, so that whoever walks it may
// recurse.
type Expr interface {
	Depth() int
}

// deep is an expression's height above its deepest leaf.
type deep int

func (d deep) Depth() int { return int(d) }

// above returns the depth of a node over children; nil ones don't count.
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
	// Ident is a bare name: an alias of FROM.
	Ident struct {
		deep
		Name    string
		Tok     Token
		Binding int // what it stands for; set by check
	}
	// Member is base.name, base["name"] or base[index].
	Member struct {
		deep
		Base  Expr
		Name  string // for the first two
		Dot   bool
		Index Expr  // for the third
		Tok   Token // the name, or what is in brackets with them
	}
	// Unary is an operator before its operand: - + ~ NOT.
	Unary struct {
		deep
		Op string
		X  Expr
	}
	// Binary is every operator between two operands but AND and OR.
	Binary struct {
		deep
		Op   string
		L, R Expr
	}
	// Logical is AND or OR over two or more terms: a chain is one node, because
	// SDKs write a thousand terms for a thousand items to be read.
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
		Name string // as it was written
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
		Kind  string // "", or the word
		Query *Select
	}
)

// NameOf returns the last name of a path, and its token.
func NameOf(e Expr) (name string, tok Token) {
	switch e := e.(type) {
	case *Ident:
		return e.Name, e.Tok
	case *Member:
		return e.Name, e.Tok
	}
	return "", Token{}
}

// OutputNames are the names of a select list's members: what AS says, else the
// last name of a path, else $1, $2... in the order of those.
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

// Children are the expressions in an expression; not those of subqueries.
func Children(e Expr) []Expr {
	switch e := e.(type) {
	case *Member:
		if e.Index != nil {
			return []Expr{e.Base, e.Index}
		}
		return []Expr{e.Base}
	case *Unary:
		return []Expr{e.X}
	case *Binary:
		return []Expr{e.L, e.R}
	case *Logical:
		return e.Terms
	case *In:
		return append([]Expr{e.X}, e.List...)
	case *Between:
		return []Expr{e.X, e.Lo, e.Hi}
	case *Like:
		return []Expr{e.X, e.Pattern}
	case *Conditional:
		return []Expr{e.Test, e.Then, e.Otherwise}
	case *Call:
		return e.Args
	case *Array:
		return e.Elements
	case *Object:
		list := make([]Expr, len(e.Members))
		for i, m := range e.Members {
			list[i] = m.Expr
		}
		return list
	}
	return nil
}

// SelectList are the expressions that a SELECT makes its row of.
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

// Exprs returns the expressions of a SELECT, the outermost only.
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

// Outer returns expressions and all that are in them, but not those of subqueries.
func Outer(list ...Expr) iter.Seq[Expr] {
	return func(yield func(Expr) bool) { visit(list, false, yield) }
}

// All returns expressions and all that are in them, also in their subqueries.
func All(list ...Expr) iter.Seq[Expr] {
	return func(yield func(Expr) bool) { visit(list, true, yield) }
}

func visit(list []Expr, inner bool, yield func(Expr) bool) bool {
	for _, e := range list {
		if !yield(e) || !visit(Children(e), inner, yield) {
			return false
		}
		if sub, ok := e.(*Subquery); ok && inner && !visit(sub.Query.Exprs(), inner, yield) {
			return false
		}
	}
	return true
}

// Root returns the name that a path begins with; nil: e is no path.
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
