package query

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// checker says what is wrong with a tree that the grammar let through, or isn't
// evaluated yet.
type checker struct {
	text string
	q    *selectQuery
	// scope are the names that are known.
	scope *scope
	// bound counts the bindings of the whole query, joins its JOINs; reads is set when FROM names the container.
	bound, joins *int
	reads        *bool
	// inner is set in a subquery; container where FROM may name the container.
	inner, container bool
	// selecting is set in the select list, where aggregates may be.
	selecting bool
}

// check looks at a query, and makes its counts numbers.
func check(text string, q *selectQuery) error {
	c := &checker{text: text, q: q, bound: new(int), joins: new(int), reads: new(bool), container: true}
	err := c.all()
	q.reads = *c.reads
	return err
}

func (c *checker) all() error {
	for _, step := range []func() error{c.clauses, c.sources, c.counts, c.names, c.expressions, c.order, c.groups} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) fail(t token, code, message string) error {
	return errorAt(c.text, t, code, message)
}

// clauses refuses what neither is evaluated.
func (c *checker) clauses() error {
	if c.inner {
		return c.inSubquery()
	}
	q := c.q
	switch {
	case q.rank:
		return &UnsupportedError{What: "ORDER BY RANK"}
	case q.top != nil && q.limit != nil:
		return &UnsupportedError{What: "TOP together with OFFSET LIMIT"}
	}
	return nil
}

func (c *checker) counts() error {
	for _, n := range []struct {
		count *count
		what  string
		code  string
	}{{c.q.top, "TOP", CodeTop}, {c.q.limit, "LIMIT", CodeLimit}, {c.q.offset, "OFFSET", CodeOffset}} {
		if n.count == nil || n.count.param != "" {
			continue
		}
		f, most := n.count.tok.num, float64(math.MaxInt32)
		if n.count == c.q.limit && c.q.offset.param == "" && c.q.offset.tok.num == 0 {
			most += math.MaxInt32 // what plans make of the largest OFFSET and LIMIT
		}
		if f != math.Trunc(f) || f > most {
			return c.fail(n.count.tok, n.code, fmt.Sprintf("The %s count has to be an integer from 0 to %d.", n.what, math.MaxInt32))
		}
		n.count.n = int64(f)
	}
	return nil
}

// names refuses two members of one name.
func (c *checker) names() error {
	seen := map[string]bool{}
	for i, name := range outputNames(c.q.items) {
		if seen[name] {
			return c.fail(nameToken(c.q.items[i]), CodeDuplicate, fmt.Sprintf("The select list has two items of the name '%s'.", name))
		}
		seen[name] = true
	}
	return nil
}

// nameToken is where a select list's member has its name from.
func nameToken(it selected) token {
	switch e := it.e.(type) {
	case *ident:
		if it.name == "" {
			return e.tok
		}
	case *member:
		if it.name == "" {
			return e.tok
		}
	}
	return it.tok
}

func (c *checker) expressions() error {
	c.selecting = true
	for _, e := range selectList(c.q) {
		if err := c.expr(e); err != nil {
			return err
		}
	}
	c.selecting = false
	for _, e := range c.q.groupBy {
		if err := c.expr(e); err != nil {
			return err
		}
	}
	if c.q.where != nil {
		return c.expr(c.q.where)
	}
	return nil
}

// expr looks into an expression. Its depth is bounded by the parser.
func (c *checker) expr(e expr) error {
	switch e := e.(type) {
	case *ident:
		binding, ok := c.scope.lookup(e.name)
		if !ok {
			binding, ok = numberNames[e.name]
		}
		if !ok {
			return c.unresolved(e)
		}
		e.binding = binding
	case *call:
		if err := c.checkCall(e); err != nil {
			return err
		}
	case *like:
		if e.hasEscape && utf8.RuneCountInString(e.escape) != 1 {
			return c.fail(e.tok, CodeSyntax, "The ESCAPE of LIKE has to be one character.")
		}
	case *subquery:
		return c.subquery(e.q, false)
	case *object:
		seen := map[string]bool{}
		for _, m := range e.members {
			if seen[m.name] {
				return c.fail(m.tok, CodeDuplicate, fmt.Sprintf("The object has two members of the name '%s'.", m.name))
			}
			seen[m.name] = true
		}
	}
	for _, child := range children(e) {
		if err := c.expr(child); err != nil {
			return err
		}
	}
	return nil
}

// order takes paths as sort keys, as the service does.
func (c *checker) order() error {
	for _, o := range c.q.orderBy {
		if err := c.expr(o.e); err != nil {
			return err
		}
		binding, path, ok := boundPath(o.e, nil)
		if ok && binding != document {
			return c.uncoded("Order-by over correlated collections is not supported.")
		}
		if !ok || len(path) == 0 {
			return c.fail(token{end: len(c.text)}, CodeOrderBy,
				"Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.")
		}
	}
	return nil
}

// step is one step of a path: a member's name, or an element's index when name
// is nil.
type step struct {
	name  []byte
	index int
}

// boundPath returns the steps of a path that is the same for every document, and
// what it begins with; ok is false for any other expression.
func boundPath(e expr, params map[string]value) (binding int, path []step, ok bool) {
	for {
		switch m := e.(type) {
		case *ident:
			if binding = m.binding; binding < document {
				return 0, nil, false
			}
			for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
				path[i], path[j] = path[j], path[i]
			}
			return binding, path, true
		case *member:
			s := step{name: []byte(m.name)}
			if m.index != nil {
				v, ok := constant(m.index, params)
				if !ok {
					return 0, nil, false
				}
				if s, ok = stepOf(v); !ok {
					return 0, nil, false
				}
			}
			path = append(path, s)
			e = m.base
		default:
			return 0, nil, false
		}
	}
}

// stepOf returns the step that an index in brackets is.
func stepOf(v value) (step, bool) {
	switch {
	case v.kind == kindString:
		return step{name: v.b}, true
	case v.kind == kindNumber && v.num >= 0 && v.num == math.Trunc(v.num) && v.num <= math.MaxInt32:
		return step{index: int(v.num)}, true
	}
	return step{}, false
}

// constant returns the value of a literal, a parameter or a name of a number.
func constant(e expr, params map[string]value) (value, bool) {
	switch e := e.(type) {
	case *literal:
		return e.v, true
	case *param:
		v, ok := params[e.name]
		return v, ok
	case *ident:
		return namedNumber(e.binding)
	}
	return value{}, false
}

// checkCall finds the function of a call.
func (c *checker) checkCall(e *call) error {
	name := strings.ToUpper(e.name)
	switch f, ok := functions[name]; {
	case e.udf:
		return &UnsupportedError{What: "the user-defined function udf." + e.name}
	case ok && !f.evaluated():
		return &UnsupportedError{What: "the function " + name}
	case ok && !f.takes(len(e.args)):
		return c.fail(e.tok, CodeArguments, fmt.Sprintf("The %s function requires %s.", name, f.arity()))
	case ok:
		return nil
	case !aggregateKinds[name].evaluated():
		return &UnsupportedError{What: "the aggregate function " + name}
	case aggregateKinds[name] != aggregateNone:
		return c.aggregate(e)
	}
	return c.fail(e.tok, CodeFunction, fmt.Sprintf("'%s' is not a recognized built-in function name.", e.name))
}
