package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/store"
)

// withProducts makes orders with items whose joins make 22,500 rows each, and small ones between them.
func (ts *testServer) withProducts() *store.Container {
	ts.t.Helper()
	c := ts.made(store.ContainerProperties{ID: "orders", Partitions: 1})
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

// A page's time ends it in the middle of an item's rows, and before an item without any. However little time there is, each page
// gets on, and all have together what one with time has.
func TestAPageWhoseTimeIsUpEndsWithinAnItemAndTheNextGoesOnThere(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withProducts()
	for _, q := range []struct {
		text string
		many bool // one page can't have looked at all of it
	}{
		{"SELECT VALUE c.n * 1000000 + a * 1000 + b FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE (a % 40) * 1000 + b % 50 = 1002", true},
		{"SELECT VALUE c.n * 1000 + a FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE (a % 100) * 1000 + b = 7149", true},
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
			ts.Server.pages = time.Hour
			want, whole := ts.askAll(h, nil, q.text)
			ts.Server.pages = time.Nanosecond
			got, pages := ts.askAll(h, nil, q.text)
			if len(want) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s by %d: %d rows %.200v, want %d: %.200v", q.text, size, len(got), got, len(want), want)
			}
			if whole == 1 && (pages > 1) != q.many {
				t.Errorf("%s by %d: %d pages", q.text, size, pages)
			}
		}
	}
	// The item that a page ended within goes, and others come before it: they are all answered, the rest of it isn't.
	const text = "SELECT VALUE c.n * 1000 + a FROM c JOIN a IN c.xs JOIN b IN c.xs WHERE b = 3 AND a % 100 = 7 OR b = 3 AND a = 1"
	for _, gone := range []bool{false, true} {
		first := true
		rows, _ := ts.askAll(latest(pk(`["k"]`), page(1000)), func(int) {
			if !first {
				return
			}
			first = false
			if gone {
				if _, err := c.Delete(t.Context(), []any{"k"}, "0", store.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			put(t, c, `{"id":"%s","pk":"k","n":%s,"xs":[1,2,3]}`, map[bool]string{false: "00", true: "000"}[gone], map[bool]string{false: "-1", true: "-2"}[gone])
		}, text)
		once := slices.Clone(rows)
		slices.Sort(once)
		if len(slices.Compact(once)) != len(rows) {
			t.Errorf("a row came twice: %v", rows)
		}
		for _, n := range []string{"1", "3", "5"} {
			if !slices.Contains(rows, n+"001") {
				t.Errorf("the row of item %s is not in %v", n, rows)
			}
		}
	}
}
