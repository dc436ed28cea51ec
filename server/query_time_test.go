package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// withProducts creates the container orders with three items whose joins have 22,500 rows
// each, and three small items between them.
func (ts *testServer) withProducts() *engine.Container {
	ts.t.Helper()
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: 1})
	var list strings.Builder
	for i := range 150 {
		fmt.Fprintf(&list, "%d,", i)
	}
	for i := range 3 {
		put(ts.t, c, `{"id":"%d","pk":"k","n":%d,"xs":[%s]}`, 2*i, 2*i, strings.TrimSuffix(list.String(), ","))
		put(ts.t, c, `{"id":"%d","pk":"k","n":%d,"xs":[1,2,3]}`, 2*i+1, 2*i+1)
	}
	return c
}

// The time limit of a page is so short that it ends between the rows of one item, or
// after an item without rows. Each page must make progress. All pages together must have
// the rows of a query without a limit.
func TestAPageEndsWithinAnItemAtItsTimeLimitAndTheNextResumesThere(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withProducts()
	for _, q := range []struct {
		text string
		many bool // one page is too short for all items
	}{
		{"SELECT VALUE c.n * 1000000 + a * 1000 + b FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE (a % 40) * 1000 + b % 50 = 1002", true},
		{"SELECT VALUE c.n * 1000 + a FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE (a % 100) * 1000 + b = 7149", true},
		{"SELECT VALUE a FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE c.id = '2' AND (a % 50) * 1000 + b = 7149", true},
		{"SELECT VALUE c.n FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE a * 1000 + b = 3001", true},
		{"SELECT VALUE c.n FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE a * 1000 + b = (c.n % 2 = 1 ? 2003 : 149149)", true},
		{"SELECT TOP 30 VALUE c.n * 1000000 + a * 1000 + b FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE (a % 40) * 1000 + b % 50 = 1002", true},
		{"SELECT VALUE c.n * 1000 + a FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE (a % 100) * 1000 + b = 7149 OFFSET 2 LIMIT 6", true},
		{"SELECT VALUE (SELECT VALUE COUNT(1) FROM a IN c.xs JOIN b IN c.xs) FROM c", true},
		{"SELECT VALUE COUNT(1) FROM c JOIN a IN c.xs JOIN b IN c.xs", false},
		{"SELECT VALUE c.n FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE a * 1000 + b = 3001 ORDER BY c.n DESC", false},
	} {
		for _, size := range []int{3, 1000} {
			h := latest(pk(`["k"]`), page(size))
			ts.pageTime = time.Hour
			want, whole := ts.askAll(h, nil, q.text)
			ts.pageTime = time.Nanosecond
			got, pages := ts.askAll(h, nil, q.text)
			if len(want) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s by %d: %d rows %.200v, want %d: %.200v", q.text, size, len(got), got, len(want), want)
			}
			if whole == 1 && (pages > 1) != q.many {
				t.Errorf("%s by %d: %d pages", q.text, size, pages)
			}
		}
	}
	// Each item takes longer than the time limit and returns no row. So there must be
	// more than one page.
	if rows, pages := ts.askAll(pk(`["k"]`), nil, "SELECT VALUE 1 FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE a + b < 0"); len(rows) > 0 || pages < 3 {
		t.Errorf("%d rows on %d pages", len(rows), pages)
	}
	// A page ended within an item. Before the next page, this item may be deleted, and
	// new items are added after it. The query must return all new items, no more rows of
	// the deleted item, and each remaining item once.
	const text = "SELECT VALUE c.n * 1000 + a FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE (a % 10) * 1000 + b = 1003"
	for _, gone := range []bool{false, true} {
		n, id, row := "-1", "0a", "-999"
		if gone {
			n, id, row = "-2", "0b", "-1999"
		}
		rows, _ := ts.askAll(latest(pk(`["k"]`), page(1000)), func(page int) {
			if page != 3 {
				return
			}
			if gone {
				if _, err := c.Delete(t.Context(), []any{"k"}, "0", storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			put(t, c, `{"id":"%s","pk":"k","n":%s,"xs":[1,2,3]}`, id, n)
		}, text)
		once := slices.Clone(rows)
		slices.Sort(once)
		if len(slices.Compact(once)) != len(rows) {
			t.Errorf("a row came twice: %v", rows)
		}
		for _, row := range []string{row, "1001", "3001", "5001", "2001", "2141", "4141"} {
			if !slices.Contains(rows, row) {
				t.Errorf("%s is not among the rows %v", row, rows)
			}
		}
	}
}
