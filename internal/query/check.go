package query

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// checker finds errors in a parsed query that the grammar allows, such as unknown names.
// It also refuses features that are not supported.
type checker struct {
	text string
	q    *syntax.Select
	// scope holds the names that FROM has defined so far, including those of enclosing
	// queries.
	scope *scope
	// bound counts the bindings of the whole query, including subqueries, and joins
	// counts its JOINs. reads is set if any FROM names the container.
	bound, joins *int
	reads        *bool
	// inner is true for a subquery. container is true where a name in FROM may be the
	// container.
	inner, container bool
	// selecting is true while the select list is checked. Only there, aggregates are
	// allowed.
	selecting bool
}

// check returns an error if the query q with the given text is invalid. It also writes
// bindings and numeric counts into q.
func check(text string, q *syntax.Select) error {
	c := &checker{text: text, q: q, bound: new(int), joins: new(int), reads: new(bool), container: true}
	err := c.all()
	q.Reads = *c.reads
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

func (c *checker) fail(t syntax.Token, code, message string) error {
	return syntax.ErrorAt(c.text, t, code, message)
}

// clauses returns an error if the query has a clause, or a combination of clauses, that
// is invalid or not supported.
func (c *checker) clauses() error {
	if c.inner {
		return c.inSubquery()
	}
	q := c.q
	switch {
	case q.Rank:
		return &syntax.UnsupportedError{What: "ORDER BY RANK"}
	case q.Top != nil && q.Limit != nil:
		return &syntax.UnsupportedError{What: "TOP together with OFFSET LIMIT"}
	}
	return nil
}

func (c *checker) counts() error {
	for _, n := range []struct {
		count *syntax.Count
		what  string
		code  string
	}{{c.q.Top, "TOP", syntax.CodeTop}, {c.q.Limit, "LIMIT", syntax.CodeLimit}, {c.q.Offset, "OFFSET", syntax.CodeOffset}} {
		if n.count == nil || n.count.Param != "" {
			continue
		}
		count, ok := n.count.Tok.Number().Int()
		most := int64(math.MaxInt32)
		if n.count == c.q.Limit && c.q.Offset.Param == "" && value.Equal(c.q.Offset.Tok.Number(), value.OfInt(0)) {
			most += math.MaxInt32 // the largest sum of OFFSET and LIMIT, which plans contain
		}
		if !ok || count < 0 || count > most {
			return c.fail(n.count.Tok, n.code, fmt.Sprintf("The %s count has to be an integer from 0 to %d.", n.what, math.MaxInt32))
		}
		n.count.N = count
	}
	return nil
}

// names returns an error if two members of the select list have the same name.
func (c *checker) names() error {
	seen := map[string]bool{}
	for i, name := range syntax.OutputNames(c.q.Items) {
		if seen[name] {
			return c.fail(nameToken(c.q.Items[i]), syntax.CodeDuplicate, fmt.Sprintf("Object creation error, property name '%s' specified more than once.", name))
		}
		seen[name] = true
	}
	return nil
}

// nameToken returns the token from which an item of the select list has its name, for
// error messages.
func nameToken(it syntax.Item) syntax.Token {
	if it.Name != "" {
		return it.Tok
	}
	_, tok := syntax.NameOf(it.Expr)
	return tok
}

func (c *checker) expressions() error {
	c.selecting = true
	for _, e := range syntax.SelectList(c.q) {
		if err := c.expr(e); err != nil {
			return err
		}
	}
	c.selecting = false
	for _, e := range c.q.GroupBy {
		if err := c.expr(e); err != nil {
			return err
		}
	}
	if c.q.Where != nil {
		return c.expr(c.q.Where)
	}
	return nil
}

// expr checks an expression and its parts, and resolves its names to bindings. It is
// recursive, and the parser limits the depth.
func (c *checker) expr(e syntax.Expr) error {
	switch e := e.(type) {
	case *syntax.Ident:
		binding, ok := c.scope.lookup(e.Name)
		if !ok {
			binding, ok = numberNames[e.Name]
		}
		if !ok {
			return c.unresolved(e)
		}
		e.Binding = binding
	case *syntax.Call:
		if err := c.checkCall(e); err != nil {
			return err
		}
	case *syntax.Like:
		if e.HasEscape && utf8.RuneCountInString(e.Escape) != 1 {
			return c.fail(e.Tok, syntax.CodeSyntax, "The ESCAPE of LIKE has to be one character.")
		}
	case *syntax.Subquery:
		return c.subquery(e.Query, false)
	case *syntax.Object:
		seen := map[string]bool{}
		for _, m := range e.Members {
			if seen[m.Name] {
				return c.fail(m.Tok, syntax.CodeDuplicate, fmt.Sprintf("Object creation error, property name '%s' specified more than once.", m.Name))
			}
			seen[m.Name] = true
		}
	}
	var err error
	syntax.EachChild(e, func(child syntax.Expr) bool {
		err = c.expr(child)
		return err == nil
	})
	return err
}

// order returns an error if a sort key is not a path such as c.a.b. The service has the
// same rule.
func (c *checker) order() error {
	for _, o := range c.q.OrderBy {
		if err := c.expr(o.Expr); err != nil {
			return err
		}
		binding, path, ok := boundPath(o.Expr, nil)
		if ok && binding != syntax.Document {
			return c.uncoded("Order-by over correlated collections is not supported.")
		}
		if !ok || len(path) == 0 {
			return c.fail(syntax.Token{End: len(c.text)}, syntax.CodeOrderBy,
				"Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.")
		}
	}
	return nil
}

// step is one step of a path: the name of a member or, if index is not negative, the index
// of an element.
type step struct {
	name  string
	index int
}

// boundPath returns the steps of a path whose names and indexes are constant, and the
// binding at which it begins. ok is false for any other expression.
func boundPath(e syntax.Expr, params map[string]value.Value) (binding int, path []step, ok bool) {
	binding, n, ok := boundTo(e, params)
	if !ok || n == 0 {
		return binding, nil, ok
	}
	path = make([]step, n)
	for m, more := e.(*syntax.Member); more; m, more = m.Base.(*syntax.Member) {
		n--
		path[n], _ = stepOf(m, params)
	}
	return binding, path, true
}

// boundTo returns the binding at which a path of boundPath begins, and the number of its
// steps.
func boundTo(e syntax.Expr, params map[string]value.Value) (binding, steps int, ok bool) {
	for {
		switch m := e.(type) {
		case *syntax.Ident:
			return m.Binding, steps, m.Binding >= syntax.Document
		case *syntax.Member:
			if _, ok := stepOf(m, params); !ok {
				return 0, 0, false
			}
			steps++
			e = m.Base
		default:
			return 0, 0, false
		}
	}
}

// stepOf returns the last step of a path. ok is false if its name or index is not constant,
// or is of another type.
func stepOf(m *syntax.Member, params map[string]value.Value) (s step, ok bool) {
	if m.Index == nil {
		return step{m.Name, -1}, true
	}
	switch v, _ := constant(m.Index, params); v.Kind {
	case value.String:
		return step{string(v.Bytes), -1}, true
	case value.Number:
		n, ok := elementIndex(v)
		return step{"", n}, ok
	default:
	}
	return step{}, false
}

// elementIndex returns a number as the index of an element of an array. ok is false if it
// cannot be one.
func elementIndex(v value.Value) (n int, ok bool) {
	i, ok := v.Int()
	return int(i), ok && i >= 0 && i <= math.MaxInt32
}

// constant returns the value of a literal, a parameter or a named number such as NaN. ok
// is false for any other expression.
func constant(e syntax.Expr, params map[string]value.Value) (value.Value, bool) {
	switch e := e.(type) {
	case *syntax.Literal:
		return e.Value, true
	case *syntax.Param:
		v, ok := params[e.Name]
		return v, ok
	case *syntax.Ident:
		return namedNumber(e.Binding)
	}
	return value.Value{}, false
}

// checkCall checks the name and the number of arguments of a call.
func (c *checker) checkCall(e *syntax.Call) error {
	name := strings.ToUpper(e.Name)
	switch f, ok := value.Functions[name]; {
	case e.Udf:
		return &syntax.UnsupportedError{What: "the user-defined function udf." + e.Name}
	case ok && !f.Evaluated():
		return &syntax.UnsupportedError{What: "the function " + name}
	case ok && !f.Takes(len(e.Args)):
		return c.fail(e.Tok, syntax.CodeArguments, fmt.Sprintf("The %s function requires %s.", name, f.Arity()))
	case ok:
		return nil
	case !value.Aggregates[name].Evaluated():
		return &syntax.UnsupportedError{What: "the aggregate function " + name}
	case value.Aggregates[name] != value.NoAggregate:
		return c.aggregate(e)
	}
	return c.fail(e.Tok, syntax.CodeFunction, fmt.Sprintf("'%s' is not a recognized built-in function name.", e.Name))
}
