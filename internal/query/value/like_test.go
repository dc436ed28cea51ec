package value

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
		{"", "", NoEscape, true},
		{"a", "", NoEscape, false},
		{"", "%", NoEscape, true},
		{"", "_", NoEscape, false},
		{"", "%%", NoEscape, true},
		{"abc", "abc", NoEscape, true},
		{"abc", "ABC", NoEscape, false},
		{"abc", "a%", NoEscape, true},
		{"abc", "%c", NoEscape, true},
		{"abc", "%b%", NoEscape, true},
		{"abc", "a%b", NoEscape, false},
		{"abab", "a%b", NoEscape, true},
		{"ab", "ab%ab", NoEscape, false},
		{"abcabc", "abc%abc", NoEscape, true},
		{"aab", "%ab", NoEscape, true},
		{"abab", "%ab%ab%", NoEscape, true},
		{"aba", "%ab%ab%", NoEscape, false},
		{"abc", "_b_", NoEscape, true},
		{"aé😀", "a__", NoEscape, true},
		{"aé😀", "a_", NoEscape, false},
		{"😀", "_", NoEscape, true},
		{"xéy", "%é%", NoEscape, true},
		{"b", "[abc]", NoEscape, true},
		{"d", "[abc]", NoEscape, false},
		{"d", "[^abc]", NoEscape, true},
		{"b", "[a-c]", NoEscape, true},
		{"B", "[a-c]", NoEscape, false},
		{"-", "[a-]", NoEscape, true},
		{"-", "[-a]", NoEscape, true},
		{"b", "[a-]", NoEscape, false},
		{"é", "[à-ï]", NoEscape, true},
		{"%", "[%]", NoEscape, true},
		{"x", "[%]", NoEscape, false},
		{"_", "[_]", NoEscape, true},
		{"[", "[[]", NoEscape, true},
		{"]", "]", NoEscape, true},
		{"^", "[a^]", NoEscape, true},
		{"[ab", "[ab", NoEscape, true},
		{"x", "[]", NoEscape, false},
		{"x", "[^]", NoEscape, true},
		{"20%", "20!%", '!', true},
		{"20x", "20!%", '!', false},
		{"a!", "a!!", '!', true},
		{"a!", "a!", '!', true},
		{"ab", "a!b", '!', true},
		{"a[b", "a![b", '!', true},
		{"]", "[!]]", '!', true},
		{"a.c", "a.c", NoEscape, true},
		{"abc", "a.c", NoEscape, false},
		{"a\nb", "a%b", NoEscape, true},
		{"a\nb", "a_b", NoEscape, true},
		{"SOaPSb", "%SO[^x-z]PS_%", NoEscape, true},
	} {
		if got := ParseLike([]byte(c.pattern), c.escape).Match(unlimited{}, []byte(c.text)); got != c.want {
			t.Errorf("%q LIKE %q (escape %q): %v", c.text, c.pattern, c.escape, got)
		}
	}
}

// Random patterns are matched against random texts. Each result must be that of an
// equivalent regular expression.
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
		if got := ParseLike([]byte(like.String()), '!').Match(unlimited{}, []byte(text.String())); got != want {
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

// Matching a pattern with many % signs must take at most the length of the text times the
// length of the pattern. A matcher that tried all combinations would not end.
func TestLikeWithManyWildcardsTakesBoundedTime(t *testing.T) {
	if ParseLike([]byte(strings.Repeat("%a_", 50)+"%b"), NoEscape).Match(unlimited{}, []byte(strings.Repeat("a", 20000))) {
		t.Error("it matched")
	}
}

// FuzzLike matches random patterns against random texts, which must not fail. A text
// whose characters are all escaped must match itself.
func FuzzLike(f *testing.F) {
	f.Add("%a_[b-d]", "xaybc")
	f.Add("[^", "[^")
	f.Add("!", "!")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		ParseLike([]byte(pattern), NoEscape).Match(unlimited{}, []byte(text))
		ParseLike([]byte(pattern), '!').Match(unlimited{}, []byte(text))
		text = strings.ToValidUTF8(text, "\uFFFD")
		var escaped strings.Builder
		for _, r := range text {
			fmt.Fprintf(&escaped, "!%c", r)
		}
		if !ParseLike([]byte(escaped.String()), '!').Match(unlimited{}, []byte(text)) {
			t.Errorf("%q does not match itself", text)
		}
	})
}

type unlimited struct{}

func (unlimited) Spend(int) bool { return true }
