package syntax

import (
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

//go:generate go run golang.org/x/tools/cmd/goyacc@v0.52.0 -l -v /dev/null -o grammar.go grammar.y
//go:generate go test -run ^TestParserIsGeneratedFromTheGrammar$ -grammar.written

// These are limits of nesting. They let other code walk a tree recursively. They are far
// above the queries that people and SDKs write. SDKs write long lists and chains of AND
// and OR, but these do not increase the depth.
const (
	// maxDepth limits the depth of the tree: a + b + c is one deeper than a + b.
	maxDepth = 250
	// maxBrackets limits open brackets of any kind. The service's spelling of a tree has
	// at most two for each level of its depth.
	maxBrackets = 2*maxDepth + 2
	// maxPending limits consecutive prefix operators, and the conditionals of a text.
	// Only these increase the generated parser's stack without a bracket.
	maxPending = maxDepth
)

// parser passes tokens to the generated parser and builds the tree. The generated parser
// is table-driven and has its own stack. It takes one step per token for every text.
type parser struct {
	text     string
	first    int // the token that selects the start rule of the grammar
	at       int
	last     Token
	brackets int
	prefixes int // prefix operators since the last other token
	choices  int // number of question marks
	result   *Select
	err      *Error
}

// Parse parses a query. It returns a *[Error] or an *[UnsupportedError].
func Parse(text string) (*Select, error) { return parseAs(text, tokQuery) }

// ParseCondition parses the condition of a patch, which consists of FROM and WHERE.
func ParseCondition(text string) (*Select, error) { return parseAs(text, tokCondition) }

func parseAs(text string, first int) (*Select, error) {
	if len(text) > maxText {
		return nil, ErrorAt(text, Token{start: maxText, End: len(text)}, CodeTooComplex,
			fmt.Sprintf("The query is longer than %d bytes.", maxText))
	}
	p := &parser{text: text, first: first}
	yyNewParser().Parse(p)
	if p.err != nil {
		return nil, refused(text, p.err)
	}
	return p.result, nil
}

// Lex returns the next token to the generated parser. After an error it returns the end
// of the text.
func (p *parser) Lex(v *yySymType) int {
	if p.err != nil {
		return 0
	}
	if first := p.first; first != 0 {
		p.first = 0
		return first
	}
	t, err := scan(p.text, p.at)
	if err != nil {
		p.err = err
		return 0
	}
	p.count(t)
	if p.err != nil {
		return 0
	}
	p.at, p.last, v.tok = t.End, t, t
	return t.kind
}

// count counts open brackets, prefix operators and conditionals, which increase the stack
// of the generated parser. It records an error at the limit.
func (p *parser) count(t Token) {
	switch t.kind {
	case '-', '+', '~', tokNot:
		p.prefixes++
	default:
		p.prefixes = 0
	}
	switch t.kind {
	case '(', '[', '{':
		p.brackets++
	case ')', ']', '}':
		p.brackets--
	case '?':
		p.choices++
	}
	if p.brackets > maxBrackets || p.prefixes > maxPending || p.choices > maxPending {
		p.tooDeep(t)
	}
}

// Error records a syntax error. The generated parser calls it at the first unexpected
// token.
func (p *parser) Error(string) {
	if p.err == nil {
		p.err = syntaxNear(p.text, p.last.start, p.last.End)
	}
}

func (p *parser) tooDeep(t Token) {
	if p.err == nil {
		p.err = ErrorAt(p.text, t, CodeTooComplex, "The query is nested too deeply.")
	}
}

// add returns the new node e. If it is too deep, it records an error.
func (p *parser) add(e Expr) Expr {
	if e.Depth() > maxDepth {
		p.tooDeep(p.last)
	}
	return e
}

func (p *parser) binary(op string, l, r Expr) Expr {
	return p.add(&Binary{deep: above(l, r), Op: op, L: l, R: r})
}

// coalesce returns the node of expressions with ?? between them. As in the service,
// a ?? b ?? c is a ?? (b ?? c). The grammar passes a list because a rule that is recursive
// on the right would put the whole chain on the parser's stack.
func (p *parser) coalesce(list []Expr) Expr {
	x := list[len(list)-1]
	for i := len(list) - 2; i >= 0 && p.err == nil; i-- {
		x = p.binary("??", list[i], x)
	}
	return x
}

func (p *parser) conditional(test, then, otherwise Expr) Expr {
	return p.add(&Conditional{deep: above(test, then, otherwise), Test: test, Then: then, Otherwise: otherwise})
}

// literal returns the value of a token for a constant, such as a number or true.
func (t Token) literal() value.Value {
	switch t.kind {
	case tokString:
		return value.OfString(t.str)
	case tokNumber:
		return t.Number()
	case tokTrue, tokFalse:
		return value.OfBool(t.kind == tokTrue)
	case tokNull:
		return value.Value{Kind: value.Null}
	}
	return value.Value{}
}

func orderBy(e Expr, direction Token) Order {
	return Order{Expr: e, order: strings.ToUpper(direction.Text), Desc: direction.kind == tokDesc}
}

// unary returns the node of a prefix operator. As in the service, a minus sign before a
// number becomes a part of the number.
func (p *parser) unary(op string, x Expr) Expr {
	if n, ok := x.(*Literal); ok && op == "-" && n.Value.Kind == value.Number {
		return &Literal{deep: 1, Value: value.Signs["-"](n.Value)}
	}
	return p.add(&Unary{deep: above(x), Op: op, X: x})
}

// chain returns the node of l op r, where op is AND or OR. If l is a chain of the same
// operator, r is added to it, so that a long chain is one node.
func (p *parser) chain(op string, l, r Expr) Expr {
	if c, ok := l.(*Logical); ok && c.Op == op {
		c.Terms = append(c.Terms, r)
		c.deep = max(c.deep, above(r))
		return p.add(c)
	}
	return p.add(&Logical{deep: above(l, r), Op: op, Terms: []Expr{l, r}})
}

func (p *parser) in(x Expr, list []Expr, not bool) Expr {
	return p.add(&In{deep: max(above(x), above(list...)), X: x, List: list, Not: not})
}

// index returns the node of base[index]. open and end are the brackets. For a["b"] it
// returns the same node as for a.b, with another spelling.
func (p *parser) index(base, index Expr, open, end Token) Expr {
	tok := Token{Text: p.text[open.start:end.End], start: open.start, End: end.End}
	if l, ok := index.(*Literal); ok && l.Value.Kind == value.String {
		return p.add(&Member{deep: above(base), Base: base, Name: string(l.Value.Bytes), Tok: tok})
	}
	return p.add(&Member{deep: above(base, index), Base: base, Index: index, Tok: tok})
}

func (p *parser) object(members []Item) Expr {
	d := above()
	for _, m := range members {
		d = max(d, above(m.Expr))
	}
	return p.add(&Object{deep: d, Members: members})
}

func (p *parser) subquery(kind string, q *Select) Expr {
	return p.add(&Subquery{deep: q.deep + 1, Kind: kind, Query: q})
}

// query sets the depth of the SELECT q from the depths of its expressions, and returns q.
func (p *parser) query(q *Select) *Select {
	q.deep = above(q.Exprs()...)
	if q.deep > maxDepth {
		p.tooDeep(p.last)
	}
	return q
}

// maxText limits the length of a query's text in bytes. The account of the service names the same
// limit, as maxSqlQueryInputLength.
const maxText = 512 << 10
