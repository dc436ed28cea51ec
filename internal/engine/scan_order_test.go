package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/changefeed-go/changefeed/internal/layout"
)

// sortAddresses sorts few addresses by comparison and many by their digits. Both must
// give the same order, whichever digits of LSN, segment and ordinal differ.
func TestAddressesAreSortedInTheOrderOfTheLog(t *testing.T) {
	var spare []logAddress
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a repeatable test
		n := []int{0, 1, fewAddresses, fewAddresses + 1, 3000}[r.IntN(5)]
		most := []int64{1, 100, 1 << 11, 1 << 40, layout.MaxLSN}[r.IntN(5)]
		segments, ordinals := []int{1, 3, 1 << 30}[r.IntN(3)], []int{1, 5, 1 << 16}[r.IntN(3)]
		indexes := make([]logAddress, n)
		for i := range indexes {
			indexes[i] = logAddress{
				lsn: 1 + r.Int64N(most), at: uint32(i), //nolint:gosec // small
				segment: uint32(r.IntN(segments)), ordinal: uint16(r.IntN(ordinals)), //nolint:gosec // in range
			}
		}
		want := slices.Clone(indexes)
		slices.SortStableFunc(want, func(p, q logAddress) int { return p.compare(&q) })
		var got []logAddress
		got, spare = sortAddresses(indexes, spare)
		if n <= fewAddresses { // the order of equal addresses is not defined here
			for i := range got {
				got[i].at, want[i].at = 0, 0
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d addresses are out of order", seed, n)
		}
	}
}
