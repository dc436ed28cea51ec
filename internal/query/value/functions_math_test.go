package value

import (
	"math"
	"testing"
)

func TestLogarithmsOfPowersOfTenAndOfExtremes(t *testing.T) {
	for n := -323; n <= 308; n++ {
		if got := log10(math.Pow10(n)); got != float64(n) {
			t.Errorf("LOG10(1e%d) is %v", n, got)
		}
	}
	for x, want := range map[float64]float64{0: math.Inf(-1), math.Inf(1): math.Inf(1), 1000.5: 3.0002170929722305} {
		if got := log10(x); got != want && !(math.Abs(got-want) < 1e-14) {
			t.Errorf("LOG10(%v) is %v, want %v", x, got, want)
		}
	}
	if got, want := ln(math.SmallestNonzeroFloat64), -744.4400719213812; math.Abs(got-want) > 1e-12 {
		t.Errorf("LOG of the smallest number is %v, want %v", got, want)
	}
	if got := log10(-1); !math.IsNaN(got) {
		t.Errorf("LOG10(-1) is %v", got)
	}
}
