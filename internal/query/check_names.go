package query

import (
	"fmt"
	"math"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// FROM gives a name to each of its sources. A subquery sees its own names first, then
// those of the enclosing query. The checker resolves each name to a binding, a number
// that it writes into the tree. The evaluator uses bindings only.

// maxJoins is the maximum number of JOINs in a query, including its subqueries. It is the
// limit in the service's documentation. The service can raise it on request.
const maxJoins = 10

// scope maps the names of one FROM to bindings.
type scope struct {
	names map[string]int
	outer *scope
}

// lookup returns the binding of a name in this FROM or, if it is not there, in an
// enclosing query.
func (s *scope) lookup(name string) (binding int, ok bool) {
	for ; s != nil; s = s.outer {
		if binding, ok = s.names[name]; ok {
			return binding, true
		}
	}
	return 0, false
}

// Bindings of named numbers. FROM may use these names for its sources. No document
// contains such a number, and no calculation produces one.
const (
	notANumber = -1
	infinity   = -2
)

var numberNames = map[string]int{"NaN": notANumber, "Infinity": infinity}

// namedNumber returns the value of the named number (NaN, Infinity) that has this
// binding. ok is false for other bindings.
func namedNumber(binding int) (v value.Value, ok bool) {
	switch binding {
	case notANumber:
		return value.OfNumber(math.NaN()), true
	case infinity:
		return value.OfNumber(math.Inf(1)), true
	}
	return value.Value{}, false
}

// sources checks the sources of FROM and assigns a binding to the name of each.
func (c *checker) sources() error {
	c.scope = &scope{names: map[string]int{}, outer: c.scope}
	from := c.q.From
	if from == nil {
		if c.q.Star {
			return c.fail(c.q.StarTok, syntax.CodeStar, "'SELECT *' is not valid if FROM clause is omitted.")
		}
		return nil
	}
	if c.q.Star && len(from.Joins) > 0 {
		return c.fail(c.q.StarTok, syntax.CodeStar, "'SELECT *' is only valid with a single input set.")
	}
	if *c.joins += len(from.Joins); *c.joins > maxJoins {
		return c.uncoded(fmt.Sprintf("The SQL query exceeded the maximum number of joins. The allowed limit is %d.", maxJoins))
	}
	for i, s := range append([]*syntax.Source{from}, from.Joins...) {
		if err := c.source(s, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// sourceName returns the name of a source: its alias, or the last name of its path. It is
// empty for a subquery without an alias, and for a path that ends in an index.
func sourceName(s *syntax.Source) (name string, tok syntax.Token) {
	if s.Alias != "" {
		return s.Alias, s.Tok
	}
	return syntax.NameOf(s.Collection)
}

func (c *checker) source(s *syntax.Source, first bool) error {
	if s.Subquery != nil {
		if err := c.subquery(s.Subquery, first && c.container); err != nil {
			return err
		}
		s.Binding = c.bind()
	} else if err := c.collection(s, first && c.container); err != nil {
		return err
	}
	name, tok := sourceName(s)
	if name == "" {
		return nil
	}
	if _, twice := c.scope.names[name]; twice {
		return c.fail(tok, syntax.CodeAlias, fmt.Sprintf("The input alias '%s' is specified more than once in the FROM clause.", name))
	}
	c.scope.names[name] = s.Binding
	return nil
}

// collection resolves the first name of a path in FROM. It is a name of this FROM or of
// an enclosing one. If container is true, any other name refers to the container.
func (c *checker) collection(s *syntax.Source, container bool) error {
	e := s.Collection
	for {
		m, ok := e.(*syntax.Member)
		if !ok {
			break
		}
		e = m.Base
	}
	root, ok := e.(*syntax.Ident)
	if !ok {
		return &syntax.UnsupportedError{What: "such a path in FROM"}
	}
	binding, known := c.scope.lookup(root.Name)
	if !known && !container {
		return c.unresolved(root)
	}
	if !known {
		*c.reads = true
	}
	root.Binding = binding // zero, the document, if the name is unknown
	if s.Binding = binding; s.In || root != s.Collection {
		s.Binding = c.bind()
	}
	return nil
}

// uncoded returns an error with the service's message, for which the service has no code.
func (c *checker) uncoded(message string) error {
	return c.fail(syntax.Token{End: len(c.text)}, "", message)
}

func (c *checker) unresolved(e *syntax.Ident) error {
	return c.fail(e.Tok, syntax.CodeIdentifier, fmt.Sprintf("Identifier '%s' could not be resolved.", e.Name))
}

// bind returns the next unused binding of the query.
func (c *checker) bind() int {
	*c.bound++
	return *c.bound
}

// subquery checks a nested SELECT. container is true if its FROM may name the container.
func (c *checker) subquery(q *syntax.Select, container bool) error {
	sub := &checker{text: c.text, q: q, scope: c.scope, bound: c.bound, joins: c.joins, reads: c.reads, container: container, inner: true}
	return sub.all()
}

// inSubquery refuses clauses that the service does not allow in subqueries. In a subquery
// that reads the container, it also refuses clauses that concern several documents.
func (c *checker) inSubquery() error {
	q := c.q
	switch {
	case len(q.OrderBy) > 0:
		return c.fail(q.OrderTok, syntax.CodeSubqueryOrder, "'ORDER BY' is not supported in subqueries.")
	case q.Top != nil:
		return c.fail(q.Top.Tok, syntax.CodeSubqueryTop, "'TOP' is not supported in subqueries.")
	case q.Limit != nil:
		return c.fail(q.Offset.Tok, syntax.CodeSubqueryLimit, "'OFFSET LIMIT' clause is not supported in subqueries.")
	case c.container && q.Distinct:
		return &syntax.UnsupportedError{What: "DISTINCT in a subquery over the container"}
	case c.container && isGrouped(q):
		return &syntax.UnsupportedError{What: "an aggregate or GROUP BY in a subquery over the container"}
	}
	return nil
}
