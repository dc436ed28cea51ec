package syntax

import (
	"errors"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// This file has a second parser of expressions, to check the generated one. It is written
// by hand, with one function for each level of precedence.
// The two share only the lexer. Both results are written with brackets around every
// operation, so a difference in precedence or order is visible.

// levels holds the binary operators by precedence, from the weakest to the strongest. All
// are left-associative.
var levels = [][]string{
	{"=", "!=", "<>", "<", ">", "<=", ">=", "<<", ">>", ">>>"}, {"||"}, {"+", "-", "&", "|", "^"}, {"*", "/", "%"},
}

var (
	errNoExpression = errors.New("no expression")
	errNotRead      = errors.New("a form that the second parser does not support")
)

// handParser is the second parser. words are the tokens of the text, and at is the next
// one.
type handParser struct {
	words []Token
	at    int
}

// wordsOf returns the tokens of a text, or an error of the lexer.
func wordsOf(text string) ([]Token, error) {
	var words []Token
	for at := 0; ; {
		t, err := scan(text, at)
		if err != nil {
			return nil, err
		}
		if t.kind == 0 {
			return words, nil
		}
		t.Text = text[t.start:t.End]
		words, at = append(words, t), t.End
	}
}

func (h *handParser) word() Token {
	if h.at >= len(h.words) {
		return Token{}
	}
	return h.words[h.at]
}

// is reports whether the next token is one of the given words, and returns it. If so, it
// moves to the token after it.
func (h *handParser) is(words ...string) (string, bool) {
	t := h.word()
	if t.kind == tokIdent || t.kind == tokString || t.kind == tokParam {
		return "", false
	}
	for _, w := range words {
		if strings.ToUpper(t.Text) == w {
			h.at++
			return w, true
		}
	}
	return "", false
}

func (h *handParser) need(word string) error {
	if _, ok := h.is(word); !ok {
		return errNoExpression
	}
	return nil
}

// expression parses an expression of the weakest operator, ? and :.
func (h *handParser) expression() (string, error) {
	test, err := h.coalesce()
	if err != nil {
		return "", err
	}
	if _, ok := h.is("?"); !ok {
		return test, nil
	}
	then, err := h.expression()
	if err == nil {
		err = h.need(":")
	}
	if err != nil {
		return "", err
	}
	otherwise, err := h.expression()
	return "(" + test + " ? " + then + " : " + otherwise + ")", err
}

// coalesce parses terms that are joined by ??, which is right-associative.
func (h *handParser) coalesce() (string, error) {
	x, err := h.chain("OR", func() (string, error) { return h.chain("AND", h.predicate) })
	if err != nil {
		return "", err
	}
	if _, ok := h.is("??"); !ok {
		return x, nil
	}
	y, err := h.coalesce()
	return "(" + x + " ?? " + y + ")", err
}

// chain parses terms that are joined by the operator op. If the first term is itself a
// chain of op, with or without brackets, its terms become terms of the whole chain.
func (h *handParser) chain(op string, term func() (string, error)) (string, error) {
	x, err := term()
	for err == nil {
		if _, ok := h.is(op); !ok {
			return x, nil
		}
		var y string
		if y, err = term(); strings.HasPrefix(x, "("+op+": ") {
			x = x[:len(x)-1] + "; " + y + ")"
		} else {
			x = "(" + op + ": " + x + "; " + y + ")"
		}
	}
	return "", err
}

func (h *handParser) predicate() (string, error) {
	x, err := h.operation(0)
	if err != nil {
		return "", err
	}
	_, not := h.is("NOT")
	prefix := "("
	if not {
		prefix = "(NOT! "
	}
	form, _ := h.is("IN", "BETWEEN", "LIKE")
	var y, z string
	switch form {
	case "IN":
		if err = h.need("("); err == nil {
			y, err = h.list(")", true)
		}
		return prefix + x + " IN " + y + ")", err
	case "BETWEEN":
		if y, err = h.operation(0); err == nil {
			err = h.need("AND")
		}
		if err == nil {
			z, err = h.operation(0)
		}
		return prefix + x + " BETWEEN " + y + " TO " + z + ")", err
	case "LIKE":
		y, err = h.operation(0)
		if _, ok := h.is("ESCAPE"); ok && err == nil {
			if h.word().kind != tokString {
				return "", errNoExpression
			}
			y += " ESCAPE " + strconv.Quote(h.word().str)
			h.at++
		}
		return prefix + x + " LIKE " + y + ")", err
	}
	if not {
		return "", errNoExpression
	}
	return x, nil
}

func (h *handParser) operation(level int) (string, error) {
	if level == len(levels) {
		return h.operand()
	}
	x, err := h.operation(level + 1)
	for err == nil {
		op, ok := h.is(levels[level]...)
		if !ok {
			return x, nil
		}
		if op == "<>" {
			op = "!="
		}
		var y string
		y, err = h.operation(level + 1)
		x = "(" + x + " " + op + " " + y + ")"
	}
	return "", err
}

func (h *handParser) operand() (string, error) {
	op, ok := h.is("-", "+", "~", "NOT")
	if !ok {
		return h.postfix()
	}
	x, err := h.operand()
	if number, ok := strings.CutPrefix(x, "#"); op == "-" && ok { // the sign is a part of a number, but not of its member
		if n, wrong := value.ParseNumber(number); wrong == nil {
			return numberText(value.Signs["-"](n)), err
		}
	}
	return "(" + op + " " + x + ")", err
}

func numberText(n value.Value) string { return "#" + string(n.AppendJSON(nil)) }

func (h *handParser) postfix() (string, error) {
	x, err := h.primary()
	for err == nil {
		if _, ok := h.is("."); ok {
			t := h.word()
			if !isProperty(t) {
				return "", errNoExpression
			}
			h.at++
			x += "." + strconv.Quote(t.Text)
			continue
		}
		if _, ok := h.is("["); !ok {
			return x, nil
		}
		var y string
		if y, err = h.expression(); err == nil {
			err = h.need("]")
		}
		if _, wrong := strconv.Unquote(y); wrong == nil && strings.HasPrefix(y, `"`) { // a plain name
			x += "." + y
		} else {
			x += "[" + y + "]"
		}
	}
	return "", err
}

// isProperty reports whether a token can be the name of a member without quotes.
func isProperty(t Token) bool {
	switch t.kind {
	case tokIdent, tokAll, tokFirst, tokLast, tokRank, tokLeft, tokRight, tokEscape:
		return true
	}
	return false
}

func (h *handParser) primary() (string, error) {
	t := h.word()
	h.at++
	switch t.kind {
	case tokString:
		return strconv.Quote(t.str), nil
	case tokNumber:
		return numberText(t.Number()), nil
	case tokParam:
		return t.Text, nil
	case tokTrue, tokFalse, tokNull, tokUndefined:
		return strings.ToUpper(t.Text), nil
	case '[':
		x, err := h.list("]", false)
		return "[" + x + "]", err
	case '{':
		return h.object()
	case '(':
		if h.word().kind == tokSelect {
			return "", errNotRead
		}
		x, err := h.expression()
		if err == nil {
			err = h.need(")")
		}
		return x, err
	case tokIdent, tokLeft, tokRight:
		if _, ok := h.is("("); ok {
			x, err := h.list(")", false)
			return t.Text + "(" + x + ")", err
		}
		if t.kind == tokIdent {
			return "$" + t.Text, nil
		}
	case tokAll, tokFirst, tokLast, tokExists, tokArray, tokUdf:
		return "", errNotRead
	}
	return "", errNoExpression
}

// list parses expressions, separated by commas, up to the closing bracket end. If some is
// true, there must be at least one.
func (h *handParser) list(end string, some bool) (string, error) {
	var items []string
	if _, ok := h.is(end); ok {
		if some {
			return "", errNoExpression
		}
		return "", nil
	}
	for {
		x, err := h.expression()
		if err != nil {
			return "", err
		}
		items = append(items, x)
		if _, ok := h.is(","); ok {
			continue
		}
		return strings.Join(items, ", "), h.need(end)
	}
}

func (h *handParser) object() (string, error) {
	var members []string
	if _, ok := h.is("}"); ok {
		return "{}", nil
	}
	for {
		t := h.word()
		h.at++
		name := t.Text
		if t.kind == tokString {
			name = t.str
		} else if !isProperty(t) {
			return "", errNotRead
		}
		if err := h.need(":"); err != nil {
			return "", err
		}
		x, err := h.expression()
		if err != nil {
			return "", err
		}
		members = append(members, strconv.Quote(name)+": "+x)
		if _, ok := h.is(","); ok {
			continue
		}
		return "{" + strings.Join(members, ", ") + "}", h.need("}")
	}
}

// bracketed writes the tree e in the format of the second parser. ok is false if the
// second parser does not support a form in the tree.
func bracketed(e Expr) (string, bool) {
	ok := true
	sub := func(e Expr) string {
		s, fine := bracketed(e)
		ok = ok && fine
		return s
	}
	list := func(between string, all []Expr) string {
		var s []string
		for _, e := range all {
			s = append(s, sub(e))
		}
		return strings.Join(s, between)
	}
	open := map[bool]string{false: "(", true: "(NOT! "}
	var s string
	switch e := e.(type) {
	case *Literal:
		switch e.Value.Kind {
		case value.String:
			s = strconv.Quote(string(e.Value.Bytes))
		case value.Number:
			s = numberText(e.Value)
		case value.Undefined:
			s = "UNDEFINED"
		default:
			s = strings.ToUpper(string(e.Value.AppendJSON(nil)))
		}
	case *Param:
		s = e.Name
	case *Ident:
		s = "$" + e.Name
	case *Member:
		if s = sub(e.Base) + "." + strconv.Quote(e.Name); e.Index != nil {
			s = sub(e.Base) + "[" + sub(e.Index) + "]"
		}
	case *Unary:
		s = "(" + e.Op + " " + sub(e.X) + ")"
	case *Binary:
		s = "(" + sub(e.L) + " " + e.Op + " " + sub(e.R) + ")"
	case *Logical:
		s = "(" + e.Op + ": " + list("; ", e.Terms) + ")"
	case *In:
		s = open[e.Not] + sub(e.X) + " IN " + list(", ", e.List) + ")"
	case *Between:
		s = open[e.Not] + sub(e.X) + " BETWEEN " + sub(e.Lo) + " TO " + sub(e.Hi) + ")"
	case *Like:
		s = open[e.Not] + sub(e.X) + " LIKE " + sub(e.Pattern)
		if e.HasEscape {
			s += " ESCAPE " + strconv.Quote(e.Escape)
		}
		s += ")"
	case *Conditional:
		s = "(" + sub(e.Test) + " ? " + sub(e.Then) + " : " + sub(e.Otherwise) + ")"
	case *Call:
		s, ok = e.Name+"("+list(", ", e.Args)+")", !e.Udf
	case *Array:
		s = "[" + list(", ", e.Elements) + "]"
	case *Object:
		var members []string
		for _, m := range e.Members {
			members = append(members, strconv.Quote(m.Name)+": "+sub(m.Expr))
		}
		s = "{" + strings.Join(members, ", ") + "}"
	default:
		ok = false
	}
	return s, ok
}
