package query

import "fmt"

// The tree of a query as it was written. It carries the whole language, also
// what [check] refuses for now: only the evaluator knows less than the grammar.

// selectQuery is one SELECT, the outermost or a subquery.
type selectQuery struct {
	deep
	distinct bool
	top      *count
	star     bool // SELECT *
	starTok  token
	value    expr       // SELECT VALUE value
	items    []selected // SELECT items
	from     *source    // nil without FROM
	where    expr       // nil without WHERE
	groupBy  []expr
	orderBy  []orderItem
	orderTok token
	rank     bool // ORDER BY RANK
	offset   *count
	limit    *count
	reads    bool // of an outermost SELECT: FROM names the container; set by check
	// condition marks the form of a patch's condition, which has no SELECT.
	condition bool
}

// count is the number of TOP, OFFSET or LIMIT: a literal or a parameter.
type count struct {
	tok   token
	param string // with its @; empty for a literal
	n     int64
}

// selected is an item of a select list; name is empty without AS.
type selected struct {
	e    expr
	name string
	tok  token
}

type orderItem struct {
	e     expr
	order string // "", "ASC" or "DESC", as written
	desc  bool
}

// source is what FROM names: a collection or a path in it, or a subquery, each
// element of it with IN, joined to others.
type source struct {
	collection expr         // an ident or a member chain
	subquery   *selectQuery // instead of collection
	alias      string
	tok        token // the alias, or the name that it is taken from
	in         bool
	joins      []*source
	binding    int // what the alias stands for; set by check
}

// document is the binding of the document itself. The others are numbered from 1,
// over a query and its subqueries.
const document = 0

// expr is an expression. Its depth is bounded, so that whoever walks it may
// recurse.
type expr interface {
	depth() int
}

// deep is an expression's height above its deepest leaf.
type deep int

func (d deep) depth() int { return int(d) }

// above returns the depth of a node over children; nil ones don't count.
func above(children ...expr) deep {
	d := 0
	for _, c := range children {
		if c != nil {
			d = max(d, c.depth())
		}
	}
	return deep(d + 1)
}

type (
	// literal is a constant.
	literal struct {
		deep
		v value
	}
	// param is @name.
	param struct {
		deep
		name string // with its @
		tok  token
	}
	// ident is a bare name: an alias of FROM.
	ident struct {
		deep
		name    string
		tok     token
		binding int // what it stands for; set by check
	}
	// member is base.name, base["name"] or base[index].
	member struct {
		deep
		base  expr
		name  string // for the first two
		dot   bool
		index expr  // for the third
		tok   token // the name, or what is in brackets with them
	}
	// unary is an operator before its operand: - + ~ NOT.
	unary struct {
		deep
		op string
		x  expr
	}
	// binaryOp is every operator between two operands but AND and OR.
	binaryOp struct {
		deep
		op   string
		l, r expr
	}
	// logical is AND or OR over two or more terms: a chain is one node, because
	// SDKs write a thousand terms for a thousand items to be read.
	logical struct {
		deep
		op    string
		terms []expr
	}
	// inList is x [NOT] IN (list).
	inList struct {
		deep
		x    expr
		list []expr
		not  bool
	}
	// between is x [NOT] BETWEEN lo AND hi.
	between struct {
		deep
		x, lo, hi expr
		not       bool
	}
	// like is x [NOT] LIKE pattern [ESCAPE escape].
	like struct {
		deep
		x, pattern expr
		escape     string
		hasEscape  bool
		not        bool
		tok        token // the escape
	}
	// conditional is test ? then : otherwise.
	conditional struct {
		deep
		test, then, otherwise expr
	}
	// call is name(args), or udf.name(args).
	call struct {
		deep
		name string // as it was written
		udf  bool
		args []expr
		tok  token
	}
	// array is [elements].
	array struct {
		deep
		elements []expr
	}
	// object is {"name": value}.
	object struct {
		deep
		members []selected
	}
	// subquery is (SELECT ...), or EXISTS, ARRAY, ALL, FIRST or LAST of one.
	subquery struct {
		deep
		kind string // "", or the word
		q    *selectQuery
	}
)

// outputNames are the names of a select list's members: what AS says, else the
// last name of a path, else $1, $2... in the order of those.
func outputNames(items []selected) []string {
	names := make([]string, 0, len(items))
	unnamed := 0
	for _, it := range items {
		name := it.name
		if name == "" {
			switch e := it.e.(type) {
			case *ident:
				name = e.name
			case *member:
				name = e.name
			}
			if m, ok := it.e.(*member); name == "" && (!ok || m.index != nil) {
				unnamed++
				name = fmt.Sprintf("$%d", unnamed)
			}
		}
		names = append(names, name)
	}
	return names
}

// children are the expressions in an expression; not those of subqueries.
func children(e expr) []expr {
	switch e := e.(type) {
	case *member:
		if e.index != nil {
			return []expr{e.base, e.index}
		}
		return []expr{e.base}
	case *unary:
		return []expr{e.x}
	case *binaryOp:
		return []expr{e.l, e.r}
	case *logical:
		return e.terms
	case *inList:
		return append([]expr{e.x}, e.list...)
	case *between:
		return []expr{e.x, e.lo, e.hi}
	case *like:
		return []expr{e.x, e.pattern}
	case *conditional:
		return []expr{e.test, e.then, e.otherwise}
	case *call:
		return e.args
	case *array:
		return e.elements
	case *object:
		list := make([]expr, len(e.members))
		for i, m := range e.members {
			list[i] = m.e
		}
		return list
	}
	return nil
}

// selectList are the expressions that a SELECT makes its row of.
func selectList(q *selectQuery) []expr {
	if q.value != nil {
		return []expr{q.value}
	}
	list := make([]expr, len(q.items))
	for i, it := range q.items {
		list[i] = it.e
	}
	return list
}

// walkQuery calls f with the expressions of a SELECT, the outermost only.
func walkQuery(q *selectQuery, f func(expr)) {
	if q.value != nil {
		f(q.value)
	}
	for _, it := range q.items {
		f(it.e)
	}
	if q.from != nil {
		for _, s := range append([]*source{q.from}, q.from.joins...) {
			if s.collection != nil {
				f(s.collection)
			}
			if s.subquery != nil {
				f(&subquery{deep: s.subquery.deep + 1, q: s.subquery})
			}
		}
	}
	if q.where != nil {
		f(q.where)
	}
	for _, e := range q.groupBy {
		f(e)
	}
	for _, o := range q.orderBy {
		f(o.e)
	}
}

// root returns the name that a path begins with; nil: e is no path.
func root(e expr) *ident {
	for {
		switch m := e.(type) {
		case *ident:
			return m
		case *member:
			e = m.base
		default:
			return nil
		}
	}
}
