package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// When a sorter must use less memory, it drops rows from the end of the order. The
// remaining rows must be the first ones, without a gap.
func TestShrunkSorterKeepsTheFirstRows(t *testing.T) {
	q, err := Parse("SELECT * FROM c ORDER BY c.x")
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		s := b.NewSorter(1+r.IntN(40), nil)
		var all []string
		for i := range 300 {
			key := fmt.Sprintf("%03d", r.IntN(1000))
			all = append(all, fmt.Sprintf("%s %03d", key, i))
			s.Add(Position{Key: []byte(key), Tie: uint64(i)}, make([]byte, r.IntN(1000)))
			if s.Size() > 8000 {
				s.Shrink(4000)
				if s.Size() > 4000 && len(s.rows) > 1 {
					t.Fatalf("%d bytes after Shrink", s.Size())
				}
			}
		}
		slices.Sort(all)
		kept := s.Rows()
		if len(kept) == 0 {
			t.Fatal("nothing was kept")
		}
		for i, row := range kept {
			if got := fmt.Sprintf("%s %03d", row.Key, row.Tie); got != all[i] {
				t.Fatalf("row %d is %s, want %s", i, got, all[i])
			}
		}
		if s.Size() != 0 {
			t.Errorf("an empty sorter holds %d bytes", s.Size())
		}
	}
}
