package query

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// The values are those of a C library, which rounds these correctly.
func TestElementaryFunctionsAreRightToTheLastDigit(t *testing.T) {
	for _, test := range []struct {
		name      string
		got, want float64
	}{
		{"sin pi", sine(math.Pi), 1.2246467991473532e-16},
		{"sin 1e6", sine(1e6), -0.34999350217129294},
		{"sin -0.5", sine(-0.5), -0.479425538604203},
		{"sin 1e-300", sine(1e-300), 1e-300},
		{"sin 0", sine(0), 0},
		{"cos 0", cosine(0), 1},
		{"cos pi/2", cosine(math.Pi / 2), 6.123233995736766e-17},
		{"tan pi/2", tangent(math.Pi / 2), 16331239353195370},
		{"tan 124.1332", tangent(124.1332), -24.80651023035602},
		{"cot 124.1332", cotangent(124.1332), -0.040311998371148884},
		{"log10 5", log10(5), 0.6989700043360189},
		{"log10 1e15", log10(1e15), 15},
		{"log10 1e-5", log10(1e-5), -5},
		{"log10 1000", log10(1000), 3},
		{"log2 8", logTo(8, 2), 3},
		{"log 2 to 10", logTo(2, 10), 0.3010299956639812},
		{"ln 5", naturalLog(5), 1.6094379124341003},
		{"ln 1", naturalLog(1), 0},
		{"ln of the smallest", naturalLog(math.SmallestNonzeroFloat64), -744.4400719213812},
	} {
		if test.got != test.want {
			t.Errorf("%s is %v and not %v", test.name, test.got, test.want)
		}
	}
	for name, got := range map[string]float64{"ln -1": naturalLog(-1), "log -1": logTo(-1, 10), "log10 -1": log10(-1), "sin inf": sine(math.Inf(1)), "tan nan": tangent(math.NaN())} {
		if !math.IsNaN(got) {
			t.Errorf("%s is %v", name, got)
		}
	}
}

// sin²+cos² is 1 in 32 digits, and the parts agree with package math in fifteen.
func TestSineAndCosineAgreeWithEachOtherAndWithMath(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a repeatable test
	for range 2000 {
		x := (r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(9)))
		sin, cos := sinCos(x)
		one := sin.times(sin).plus(cos.times(cos)).plus(plain(-1))
		if math.Abs(one.number()) > 1e-28 {
			t.Fatalf("of %v: sin²+cos² is 1%+g", x, one.number())
		}
		if math.Abs(sin.number()-math.Sin(x)) > 1e-15 || math.Abs(cos.number()-math.Cos(x)) > 1e-15 {
			t.Fatalf("of %v: %v %v, by math %v %v", x, sin.number(), cos.number(), math.Sin(x), math.Cos(x))
		}
		// e to the logarithm of y: ln y = ln(y/2) + ln 2.
		y := math.Abs(x) + 1e-9
		if d := logarithmOf(y).plus(logarithmOf(y / 3).negative()).plus(logarithmOf(3).negative()); math.Abs(d.number()) > 1e-15 {
			t.Fatalf("ln %v - ln %v/3 - ln 3 is %v", y, y, d.number())
		}
	}
	// The constants, by their digits.
	for want, p := range map[string]pair{
		"0.6931471805599453094172321214581765680755001343602552": ln2,
		"2.3025850929940456840179914546843642076011014886287729": ln10,
		"1.5707963267948966192313216916397514420985846996875529": {halfPi[0], halfPi[1]},
	} {
		exact, _, err := big.ParseFloat(want, 10, 200, big.ToNearestEven)
		if err != nil {
			t.Fatal(err)
		}
		exact.Sub(exact, big.NewFloat(p.hi))
		exact.Sub(exact, big.NewFloat(p.lo))
		if d, _ := exact.Float64(); math.Abs(d) > 1e-31 {
			t.Errorf("%s is off by %g", want, d)
		}
	}
}
