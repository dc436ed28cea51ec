package query

import "fmt"

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
	last     token
	brackets int
	prefixes int // operators before an operand, since the last other token
	choices  int // question marks
	result   *selectQuery
	err      *SyntaxError
}

func parse(text string) (*selectQuery, error)          { return parseAs(text, tokQuery) }
func parseCondition(text string) (*selectQuery, error) { return parseAs(text, tokCondition) }

func parseAs(text string, first int) (*selectQuery, error) {
	if len(text) > maxText {
		return nil, errorAt(text, token{start: maxText, end: len(text)}, CodeTooComplex,
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
	p.at, p.last, v.tok = t.end, t, t
	return t.kind
}

// count watches what would let the generated parser's stack grow.
func (p *parser) count(t token) {
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
		p.err = syntaxNear(p.text, p.last.start, p.last.end)
	}
}

func (p *parser) tooDeep(t token) {
	if p.err == nil {
		p.err = errorAt(p.text, t, CodeTooComplex, "The query is nested too deeply.")
	}
}

// add checks the depth of a new node.
func (p *parser) add(e expr) expr {
	if e.depth() > maxDepth {
		p.tooDeep(p.last)
	}
	return e
}

func (p *parser) binary(op string, l, r expr) expr {
	return p.add(&binaryOp{deep: above(l, r), op: op, l: l, r: r})
}

// unary makes a minus before a number part of the number, as the service does.
func (p *parser) unary(op string, x expr) expr {
	if n, ok := x.(*literal); ok && op == "-" && n.v.kind == kindNumber {
		return &literal{deep: 1, v: numberOf(-n.v.num)}
	}
	return p.add(&unary{deep: above(x), op: op, x: x})
}

// chain adds a term to a chain of one operator, which is one node. Parentheses
// around the beginning of a chain change nothing.
func (p *parser) chain(op string, l, r expr) expr {
	if c, ok := l.(*logical); ok && c.op == op {
		c.terms = append(c.terms, r)
		c.deep = max(c.deep, above(r))
		return p.add(c)
	}
	return p.add(&logical{deep: above(l, r), op: op, terms: []expr{l, r}})
}

func (p *parser) in(x expr, list []expr, not bool) expr {
	return p.add(&inList{deep: max(above(x), above(list...)), x: x, list: list, not: not})
}

// index makes a["b"] what a.b is, except in spelling.
func (p *parser) index(base, index expr, open, end token) expr {
	tok := token{text: p.text[open.start:end.end], start: open.start, end: end.end}
	if l, ok := index.(*literal); ok && l.v.kind == kindString {
		return p.add(&member{deep: above(base), base: base, name: string(l.v.b), tok: tok})
	}
	return p.add(&member{deep: above(base, index), base: base, index: index, tok: tok})
}

func (p *parser) object(members []selected) expr {
	d := above()
	for _, m := range members {
		d = max(d, above(m.e))
	}
	return p.add(&object{deep: d, members: members})
}

func (p *parser) subquery(kind string, q *selectQuery) expr {
	return p.add(&subquery{deep: q.deep + 1, kind: kind, q: q})
}

// query sets the depth of a SELECT from its parts.
func (p *parser) query(q *selectQuery) *selectQuery {
	walkQuery(q, func(e expr) { q.deep = max(q.deep, above(e)) })
	if q.deep > maxDepth {
		p.tooDeep(p.last)
	}
	return q
}

// maxText is the longest text that [Parse] reads, in bytes: the service's limit
// of 256 KiB.
const maxText = 256 << 10
