package value

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// expression is what REGEXMATCH made of a pattern and its modifiers.
type expression struct {
	pattern, modifiers string
	re                 *regexp.Regexp // nil when it is none
	size               int            // about how many steps it takes for each byte of a text
	problem            string         // why the service's may be understood and this one isn't
}

// regexMatch compiles a pattern when it changes: once per query when it is constant. Matching
// takes time in proportion to the string.
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

// longMatch is from how many steps on a match is one that somebody may want to end. A step is one instruction of the
// compiled pattern at one byte of the text, a nanosecond or some: a pattern of a few kilobytes can have a million.
const longMatch = 1 << 27

func (x *expression) match(b Budget, text []byte) bool {
	if x.size*len(text) < longMatch {
		return x.re.Match(text)
	}
	return x.re.MatchReader(&watchedText{text: bytes.NewReader(text), budget: b, size: x.size})
}

// watchedText is a text that ends when the evaluation has no purpose any more.
type watchedText struct {
	text   *bytes.Reader
	budget Budget
	size   int
}

// ReadRune returns the next character.
func (w *watchedText) ReadRune() (r rune, size int, err error) {
	if !w.budget.Spend(w.size) {
		return 0, 0, io.EOF
	}
	return w.text.ReadRune()
}

// sizeOf is how many instructions a pattern has when it is compiled.
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

// smallPattern is how long a pattern may be, in bytes, whose own length is taken for that of what is made of it, if it
// repeats nothing many times.
const smallPattern = 64

// maxPattern is the longest pattern that is compiled, in bytes: a compiled one
// takes some hundred times as much.
const maxPattern = 16 << 10

// notRE2 are the errors of what PCRE, the service's engine, may understand:
// looking around, backreferences, possessive and long repetitions.
var notRE2 = []syntax.ErrorCode{
	syntax.ErrInvalidPerlOp, syntax.ErrInvalidNamedCapture, syntax.ErrInvalidEscape, syntax.ErrInvalidRepeatOp, syntax.ErrInvalidRepeatSize,
	syntax.ErrNestingDepth, syntax.ErrLarge,
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
	if errors.As(err, &wrong) && slices.Contains(notRE2, wrong.Code) {
		x.problem = "the regular expression is understood by PCRE at most, and this server has RE2: " + wrong.Error()
	}
	x.re = re
	if x.size = len(pattern); x.size > smallPattern || strings.IndexByte(pattern, '{') >= 0 {
		x.size = sizeOf(pattern)
	}
	return x
}

// withoutBlanks takes the white space and the comments out of a pattern, but for
// those that are escaped or in brackets.
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
				// RE2 doesn't know these escapes, and needs none.
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
