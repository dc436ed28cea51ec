package query

import (
	"fmt"
	"math"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Names. FROM gives each of its sources a name; a subquery sees its own names and
// those around it, its own first. What a name stands for is a binding, a number
// that check writes into the tree: the evaluator knows no names.

// maxJoins is how many JOINs a query may have, subqueries included: the limit of the
// service's documentation, which can be raised there on request.
const maxJoins = 10

// scope is what the names of one FROM stand for.
type scope struct {
	names map[string]int
	outer *scope
}

// lookup returns the binding of a name.
func (s *scope) lookup(name string) (binding int, ok bool) {
	for ; s != nil; s = s.outer {
		if binding, ok = s.names[name]; ok {
			return binding, true
		}
	}
	return 0, false
}

// The numbers that have names, which FROM may give to something else. No document
// has them, and nothing that is calculated is one of them.
const (
	notANumber = -1
	infinity   = -2
)

var numberNames = map[string]int{"NaN": notANumber, "Infinity": infinity}

// namedNumber is the value of a name of a number.
func namedNumber(binding int) (v value.Value, ok bool) {
	switch binding {
	case notANumber:
		return value.OfNumber(math.NaN()), true
	case infinity:
		return value.OfNumber(math.Inf(1)), true
	}
	return value.Value{}, false
}

// sources looks at FROM, and gives its names their bindings.
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

// sourceName is the name of a source: the one that it was given, or the last of
// its path. A subquery, and an element that is named by its index, may have none.
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

// collection finds what a path of FROM begins with: a name of FROM, or of one
// around it. Where the container may be meant, any other name means it.
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
	root.Binding = binding // the document is 0
	if s.Binding = binding; s.In || root != s.Collection {
		s.Binding = c.bind()
	}
	return nil
}

// uncoded is an error for which the service has a sentence and no code.
func (c *checker) uncoded(message string) error {
	return c.fail(syntax.Token{End: len(c.text)}, "", message)
}

func (c *checker) unresolved(e *syntax.Ident) error {
	return c.fail(e.Tok, syntax.CodeIdentifier, fmt.Sprintf("Identifier '%s' could not be resolved.", e.Name))
}

// bind returns a new binding.
func (c *checker) bind() int {
	*c.bound++
	return *c.bound
}

// subquery looks at a SELECT in another.
func (c *checker) subquery(q *syntax.Select, container bool) error {
	sub := &checker{text: c.text, q: q, scope: c.scope, bound: c.bound, joins: c.joins, reads: c.reads, container: container, inner: true}
	return sub.all()
}

// inSubquery refuses what the service doesn't have in subqueries, and what would
// have to be decided over several documents in one that reads the container.
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
