package syntax

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// Token is a word, number, string or sign in the text of a query.
type Token struct {
	kind       int // of the grammar; 0 at the end
	Text       string
	start, End int
	str        string // the content of a string literal
}

// keywords are reserved. As a name they must be quoted: c["order"]. As in the service's
// grammar, ALL, FIRST and LAST may be names. After a dot, so may other words that are
// unambiguous there.
var keywords = map[string]int{
	"ALL": tokAll, "AND": tokAnd, "ARRAY": tokArray, "AS": tokAs, "ASC": tokAsc, "BETWEEN": tokBetween, "BY": tokBy, "DESC": tokDesc,
	"DISTINCT": tokDistinct, "ESCAPE": tokEscape, "EXISTS": tokExists, "FALSE": tokFalse, "FIRST": tokFirst, "FROM": tokFrom,
	"GROUP": tokGroup, "IN": tokIn, "JOIN": tokJoin, "LAST": tokLast, "LEFT": tokLeft, "LIKE": tokLike, "LIMIT": tokLimit, "NOT": tokNot,
	"NULL": tokNull, "OFFSET": tokOffset, "OR": tokOr, "ORDER": tokOrder, "RANK": tokRank, "RIGHT": tokRight, "SELECT": tokSelect,
	"TOP": tokTop, "TRUE": tokTrue, "UDF": tokUdf, "UNDEFINED": tokUndefined, "VALUE": tokValue, "WHERE": tokWhere,
}

// longestKeyword is the length of the longest keyword in bytes. A longer word is not
// looked up in keywords.
const longestKeyword = len("UNDEFINED")

var pairs = map[string]int{
	"!=": tokNe, "<>": tokNe, "<=": tokLe, ">=": tokGe, "||": tokConcat, "??": tokCoalesce, "<<": tokShiftLeft, ">>": tokShiftRight,
}

// scan returns the first token at or after the byte offset at.
func scan(text string, at int) (Token, *Error) {
	at = skipBlanks(text, at)
	if at == len(text) {
		return Token{start: at, End: at}, nil
	}
	c := text[at]
	switch {
	case isLetter(c):
		return scanWord(text, at), nil
	case c == '@':
		end := at + 1
		for end < len(text) && (isLetter(text[end]) || isDigit(text[end])) {
			end++
		}
		if end > at+1 {
			return Token{kind: tokParam, Text: text[at:end], start: at, End: end}, nil
		}
	case isDigit(c), c == '.' && at+1 < len(text) && isDigit(text[at+1]):
		return scanNumber(text, at)
	case c == '\'' || c == '"':
		return scanString(text, at)
	case strings.HasPrefix(text[at:], ">>>"):
		return Token{kind: tokShiftZero, Text: text[at : at+3], start: at, End: at + 3}, nil
	case at+1 < len(text) && pairs[text[at:at+2]] != 0:
		return Token{kind: pairs[text[at:at+2]], Text: text[at : at+2], start: at, End: at + 2}, nil
	case strings.IndexByte("*,.()[]{}:?+-/%~=<>&|^", c) >= 0:
		return Token{kind: int(c), Text: text[at : at+1], start: at, End: at + 1}, nil
	}
	_, size := utf8.DecodeRuneInString(text[at:])
	return Token{}, ErrorAt(text, Token{Text: text[at : at+size], start: at, End: at + size}, CodeToken, "Syntax error, invalid token '"+text[at:at+size]+"'.")
}

// skipBlanks skips white space and comments, which begin with -- and end with the line.
func skipBlanks(text string, at int) int {
	for at < len(text) {
		switch c := text[at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			at++
		case c == '-' && strings.HasPrefix(text[at:], "--"):
			n := strings.IndexByte(text[at:], '\n')
			if n < 0 {
				return len(text)
			}
			at += n
		default:
			return at
		}
	}
	return at
}

func scanWord(text string, at int) Token {
	end := at
	for end < len(text) && (isLetter(text[end]) || isDigit(text[end])) {
		end++
	}
	t := Token{kind: tokIdent, Text: text[at:end], start: at, End: end}
	if end-at <= longestKeyword {
		if k := keywords[strings.ToUpper(t.Text)]; k != 0 {
			t.kind = k
		}
	}
	return t
}

// Number returns the value of a number. As in the service, hexadecimal digits are the bits
// of an integer, so 0xFFFFFFFFFFFFFFFF is -1.
func (t Token) Number() value.Value {
	if len(t.Text) > 2 && t.Text[1]|0x20 == 'x' {
		bits, _ := strconv.ParseUint(t.Text[2:], 16, 64)
		return value.OfInt(int64(bits)) //nolint:gosec // only the bits matter
	}
	n, _ := value.ParseNumber(t.Text)
	return n
}

