package server

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// withLists creates the container orders with n documents. Document i has the array xs
// with i strings.
func (ts *testServer) withLists(partitions, n int) *engine.Container {
	ts.t.Helper()
	c := ts.made(storetype.ContainerProperties{ID: "orders", Partitions: partitions})
	for i := range n {
		put(ts.t, c, `{"id":"%03d","pk":"k%d","v":%d,"xs":[%s]}`, i, i%3, i, elements(i))
	}
	return c
}

// elements returns the elements of the array xs of document i, as JSON: "i.0","i.1" and
// so on.
func elements(i int) string {
	s := ""
	for j := range i {
		s += fmt.Sprintf("%q,", fmt.Sprintf("%d.%d", i, j))
	}
	return s[:max(len(s)-1, 0)]
}

func page(n int) headers { return headers{"x-ms-max-item-count": strconv.Itoa(n)} }

// One item of a join has several rows, and a page can end between them. The pages of
// every size must together have the same rows in the same order.
func TestPagesOfJoinsHaveAllRowsOnce(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withLists(3, 12)
	for _, text := range []string{
		"SELECT VALUE x FROM c JOIN x IN c.xs", "SELECT VALUE x FROM x IN c.xs", "SELECT VALUE [x, y] FROM c JOIN x IN c.xs JOIN y IN c.xs WHERE x < y",
		"SELECT VALUE x FROM c JOIN (SELECT VALUE x FROM x IN c.xs WHERE x != '5.3') x",
	} {
		whole, pages := ts.askAll(page(1000), nil, text)
		if pages != 2 || len(whole) < 60 {
			t.Fatalf("%s: %d rows on %d pages", text, len(whole), pages)
		}
		for _, n := range []int{1, 2, 3, 7, 11} {
			rows, pages := ts.askAll(page(n), nil, text)
			if !slices.Equal(rows, whole) {
				t.Errorf("%s by %d: %v, want %v", text, n, rows, whole)
			}
			if want := (len(whole) + n - 1) / n; pages < want || pages > want+2 { // a page never spans two partitions
				t.Errorf("%s by %d: %d pages, want %d", text, n, pages, want)
			}
		}
		// TOP and OFFSET LIMIT must count the rows of all pages together. They are tested
		// within one partition key.
		inKey, _ := ts.askAll(pk(`["k2"]`), nil, text)
		if rows, _ := ts.askAll(latest(pk(`["k2"]`), page(4)), nil, "SELECT TOP 10"+text[len("SELECT"):]); !slices.Equal(rows, inKey[:10]) {
			t.Errorf("%s, TOP: %v", text, rows)
		}
		got, _ := ts.askAll(latest(pk(`["k2"]`), page(3)), nil, text+" OFFSET 4 LIMIT 9")
		if !slices.Equal(got, inKey[4:13]) {
			t.Errorf("%s, OFFSET LIMIT: %v, want %v", text, got, inKey[4:13])
		}
	}
}

func TestPagesOfOrderedJoinsHaveAllRowsOnce(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withLists(2, 12)
	for _, text := range []string{"SELECT VALUE x FROM c JOIN x IN c.xs ORDER BY c.v", "SELECT VALUE x FROM c JOIN x IN c.xs ORDER BY c.pk DESC"} {
		whole, _ := ts.askAll(latest(pk(`["k2"]`), page(1000)), nil, text)
		if len(whole) != 2+5+8+11 {
			t.Fatalf("%s: %v", text, whole)
		}
		for _, n := range []int{1, 2, 5} {
			if rows, _ := ts.askAll(latest(pk(`["k2"]`), page(n)), nil, text); !slices.Equal(rows, whole) {
				t.Errorf("%s by %d: %v, want %v", text, n, rows, whole)
			}
		}
	}
}

