package value

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync/atomic"
	"time"
)

// expression is the compiled pattern and modifiers of REGEXMATCH.
type expression struct {
	pattern, modifiers string
	re                 *regexp.Regexp // nil if the pattern is invalid
	size               int            // approximate number of steps for each byte of a text
	problem            string         // set if the service may support the pattern and this package does not
}

// regexMatch evaluates REGEXMATCH. It keeps the last compiled pattern, so a constant
// pattern is compiled only once for a query. Matching takes time in proportion to the
// length of the string.
func regexMatch(time.Time) func(b Budget, a []Value) Value {
	var last atomic.Pointer[expression]
	return func(b Budget, a []Value) Value {
		if !areStrings(a) {
			return Value{}
		}
		var modifiers []byte
		if len(a) == 3 {
			modifiers = a[2].Bytes
		}
		x := last.Load()
		if x == nil || x.pattern != string(a[1].Bytes) || x.modifiers != string(modifiers) {
			x = newExpression(string(a[1].Bytes), string(modifiers))
			last.Store(x)
		}
		switch {
		case x.problem != "":
			return problem(x.problem)
		case x.re == nil:
			return Value{}
		}
		return OfBool(x.match(b, a[0].Bytes))
	}
}

// longMatch is the number of steps above which a match checks whether the evaluation has
// ended. A step is one instruction of the pattern at one byte of the text, about a
// nanosecond. A pattern of a few kilobytes can have a million instructions.
const longMatch = 1 << 27

func (x *expression) match(b Budget, text []byte) bool {
	if x.size*len(text) < longMatch {
		return x.re.Match(text)
	}
	return x.re.MatchReader(&watchedText{text: bytes.NewReader(text), budget: b, size: x.size})
}

// watchedText reads a text for a regular expression. It ends early if the evaluation has
// ended.
type watchedText struct {
	text   *bytes.Reader
	budget Budget
	size   int
}

// ReadRune returns the next character of the text.
func (w *watchedText) ReadRune() (r rune, size int, err error) {
	if !w.budget.Spend(w.size) {
		return 0, 0, io.EOF
	}
	return w.text.ReadRune()
}

// sizeOf returns the number of instructions of a pattern, which is the number of steps
// for each byte of a text.
func sizeOf(pattern string) int {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 1
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 1
	}
	return len(prog.Inst)
}

// smallPattern is the length in bytes up to which the number of a pattern's instructions
// is estimated by its length. This is only done for patterns without repetition counts.
const smallPattern = 64

// maxPattern is the longest pattern that is compiled, in bytes. A compiled pattern takes
// some hundred times its length.
const maxPattern = 16 << 10

// notRE2 describes the errors for features that PCRE, the service's engine, may support.
// What follows each text is the part of the pattern that has the error.
var notRE2 = map[syntax.ErrorCode]string{
	syntax.ErrInvalidPerlOp:       "there is no lookahead, nor another group that begins with ",
	syntax.ErrInvalidNamedCapture: "there is no lookbehind, and no name of a group as in ",
	syntax.ErrInvalidEscape:       "there is no backreference or escape such as ",
	syntax.ErrInvalidRepeatOp:     "a repetition cannot be repeated or possessive as in ",
	syntax.ErrInvalidRepeatSize:   "a repetition counts up to 1000, and not as in ",
	syntax.ErrNestingDepth:        "groups are nested at most 1000 deep, and not as in ",
	syntax.ErrLarge:               "its repetitions multiply to more than the engine holds in ",
}

// maxQuoted is the length in bytes of the longest part of a pattern that an error quotes.
const maxQuoted = 40

// explain says what is wrong with a pattern: one of the texts of notRE2, and the part.
func explain(what, part string) string {
	if len(part) > maxQuoted {
		part = strings.ToValidUTF8(part[:maxQuoted], "") + "..."
	}
	return "the regular expression is invalid in RE2, which this server uses, although PCRE may support it: " + what + part
}

func newExpression(pattern, modifiers string) *expression {
	x := &expression{pattern: pattern, modifiers: modifiers}
	if len(pattern) > maxPattern {
		x.problem = "the regular expression is longer than 16384 bytes"
		return x
	}
	flags := ""
	for _, m := range modifiers {
		switch m {
		case 'i', 'm', 's':
			flags += string(m)
		case 'x':
			pattern = withoutBlanks(pattern)
		default:
			return x
		}
	}
	if flags != "" {
		pattern = "(?" + flags + ")" + pattern
	}
	re, err := regexp.Compile(pattern)
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		if what, unsupported := notRE2[wrong.Code]; unsupported {
			x.problem = explain(what, wrong.Expr)
		}
	}
	x.re = re
	if x.size = len(pattern); x.size > smallPattern || strings.IndexByte(pattern, '{') >= 0 {
		x.size = sizeOf(pattern)
	}
	return x
}

// withoutBlanks returns the pattern without its white space and comments, for the
// modifier x. It keeps those that are escaped or in brackets.
func withoutBlanks(pattern string) string {
	var b strings.Builder
	inBrackets := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 < len(pattern):
			b.WriteByte(c)
			i++
			c = pattern[i]
			if strings.IndexByte(" \t\r\n\v\f#", c) >= 0 {
				// The backslash before white space is removed, because RE2 does not
				// support this escape and does not need it.
				s := b.String()
				b.Reset()
				b.WriteString(s[:len(s)-1])
			}
		case inBrackets:
			inBrackets = c != ']'
		case c == '[':
			inBrackets = true
		case strings.IndexByte(" \t\r\n\v\f", c) >= 0:
			continue
		case c == '#':
			for i+1 < len(pattern) && pattern[i+1] != '\n' {
				i++
			}
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
