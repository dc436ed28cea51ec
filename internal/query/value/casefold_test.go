package value

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Comparisons that ignore case must have the same result as comparing the results of
// bytes.ToUpper. This includes the letters ı and ſ, whose upper case is in ASCII.
func TestFoldedComparisonsEqualThoseInUpperCase(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a repeatable test
	text := func(n int) []byte {
		var b []byte
		for range r.IntN(n) {
			b = append(b, []string{"a", "A", "b", "B", "1", "[", "{", "i", "s", "ı", "ſ", "é", "É"}[r.IntN(7+6*r.IntN(2))]...)
		}
		return b
	}
	found := map[string]int{}
	for range 5000 {
		s, sub := text(8), text(4)
		for name, f := range map[string][2]func(s, sub []byte) bool{
			"contains": {withoutCase(bytes.Contains, foldContains), bytes.Contains}, "prefix": {withoutCase(bytes.HasPrefix, foldPrefix), bytes.HasPrefix},
			"suffix": {withoutCase(bytes.HasSuffix, foldSuffix), bytes.HasSuffix}, "equal": {withoutCase(bytes.Equal, foldEqual), bytes.Equal},
		} {
			got, want := f[0](s, sub), f[1](bytes.ToUpper(s), bytes.ToUpper(sub))
			if got != want {
				t.Fatalf("%s of %q and %q is %v", name, s, sub, got)
			}
			if got {
				found[name]++
			}
		}
	}
	for name, n := range found {
		if n < 100 || n > 4900 {
			t.Errorf("%s is true of %d", name, n)
		}
	}
	contains, s, sub := withoutCase(bytes.Contains, foldContains), []byte("The Quick Brown Fox"), []byte("BROWN")
	if n := testing.AllocsPerRun(10, func() { contains(s, sub) }); n > 0 {
		t.Errorf("a comparison of ASCII allocates %v times", n)
	}
}
