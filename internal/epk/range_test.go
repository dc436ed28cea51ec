package epk

import (
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
)

func TestBoundsEqualThoseOfTheService(t *testing.T) {
	for _, c := range []struct {
		h    Hash
		n    int
		want []string
	}{
		{V2, 1, []string{}},
		{V2, 2, []string{"1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"}},
		{V2, 4, []string{"0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFE", "2FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFD"}},
		{MultiHash, 2, []string{"1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"}},
		{V1, 1, []string{}},
		{V1, 2, []string{"05C1DFFFFFFFFC"}},
		{V1, 3, []string{"05C1D5AB55AB54", "05C1E5AB55AB54"}},
	} {
		if got := c.h.Bounds(c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s in %d: %v, want %v", c.h, c.n, got, c.want)
		}
	}
}

func TestBoundsRiseAndDivideKeysEvenly(t *testing.T) {
	const n, keys = 16, 16000
	for _, h := range []Hash{V1, V2, MultiHash} {
		bounds := h.Bounds(n)
		if len(bounds) != n-1 || !slices.IsSorted(bounds) {
			t.Fatalf("%s: bounds %v", h, bounds)
		}
		var counts [n]int
		for i := range keys {
			point := Hex(h.Append(nil, []Component{num(float64(i))}))
			at, exact := slices.BinarySearch(bounds, point)
			if exact {
				at++
			}
			counts[at]++
		}
		for i, c := range counts {
			if c < keys/n*8/10 || c > keys/n*12/10 {
				t.Errorf("%s: range %d of %d has %d of %d keys", h, i, n, c, keys)
			}
		}
	}
}

func TestPrefixHoldsEveryKeyBelowIt(t *testing.T) {
	lo, hi := MultiHash.Prefix([]Component{str("t1")})
	if lo != "3D48BB14DA9D090D22112C96695028B6" || hi != lo+"FF" {
		t.Fatalf("prefix of t1: [%s,%s)", lo, hi)
	}
	for i := range 1000 {
		inside := Hex(MultiHash.Append(nil, []Component{str("t1"), num(float64(i))}))
		if inside < lo || inside >= hi {
			t.Fatalf("key %d of the prefix lies outside: %s", i, inside)
		}
		outside := Hex(MultiHash.Append(nil, []Component{str("t2"), num(float64(i))}))
		if outside >= lo && outside < hi {
			t.Fatalf("key %d of another prefix lies inside: %s", i, outside)
		}
	}
	for _, h := range []Hash{V1, V2} {
		lo, hi := h.Prefix([]Component{str("redmond")})
		if p := Hex(h.Append(nil, []Component{str("redmond")})); p < lo || p >= hi {
			t.Errorf("%s: point %s lies outside the range of its own key [%s,%s)", h, p, lo, hi)
		}
	}
}

func TestMidpointHalves(t *testing.T) {
	for _, c := range []struct {
		h              Hash
		min, max, want string
	}{
		{V2, "", "FF", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"},
		{V2, "", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"},
		{V2, "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "FF", "2FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"},
		{V2, "1fffffffffffffffffffffffffffffff", "ff", "2FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"},
		{MultiHash, "", "FF", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"},
		{V1, "", "FF", "05C1DFFFFFFFFC"},
		{V1, "", "05C1DFFFFFFFFC", Hex(appendV1Number(nil, 1<<30-1))},
	} {
		got, err := c.h.Midpoint(c.min, c.max)
		if err != nil || got != c.want {
			t.Errorf("%s: midpoint of %q and %q: %q, %v, want %q", c.h, c.min, c.max, got, err, c.want)
		}
	}
}

func TestMidpointDividesOneLargeTenant(t *testing.T) {
	tenant := Hex(MultiHash.Append(nil, []Component{str("tenant")}))
	v, _ := new(big.Int).SetString(tenant, 16)
	next := strings.ToUpper(v.Add(v, big.NewInt(1)).Text(16))
	mid, err := MultiHash.Midpoint(tenant, next)
	if err != nil || !strings.HasPrefix(mid, tenant) || len(mid) != 64 {
		t.Fatalf("midpoint of one tenant: %q, %v", mid, err)
	}
	var low, high int
	for i := range 1000 {
		if Hex(MultiHash.Append(nil, []Component{str("tenant"), num(float64(i))})) < mid {
			low++
		} else {
			high++
		}
	}
	if low < 400 || high < 400 {
		t.Errorf("the tenant's keys were divided into %d and %d", low, high)
	}
}

// Repeated halving must end in ErrSplit, and must never return a border outside the range
// or equal to one of its ends.
func TestMidpointEndsInErrSplit(t *testing.T) {
	for _, h := range []Hash{V1, V2, MultiHash} {
		lo, hi := Min, Max
		for i := 0; ; i++ {
			mid, err := h.Midpoint(lo, hi)
			if errors.Is(err, ErrSplit) {
				if i < 30 {
					t.Errorf("%s: gave up after %d halvings", h, i)
				}
				break
			}
			if err != nil || mid <= lo || mid >= hi || i > 400 {
				t.Fatalf("%s: halving %d of [%s,%s) gave %q, %v", h, i, lo, hi, mid, err)
			}
			if i%2 == 0 {
				lo = mid
			} else {
				hi = mid
			}
		}
	}
}

func TestMidpointRefusesInvalidBorders(t *testing.T) {
	for _, c := range []struct {
		h        Hash
		min, max string
	}{{V2, "0", "FF"}, {V2, "", "GG"}, {V1, "00", "FF"}, {V1, "", "05"}, {9, "", "FF"}} {
		if mid, err := c.h.Midpoint(c.min, c.max); err == nil {
			t.Errorf("%s: [%q,%q) was halved at %q", c.h, c.min, c.max, mid)
		}
	}
}

func FuzzMidpoint(f *testing.F) {
	f.Add(uint8(2), "", "FF")
	f.Add(uint8(1), "05C1D5AB55AB54", "05C1E5AB55AB54")
	f.Add(uint8(3), "3D48BB14DA9D090D22112C96695028B6", "3D48BB14DA9D090D22112C96695028B6FF")
	f.Fuzz(func(t *testing.T, h uint8, lo, hi string) {
		mid, err := Hash(h).Midpoint(lo, hi)
		if err != nil {
			return
		}
		if mid <= strings.ToUpper(lo) || mid >= strings.ToUpper(hi) {
			t.Fatalf("midpoint %q lies outside [%q,%q)", mid, lo, hi)
		}
		if _, err := ParseHex(mid); err != nil {
			t.Fatal(err)
		}
	})
}