// scanNumber reads digits, a fraction and an exponent, or hexadecimal digits after 0x. A
// sign is an operator and not a part of the number.
func scanNumber(text string, at int) (Token, *Error) {
	end := at
	if strings.HasPrefix(text[at:], "0x") || strings.HasPrefix(text[at:], "0X") {
		end += 2
		for end < len(text) && (isLetter(text[end]) || isDigit(text[end])) {
			end++
		}
		_, err := strconv.ParseUint(text[at+2:end], 16, 64)
		if err != nil {
			return Token{}, syntaxNear(text, at, end)
		}
		return Token{kind: tokNumber, Text: text[at:end], start: at, End: end}, nil
	}
	digits := func() {
		for end < len(text) && isDigit(text[end]) {
			end++
		}
	}
	digits()
	if end < len(text) && text[end] == '.' {
		end++
		digits()
	}
	if end < len(text) && (text[end] == 'e' || text[end] == 'E') {
		mark := end
		end++
		if end < len(text) && (text[end] == '+' || text[end] == '-') {
			end++
		}
		from := end
		digits()
		if end == from {
			end = mark
		}
	}
	_, err := value.ParseNumber(text[at:end])
	if err != nil || end < len(text) && isLetter(text[end]) {
		return Token{}, syntaxNear(text, at, end)
	}
	return Token{kind: tokNumber, Text: text[at:end], start: at, End: end}, nil
}

// scanString reads a literal in single or double quotes. An invalid escape is kept as its
// two characters, because Java's SDK writes the last value of a page into the next query
// without escaping it.
func scanString(text string, at int) (Token, *Error) {
	quote := text[at]
	var b strings.Builder
	from := at + 1
	for i := from; i < len(text); {
		switch text[i] {
		case quote:
			b.WriteString(text[from:i])
			return Token{
				kind: tokString, Text: text[at : i+1], start: at, End: i + 1,
				str: strings.ToValidUTF8(b.String(), "\uFFFD"),
			}, nil
		case '\\':
			b.WriteString(text[from:i])
			n := unescape(&b, text[i:])
			if n == 0 {
				return Token{}, syntaxNear(text, at, len(text))
			}
			i += n
			from = i
		default:
			i++
		}
	}
	return Token{}, syntaxNear(text, at, len(text))
}

// unescape writes the character for the escape at the beginning of s and returns the
// length of the escape. It returns 0 if s ends inside the escape.
func unescape(b *strings.Builder, s string) int {
	if len(s) < 2 {
		return 0
	}
	switch c := s[1]; c {
	case '\\', '"', '\'', '/':
		b.WriteByte(c)
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'n':
		b.WriteByte('\n')
	case 'r':
		b.WriteByte('\r')
	case 't':
		b.WriteByte('\t')
	case 'u':
		r, ok := hex4(s[2:])
		if !ok {
			b.WriteString(`\u`)
			return 2
		}
		if r >= 0xD800 && r < 0xDC00 && strings.HasPrefix(s[6:], `\u`) {
			if low, ok := hex4(s[8:]); ok && low >= 0xDC00 && low < 0xE000 {
				b.WriteRune((r-0xD800)<<10 + (low - 0xDC00) + 0x10000)
				return 12
			}
		}
		b.WriteRune(r) // half a surrogate pair becomes U+FFFD
		return 6
	default:
		b.WriteByte('\\')
		return 1
	}
	return 2
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:4], 16, 16)
	return rune(n), err == nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// syntaxNear returns a syntax error for the part of the text from start to end, with the
// service's message.
func syntaxNear(text string, start, end int) *Error {
	// The message shows only the beginning of that part, because a string without a
	// closing quote may be long.
	const shown = 64
	near := text[start:end]
	if len(near) > shown {
		near = strings.ToValidUTF8(near[:shown], "")
	}
	if near == "" {
		// The service gives the start of the text as the location of its end.
		e := ErrorAt(text, Token{start: start, End: end}, CodeEnd, "Syntax error, unexpected end-of-file.")
		e.Offset, e.End = 0, 0
		return e
	}
	return ErrorAt(text, Token{Text: near, start: start, End: end}, CodeSyntax, "Syntax error, incorrect syntax near '"+near+"'.")
}

// ErrorAt returns an error at the position of the token t.
func ErrorAt(text string, t Token, code, message string) *Error {
	before := text[:min(t.start, len(text))]
	return &Error{
		Code: code, Message: message, Near: t.Text, Offset: t.start, End: t.End,
		Line:   strings.Count(before, "\n") + 1,
		Column: len(before) - strings.LastIndexByte(before, '\n'),
	}
}
