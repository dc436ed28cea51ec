package query_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/changefeed-go/changefeed/internal/query"
)

// A sorted query is read in pages, each from the position of the previous page's last
// row. Meanwhile, documents are added. Together the pages must have every other row once
// and in order. Rows with equal keys must be in the order of their numbers.
func TestPagesOfASorterAreAllRowsInOrder(t *testing.T) {
	for text, descending := range map[string]bool{
		`SELECT VALUE c.id FROM c ORDER BY c.a`: false, `SELECT VALUE c.id FROM c ORDER BY c.a DESC`: true,
		`SELECT VALUE c.id FROM c ORDER BY c.a ASC, c.b DESC`: false, `SELECT VALUE c.id FROM c ORDER BY c.a DESC, c.b`: true,
	} {
		for _, size := range []int{1, 2, 3, 7, 100} {
			t.Run(fmt.Sprintf("%s by %d", text, size), func(t *testing.T) {
				b := bound(t, text, nil)
				r := rand.New(rand.NewPCG(1, uint64(size))) //nolint:gosec // a repeatable test
				var docs [][]byte
				for n := range 60 {
					docs = append(docs, fmt.Appendf(nil, `{"id":%d,"a":%d,"b":%d}`, n, r.IntN(5), r.IntN(3)))
				}
				type placed struct {
					at query.Position
					id string
				}
				var want []placed
				rows := b.Rows()
				page := func(after *query.Position) []query.SortedRow {
					s := b.NewSorter(size, after)
					for _, n := range r.Perm(len(docs)) {
						row, _, err := rows.Eval(docs[n])
						if err != nil {
							t.Fatal(err)
						}
						s.Add(query.Position{Key: rows.OrderKey(nil), Tie: uint64(n)}, row)
					}
					return s.Rows()
				}
				for n, d := range docs {
					if _, _, err := rows.Eval(d); err != nil {
						t.Fatal(err)
					}
					want = append(want, placed{query.Position{Key: rows.OrderKey(nil), Tie: uint64(n)}, fmt.Sprint(n)})
				}
				slices.SortFunc(want, func(x, y placed) int {
					if c := slices.Compare(x.at.Key, y.at.Key); c != 0 {
						return c
					}
					if descending {
						return int(y.at.Tie) - int(x.at.Tie)
					}
					return int(x.at.Tie) - int(y.at.Tie)
				})
				var after *query.Position
				for i := 0; i < len(want); {
					got := page(after)
					if len(got) == 0 || len(got) > size {
						t.Fatalf("a page of %d rows at %d", len(got), i)
					}
					for _, row := range got {
						if string(row.Row) != want[i].id {
							t.Fatalf("row %d is %s, want %s", i, row.Row, want[i].id)
						}
						i++
					}
					after = &got[len(got)-1].Position
				}
				if got := page(after); len(got) != 0 {
					t.Fatalf("%d rows after the last", len(got))
				}
			})
		}
	}
}

func TestSorterThatKeepsNothingHoldsNothing(t *testing.T) {
	s := bound(t, `SELECT * FROM c ORDER BY c.a`, nil).NewSorter(0, nil)
	s.Add(query.Position{Key: []byte{1}}, []byte(`{}`))
	if rows := s.Rows(); len(rows) != 0 {
		t.Errorf("%d rows", len(rows))
	}
}
