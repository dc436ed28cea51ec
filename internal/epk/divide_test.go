package epk

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestDividingTheKeySpaceReturnsTheBounds(t *testing.T) {
	for _, h := range []Hash{V1, V2, MultiHash} {
		for n := 1; n < 40; n++ {
			if got, err := h.Divide(Min, Max, n); err != nil || !slices.Equal(got, h.Bounds(n)) {
				t.Errorf("%s in %d: %v, %v; want %v", h, n, got, err, h.Bounds(n))
			}
		}
	}
}

func TestDivideSpreadsKeysEvenly(t *testing.T) {
	const n, keys = 5, 20_000
	for _, h := range []Hash{V1, V2, MultiHash} {
		outer := h.Bounds(3)
		inner, err := h.Divide(outer[0], outer[1], n)
		if err != nil || len(inner) != n-1 {
			t.Fatalf("%s: %v, %v", h, inner, err)
		}
		bounds := slices.Concat(outer[:1], inner, outer[1:])
		if !slices.IsSorted(bounds) {
			t.Fatalf("%s: bounds %v", h, bounds)
		}
		var counts [n + 2]int
		for i := range keys {
			at, exact := slices.BinarySearch(bounds, Hex(h.Append(nil, []Component{num(float64(i))})))
			if exact {
				at++
			}
			counts[at]++
		}
		for i, c := range counts[1 : n+1] {
			if want := keys / 3 / n; c < want*8/10 || c > want*12/10 {
				t.Errorf("%s: part %d has %d keys of about %d", h, i, c, want)
			}
		}
	}
}

// A split of a single tenant must divide the tenant's users. All of them share the hash
// of the first level, so the second level is divided.
func TestDividingATenantDividesItsUsers(t *testing.T) {
	lo, hi := MultiHash.Prefix([]Component{str("t1")})
	bounds, err := MultiHash.Divide(lo, hi, 4)
	if err != nil || len(bounds) != 3 {
		t.Fatalf("%v, %v", bounds, err)
	}
	var counts [4]int
	for i := range 4000 {
		point := Hex(MultiHash.Append(nil, []Component{str("t1"), str(fmt.Sprint(i))}))
		at, _ := slices.BinarySearch(bounds, point)
		counts[at]++
	}
	for i, c := range counts {
		if c < 800 || c > 1200 {
			t.Errorf("part %d has %d of 4000 users", i, c)
		}
	}
}

func TestDivideRefusesNarrowAndInvalidRanges(t *testing.T) {
	for _, c := range []struct {
		h        Hash
		min, max string
		n        int
	}{
		{V2, "0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFF0", "0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFF3", 4},
		{V2, "10", "10", 2},
		{V2, "20", "10", 2},
		{V1, Hex(appendV1Number(nil, 10)), Hex(appendV1Number(nil, 12)), 3},
		{V1, Hex(appendV1Number(nil, 12)), Hex(appendV1Number(nil, 10)), 1},
	} {
		if got, err := c.h.Divide(c.min, c.max, c.n); !errors.Is(err, ErrSplit) {
			t.Errorf("%s [%s,%s) in %d: %v, %v; want ErrSplit", c.h, c.min, c.max, c.n, got, err)
		}
	}
	for _, bad := range [][2]string{{"x", Max}, {Min, "0"}} {
		if _, err := V2.Divide(bad[0], bad[1], 2); err == nil || errors.Is(err, ErrSplit) {
			t.Errorf("[%s,%s): %v; want an error that names the border", bad[0], bad[1], err)
		}
	}
	if _, err := V1.Divide("3F", Max, 2); err == nil || errors.Is(err, ErrSplit) {
		t.Errorf("a border of V2 in a container of V1: %v", err)
	}
	if _, err := V2.Divide(Min, Max, 0); err == nil {
		t.Error("zero parts are not refused")
	}
	if _, err := Hash(9).Divide(Min, Max, 2); err == nil {
		t.Error("an unknown hash is not refused")
	}
}
