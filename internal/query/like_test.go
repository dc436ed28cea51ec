package query

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func TestLike(t *testing.T) {
	for _, c := range []struct {
		text, pattern string
		escape        rune
		want          bool
	}{
		{"", "", noEscape, true},
		{"a", "", noEscape, false},
		{"", "%", noEscape, true},
		{"", "_", noEscape, false},
		{"", "%%", noEscape, true},
		{"abc", "abc", noEscape, true},
		{"abc", "ABC", noEscape, false},
		{"abc", "a%", noEscape, true},
		{"abc", "%c", noEscape, true},
		{"abc", "%b%", noEscape, true},
		{"abc", "a%b", noEscape, false},
		{"abab", "a%b", noEscape, true},
		{"ab", "ab%ab", noEscape, false},
		{"abcabc", "abc%abc", noEscape, true},
		{"aab", "%ab", noEscape, true},
		{"abab", "%ab%ab%", noEscape, true},
		{"aba", "%ab%ab%", noEscape, false},
		{"abc", "_b_", noEscape, true},
		{"aé😀", "a__", noEscape, true},
		{"aé😀", "a_", noEscape, false},
		{"😀", "_", noEscape, true},
		{"xéy", "%é%", noEscape, true},
		{"b", "[abc]", noEscape, true},
		{"d", "[abc]", noEscape, false},
		{"d", "[^abc]", noEscape, true},
		{"b", "[a-c]", noEscape, true},
		{"B", "[a-c]", noEscape, false},
		{"-", "[a-]", noEscape, true},
		{"-", "[-a]", noEscape, true},
		{"b", "[a-]", noEscape, false},
		{"é", "[à-ï]", noEscape, true},
		{"%", "[%]", noEscape, true},
		{"x", "[%]", noEscape, false},
		{"_", "[_]", noEscape, true},
		{"[", "[[]", noEscape, true},
		{"]", "]", noEscape, true},
		{"^", "[a^]", noEscape, true},
		{"[ab", "[ab", noEscape, true},
		{"x", "[]", noEscape, false},
		{"x", "[^]", noEscape, true},
		{"20%", "20!%", '!', true},
		{"20x", "20!%", '!', false},
		{"a!", "a!!", '!', true},
		{"a!", "a!", '!', true},
		{"ab", "a!b", '!', true},
		{"a[b", "a![b", '!', true},
		{"]", "[!]]", '!', true},
		{"a.c", "a.c", noEscape, true},
		{"abc", "a.c", noEscape, false},
		{"a\nb", "a%b", noEscape, true},
		{"a\nb", "a_b", noEscape, true},
		{"SOaPSb", "%SO[^x-z]PS_%", noEscape, true},
	} {
		if got := parseLike([]byte(c.pattern), c.escape).match(unlimited{}, []byte(c.text)); got != c.want {
			t.Errorf("%q LIKE %q (escape %q): %v", c.text, c.pattern, c.escape, got)
		}
	}
}

// The matcher finds what a regular expression of the same meaning finds.
func TestRandomLikesAgreeWithRegularExpressions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a repeatable test
	parts := []struct{ like, regexp string }{
		{"%", "[^$]*"}, {"%", "[^$]*"}, {"_", "[^$]"}, {"a", "a"}, {"b", "b"}, {"é", "é"}, {"[ab]", "[ab]"}, {"[^ab]", "[^ab]"}, {"[a-z]", "[a-z]"}, {"!%", "%"}, {"!_", "_"}, {"[!]b]", `[\]b]`},
	}
	letters := []string{"a", "b", "é", "%", "_", "]", "z"}
	yes := 0
	for range 20000 {
		var like, expression, text strings.Builder
		for range r.IntN(7) {
			p := parts[r.IntN(len(parts))]
			like.WriteString(p.like)
			expression.WriteString(p.regexp)
		}
		for range r.IntN(7) {
			text.WriteString(letters[r.IntN(len(letters))])
		}
		want := regexp.MustCompile(`^(?:` + expression.String() + `)$`).MatchString(text.String())
		if got := parseLike([]byte(like.String()), '!').match(unlimited{}, []byte(text.String())); got != want {
			t.Fatalf("%q LIKE %q: %v, want %v", text.String(), like.String(), got, want)
		}
		if want {
			yes++
		}
	}
	if yes < 1000 {
		t.Errorf("only %d matched", yes)
	}
}

// A pattern of many % costs no more than the text's length times its own: one that
// tried every way would not end.
func TestLikeEndsOnPatternsOfManyWildcards(t *testing.T) {
	if parseLike([]byte(strings.Repeat("%a_", 50)+"%b"), noEscape).match(unlimited{}, []byte(strings.Repeat("a", 20000))) {
		t.Error("it matched")
	}
}

// FuzzLike: any pattern and text has an answer, and a text is like itself with
// every character escaped.
func FuzzLike(f *testing.F) {
	f.Add("%a_[b-d]", "xaybc")
	f.Add("[^", "[^")
	f.Add("!", "!")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		parseLike([]byte(pattern), noEscape).match(unlimited{}, []byte(text))
		parseLike([]byte(pattern), '!').match(unlimited{}, []byte(text))
		text = strings.ToValidUTF8(text, "\uFFFD")
		var escaped strings.Builder
		for _, r := range text {
			fmt.Fprintf(&escaped, "!%c", r)
		}
		if !parseLike([]byte(escaped.String()), '!').match(unlimited{}, []byte(text)) {
			t.Errorf("%q isn't like itself", text)
		}
	})
}

type unlimited struct{}

func (unlimited) spend(int) bool { return true }