// A page of a join ends between the rows of one item. Before the next page, other items
// change, and that item may be deleted or replaced. The next page must continue after the
// last row. Later items must be complete, no row may be returned twice, and no page may
// have too many rows.
func TestAJoinResumesInItsItemAfterWritesAndDeletes(t *testing.T) {
	key := pk(`["k2"]`) // this key has item 2 with two rows and item 5 with five rows
	for name, of2 := range map[string][]string{"stays": {`"2.1"`}, "goes": nil, "goes and comes": nil} {
		var anew []string // an item that comes again is a new one, after all others
		if name == "goes and comes" {
			anew = []string{`"x"`, `"y"`}
		}
		for _, text := range []string{"SELECT VALUE x FROM c JOIN x IN c.xs", "SELECT VALUE x FROM c JOIN x IN c.xs WHERE NOT IS_DEFINED(c.off)"} {
			t.Run(name, func(t *testing.T) {
				ts := newTestServer(t, Options{})
				c := ts.withLists(1, 6)
				put(t, c, `{"id":"001","pk":"k2","off":1,"xs":[]}`)
				rows, pages := ts.askAll(latest(key, page(1)), func(page int) {
					if page != 1 {
						return
					}
					if name != "stays" {
						if _, err := c.Delete(t.Context(), []any{"k2"}, "002", storetype.WriteOptions{}); err != nil {
							t.Fatal(err)
						}
					}
					put(t, c, `{"id":"000a","pk":"k2","xs":["a", "b", "c"]}`)
					put(t, c, `{"id":"001","pk":"k2","xs":["d"]}`)
					put(t, c, `{"id":"002a","pk":"k2","xs":["e", "f", "g"]}`)
					if name == "goes and comes" {
						put(t, c, `{"id":"002","pk":"k2","xs":["x", "y"]}`)
					}
				}, text)
				want := slices.Concat([]string{`"2.0"`}, of2, []string{`"5.0"`, `"5.1"`, `"5.2"`, `"5.3"`, `"5.4"`, `"d"`, `"a"`, `"b"`, `"c"`, `"e"`, `"f"`, `"g"`}, anew)
				if !slices.Equal(rows, want) {
					t.Errorf("%s: %v, want %v", text, rows, want)
				}
				if pages != len(want) {
					t.Errorf("%s: %d rows on %d pages of one", text, len(rows), pages)
				}
			})
		}
	}
}

// A page of a join ends between the rows of one item, and the partition is then split.
// The continuation must be valid for both children.
func TestPagesOfJoinsResumeAfterASplit(t *testing.T) {
	ts := newTestServer(t, Options{})
	c := ts.withLists(1, 12)
	const text = "SELECT VALUE x FROM c JOIN x IN c.xs"
	whole, _ := ts.askAll(page(1000), nil, text)
	rows, _ := ts.askAll(page(4), func(page int) {
		if page == 3 {
			live, err := c.Partitions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Split(t.Context(), live[0].ID, ""); err != nil {
				t.Fatal(err)
			}
		}
	}, text)
	// After the split, the rest of one child comes before that of the other.
	slices.Sort(rows)
	slices.Sort(whole)
	if !slices.Equal(rows, whole) {
		t.Errorf("%v, want %v", rows, whole)
	}
}

// A query without FROM must return one row, also if the container is empty.
func TestQueriesWithoutFromHaveOneRow(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withLists(3, 5)
	for text, want := range map[string][]string{
		"SELECT 1 AS a": {`{"a":1}`}, "SELECT VALUE COUNT(1)": {"1"}, "SELECT VALUE 1 WHERE false": {}, "SELECT VALUE x FROM x IN (SELECT VALUE [1, 2])": {"1", "2"},
	} {
		for _, h := range []headers{nil, page(1), pk(`["k1"]`)} {
			if rows, _ := ts.askAll(h, nil, text); !slices.Equal(rows, want) {
				t.Errorf("%s: %v", text, rows)
			}
		}
	}
	// A client that follows the plan sends the query to a single range.
	ts.ask(headers{"x-ms-cosmos-is-query-plan-request": "True"}, "SELECT 1").want(200).
		wantBody(`"queryRanges":[{"min":"","max":"","isMinInclusive":true,"isMaxInclusive":true}]`)
}

func TestAnErrorAtAnItemIsABadRequest(t *testing.T) {
	ts := newTestServer(t, Options{})
	ts.withLists(1, 5)
	for _, text := range []string{"SELECT VALUE (SELECT VALUE x FROM x IN c.xs) FROM c", "SELECT VALUE COUNT((SELECT VALUE x FROM x IN c.xs)) FROM c"} {
		ts.ask(nil, text).want(400)
	}
	ts.ask(nil, "SELECT VALUE (SELECT VALUE x FROM x IN c.xs) FROM c").want(400).wantBody("The cardinality of a scalar subquery result set cannot be greater than one.")
	ts.ask(pk(`["k1"]`), "SELECT VALUE x FROM c JOIN x IN c.xs ORDER BY x").want(400).wantBody(`Order-by over correlated collections is not supported.`)
}
