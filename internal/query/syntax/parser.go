package syntax

import (
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

//go:generate go run golang.org/x/tools/cmd/goyacc@v0.52.0 -l -v /dev/null -o grammar.go grammar.y
//go:generate go test -run ^TestParserIsGeneratedFromTheGrammar$ -grammar.written

// Limits of nesting, so that callers may walk a tree recursively. They are far above the
// queries of people and SDKs. Long queries of SDKs are lists and chains of AND and OR,
// which do not increase the depth.
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

// Lex returns the next token. After an error it returns the end of the text.
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

// count checks the limits of the generated parser's stack.
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

// Error is called by the generated parser at the first unexpected token.
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

// literal returns the value of a constant token.
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

// unary includes a minus sign in the number after it, as the service does.
func (p *parser) unary(op string, x Expr) Expr {
	if n, ok := x.(*Literal); ok && op == "-" && n.Value.Kind == value.Number {
		return &Literal{deep: 1, Value: value.OfNumber(-n.Value.Number)}
	}
	return p.add(&Unary{deep: above(x), Op: op, X: x})
}

// chain adds a term to a chain of one operator, which is a single node. Parentheses
// around the beginning of a chain have no effect.
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

// index returns the node of base[index]. For a["b"] it is the same as for a.b, except in
// spelling.
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

// maxText is the maximum length of a text in bytes. It is the service's limit of 256 KiB.
const maxText = 256 << 10
