package value

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// edges holds numbers where representations meet: around 2^53, 2^63 and 2^64, and around
// the integers of a float64.
var edges = []string{
	"0", "-0", "-0.0", "1", "-1", "0.5", "-0.5", "1.0", "1e3", "9007199254740991", "9007199254740992", "9007199254740993", "9007199254740993.0", "-9007199254740993",
	"4611686018427387903", "4611686018427388415", "4611686018427388416", "4611686018427388417", "9223372036854775295", "9223372036854775296",
	"9223372036854775806", "9223372036854775807", "9223372036854775808", "9223372036854775809", "-9223372036854775807", "-9223372036854775808", "-9223372036854775809",
	"18446744073709551615", "1e19", "1e300", "-1e300", "5e-324", "4503599627370496.5", "4503599627370497", "2251799813685248.25",
}

func numbersToTry(r *rand.Rand) []Value {
	var list []Value
	for _, text := range edges {
		list = append(list, Decode([]byte(text)))
	}
	for range 200 {
		list = append(list, OfInt(int64(r.Uint64())), OfInt(int64(r.Uint64())>>r.IntN(64)), OfNumber(r.NormFloat64()*math.Pow(2, float64(r.IntN(70)))))
	}
	return list
}

// exact returns a number without rounding.
func exact(v Value) *big.Float {
	const enough = 2200 // bits for any float64 beside any integer
	f := new(big.Float).SetPrec(enough)
	if n, ok := v.Int(); ok {
		return f.SetInt64(n)
	}
	return f.SetFloat64(v.Float())
}

func TestNumbersCompareByTheirExactValues(t *testing.T) {
	list := numbersToTry(rand.New(rand.NewPCG(3, 3)))
	for _, a := range list {
		for _, b := range list {
			want := exact(a).Cmp(exact(b))
			if c, ok := Compare(a, b); !ok || c != want {
				t.Errorf("Compare(%s, %s) is %d, want %d", a.AppendJSON(nil), b.AppendJSON(nil), c, want)
			}
			if Equal(a, b) != (want == 0) {
				t.Errorf("Equal(%s, %s) is %v", a.AppendJSON(nil), b.AppendJSON(nil), want != 0)
			}
			// One byte after each key shows whether a key is a prefix of another.
			if c := bytes.Compare(append(AppendKey(nil, a), 0x7F), append(AppendKey(nil, b), 0x7F)); c != want {
				t.Errorf("the keys of %s and %s compare as %d, want %d", a.AppendJSON(nil), b.AppendJSON(nil), c, want)
			}
			if c := bytes.Compare(AppendKey(nil, a), append(AppendKey(nil, b), 0xFF)); want > 0 && c <= 0 {
				t.Errorf("the key of %s is a prefix", b.AppendJSON(nil))
			}
		}
	}
}

// A number that is written and read again is the same number.
func TestNumbersSurviveTheirJSON(t *testing.T) {
	for _, v := range numbersToTry(rand.New(rand.NewPCG(4, 4))) {
		if again := Decode(v.AppendJSON(nil)); !Equal(again, v) {
			t.Errorf("%s is read as %s", v.AppendJSON(nil), again.AppendJSON(nil))
		}
	}
}

// The result of an operator on integers is exact if it is an integer of 64 bits, and
// otherwise the float64 that the operands as float64 give.
func TestArithmeticOfIntegersIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var list []int64
	for _, v := range numbersToTry(r) {
		if n, ok := v.Int(); ok {
			list = append(list, n)
		}
	}
	for _, x := range list {
		for _, y := range list {
			a, b := big.NewInt(x), big.NewInt(y)
			for op, want := range map[string]*big.Int{"+": new(big.Int).Add(a, b), "-": new(big.Int).Sub(a, b), "*": new(big.Int).Mul(a, b)} {
				checkResult(t, op, x, y, want)
			}
			if y == 0 {
				continue
			}
			quotient, rest := new(big.Int).QuoRem(a, b, new(big.Int))
			checkResult(t, "%", x, y, rest)
			if rest.Sign() == 0 {
				checkResult(t, "/", x, y, quotient)
			} else if got := Arithmetic["/"](OfInt(x), OfInt(y)); got.Float() != float64(x)/float64(y) {
				t.Errorf("%d / %d is %s", x, y, got.AppendJSON(nil))
			}
		}
	}
}

func checkResult(t *testing.T, op string, x, y int64, want *big.Int) {
	t.Helper()
	got := Arithmetic[op](OfInt(x), OfInt(y))
	if n, ok := got.Int(); want.IsInt64() && (!ok || n != want.Int64()) {
		t.Errorf("%d %s %d is %s, want %v", x, op, y, got.AppendJSON(nil), want)
	}
	if f, _ := new(big.Float).SetInt(want).Float64(); !want.IsInt64() && math.Abs(got.Float()-f) > math.Abs(f)*1e-15 {
		t.Errorf("%d %s %d is %s, want about %v", x, op, y, got.AppendJSON(nil), f)
	}
}

// The sum of integers may leave 64 bits and return. The order of the rows of a query must
// not matter.
func TestTotalsOfIntegersAreExact(t *testing.T) {
	for _, test := range []struct {
		values   []string
		sum, avg string
	}{
		{[]string{"9223372036854775807", "1", "-3"}, "9223372036854775805", "3074457345618258432"},
		{[]string{"9223372036854775807", "9223372036854775805"}, "18446744073709551612", "9223372036854775806"},
		{[]string{"-9223372036854775808", "-9223372036854775808"}, "-1.8446744073709552e+19", "-9223372036854775808"},
		{[]string{"9007199254740993", "9007199254740993", "9007199254740996"}, "27021597764222982", "9007199254740994"},
		{[]string{"9007199254740993"}, "9007199254740993", "9007199254740993"},
		{[]string{"9007199254740993", "0.5"}, "9007199254740992", "4503599627370496"},
		{[]string{"1", "2"}, "3", "1.5"},
	} {
		for range 2 {
			slices.Reverse(test.values)
			sum, avg := Decode([]byte(accumulated(Sum, test.values...))), Decode([]byte(accumulated(Avg, test.values...)))
			if !Equal(sum, Decode([]byte(test.sum))) || !Equal(avg, Decode([]byte(test.avg))) {
				t.Errorf("%v: SUM is %s and AVG %s, want %s and %s", test.values, sum.AppendJSON(nil), avg.AppendJSON(nil), test.sum, test.avg)
			}
			list := fmt.Appendf(nil, "[%s]", strings.Join(test.values, ","))
			if got := arraySum([]Value{Decode(list)}); !Equal(got, sum) {
				t.Errorf("ARRAY_SUM(%s) is %s", list, got.AppendJSON(nil))
			}
			if got := arrayAvg([]Value{Decode(list)}); !Equal(got, avg) {
				t.Errorf("ARRAY_AVG(%s) is %s", list, got.AppendJSON(nil))
			}
		}
	}
}
