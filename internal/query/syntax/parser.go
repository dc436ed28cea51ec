package syntax

import (
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

//go:generate go run golang.org/x/tools/cmd/goyacc@v0.52.0 -l -v /dev/null -o grammar.go grammar.y
//go:generate go test -run ^TestParserIsGeneratedFromTheGrammar$ -grammar.written

// Nesting is bounded, so that whoever walks a tree may recurse. Both bounds are
// far beyond what people and SDKs write: their long queries are lists and chains
// of AND and OR, which cost no depth.
const (
	// maxDepth bounds the tree: a + b + c is one deeper than a + b.
	maxDepth = 250
	// maxBrackets bounds open brackets of any kind. The service's spelling of a tree
	// has at most two for each step of its depth.
	maxBrackets = 2*maxDepth + 2
	// maxPending bounds operators before an operand in a row, and the conditionals
	// of a text: of these alone the generated parser's stack grows without a bracket.
	maxPending = maxDepth
)

// parser feeds the generated parser and builds the tree for it. The generated
// one is a table with a stack of its own: it takes one step a token, whatever
// the text.
type parser struct {
	text     string
	first    int // the token that picks the entry of the grammar
	at       int
	last     Token
	brackets int
	prefixes int // operators before an operand, since the last other token
	choices  int // question marks
	result   *Select
	err      *Error
}

// Parse reads a query. The error is a *[Error] or an *[UnsupportedError].
func Parse(text string) (*Select, error) { return parseAs(text, tokQuery) }

// ParseCondition reads the condition of a patch: FROM and WHERE only.
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

// Lex returns the next token. After an error the text is at its end.
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

// count watches what would let the generated parser's stack grow.
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

// Error is called by the generated parser at the first token that can't follow.
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

// add checks the depth of a new node.
func (p *parser) add(e Expr) Expr {
	if e.Depth() > maxDepth {
		p.tooDeep(p.last)
	}
	return e
}

func (p *parser) binary(op string, l, r Expr) Expr {
	return p.add(&Binary{deep: above(l, r), Op: op, L: l, R: r})
}

// literal returns the value of a token that is a constant.
func (t Token) literal() value.Value {
	switch t.kind {
	case tokString:
		return value.OfString(t.str)
	case tokNumber:
		return value.OfNumber(t.Num)
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

// unary makes a minus before a number part of the number, as the service does.
func (p *parser) unary(op string, x Expr) Expr {
	if n, ok := x.(*Literal); ok && op == "-" && n.Value.Kind == value.Number {
		return &Literal{deep: 1, Value: value.OfNumber(-n.Value.Number)}
	}
	return p.add(&Unary{deep: above(x), Op: op, X: x})
}

// chain adds a term to a chain of one operator, which is one node. Parentheses
// around the beginning of a chain change nothing.
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

// index makes a["b"] what a.b is, except in spelling.
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

// query sets the depth of a SELECT from its parts.
func (p *parser) query(q *Select) *Select {
	q.deep = above(q.Exprs()...)
	if q.deep > maxDepth {
		p.tooDeep(p.last)
	}
	return q
}

// maxText is the longest text that [Parse] reads, in bytes: the service's limit
// of 256 KiB.
const maxText = 256 << 10
