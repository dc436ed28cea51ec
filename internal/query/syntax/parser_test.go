package syntax

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// parsersAgree parses the expression text with both parsers, and fails the test if they
// disagree. read reports whether both accepted it.
func parsersAgree(t *testing.T, text string) (read bool) {
	t.Helper()
	words, err := wordsOf(text)
	if err != nil {
		return false
	}
	h := &handParser{words: words}
	want, byHand := h.expression()
	// A name or a clause may follow the expression, and some keywords are also names.
	if errors.Is(byHand, errNotRead) || byHand == nil && h.at < len(words) {
		return false
	}
	q, err := Parse("SELECT VALUE " + text)
	syntax := (*Error)(nil)
	if errors.As(err, &syntax) && syntax.Code == CodeTooComplex {
		return false
	}
	if err != nil {
		if byHand == nil {
			t.Fatalf("%q is refused (%v), and by hand it is %s", text, err, want)
		}
		return false
	}
	got, ok := bracketed(q.Value)
	if !ok {
		return false
	}
	if byHand != nil || got != want {
		t.Fatalf("%q is read as\n%s and by hand as\n%s (%v)", text, got, want, byHand)
	}
	return true
}

// randomWords returns a random expression with few brackets, so that the precedence of
// operators determines its meaning.
func randomWords(r *rand.Rand, depth int) string {
	leaf := []string{"c.a", "1", "-2.5e3", "'x'", `"\u0041"`, "null", "true", "undefined", "@p", `c["d e"]`, "c.a[0]", "c[c.k].z", "x"}
	if depth <= 0 {
		return leaf[r.IntN(len(leaf))]
	}
	x := func() string { return randomWords(r, depth-1-r.IntN(2)) }
	all := []string{"<>", "=", "??", "AND", "OR"}
	for _, l := range levels {
		all = append(all, l...)
	}
	switch r.IntN(12) {
	case 0:
		return fmt.Sprintf("%s %s ( %s )", x(), []string{"IN", "NOT IN"}[r.IntN(2)], x())
	case 1:
		return fmt.Sprintf("%s %s %s AND %s", x(), []string{"BETWEEN", "NOT BETWEEN"}[r.IntN(2)], x(), x())
	case 2:
		return fmt.Sprintf("%s %s %s%s", x(), []string{"LIKE", "NOT LIKE"}[r.IntN(2)], x(), []string{"", " ESCAPE '!'"}[r.IntN(2)])
	case 3:
		return fmt.Sprintf("%s ? %s : %s", x(), x(), x())
	case 4:
		return []string{"NOT ", "- ", "+", "~"}[r.IntN(4)] + x()
	case 5:
		return "(" + x() + ")"
	case 6:
		return []string{"LEFT", "lower", "concat"}[r.IntN(3)] + "(" + x() + ", " + x() + ")"
	case 7:
		return "[" + x() + ", {a: " + x() + `, "b c": ` + x() + "}]"
	}
	return x() + " " + all[r.IntN(len(all))] + " " + x()
}

func TestParserAgreesWithTheHandWrittenOne(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	read := 0
	for range 30_000 {
		if parsersAgree(t, randomWords(r, r.IntN(5))) {
			read++
		}
	}
	if read < 15_000 {
		t.Errorf("only %d of 30000 texts are expressions", read)
	}
}

// keepsWords fails the test unless the printed text has all words of the original text,
// in the same order. Printing may add AS and brackets, move a sign into a number, and
// drop the name of a SELECT VALUE.
func keepsWords(t *testing.T, text, printed string) {
	t.Helper()
	plain := func(text string) (words []string) {
		all, err := wordsOf(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for _, w := range all {
			switch w.kind {
			case '(', ')', '-', tokAs:
			case tokString:
				words = append(words, strings.ToUpper(w.str)) // {a: 1} is printed as {"a": 1}
			case tokNumber:
				words = append(words, numberText(w.Number()))
			case tokNe:
				words = append(words, "!=")
			default:
				words = append(words, strings.ToUpper(w.Text))
			}
		}
		return words
	}
	from, to := plain(text), plain(printed)
	n := 0
	for _, w := range from {
		if n < len(to) && to[n] == w {
			n++
		}
	}
	dropped := len(from) - len(to)
	if n < len(to) || dropped > strings.Count(strings.ToUpper(text), "VALUE") {
		t.Fatalf("%q is printed as %q, which has other words", text, printed)
	}
}

// FuzzExpression parses random texts with both parsers. They must return the same tree,
// or both reject the text.
func FuzzExpression(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		f.Add(randomWords(r, 3))
	}
	f.Add("NOT c.a = 1 AND c.b NOT IN (1, 2) OR - -1 < +~c.x ?? 'a' LIKE 'b' ESCAPE '!'")
	f.Add("- 2.5e3 .x LIKE 'b'")
	f.Add("(0 IN () 0)")
	f.Add("c['d e'[c.k].z]['z'][('y')]")
	f.Add("lEFT(c.lEFT, c.Rank, {escape: nULL})")
	f.Fuzz(func(t *testing.T, text string) { parsersAgree(t, text) })
}
