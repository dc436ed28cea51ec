package engine

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/feed"
)

// The charge that an operation returns must follow the formula in the comment of Result.
// The operation must take exactly that charge from the container's throughput.
func TestChargesFollowTheFormulaAndConsumeThroughput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t, openPebble(t, Options{}), ContainerProperties{Throughput: 100_000})
		ctx, pk := t.Context(), feed.PartitionKey{"p"}
		left := c.bucket.tokens // no time passes, so the bucket is not refilled
		spent := func(what string, charge, want float64) {
			t.Helper()
			took := left - c.bucket.tokens
			left = c.bucket.tokens
			if math.Abs(charge-want) > 0.006 || math.Abs(took-charge) > 1e-6 {
				t.Errorf("%s is charged %.2f RU and consumes %.2f, want %.2f", what, charge, took, want)
			}
		}
		write := func(body string) Result {
			t.Helper()
			r, err := c.Upsert(ctx, nil, []byte(body), WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		large := `{"id":"a","pk":"p","x":"` + strings.Repeat("x", 20<<10) + `"}`
		r := write(large)
		page := feed.Request{From: feed.Beginning()}
		p, err := c.db.Source(c).Read(ctx, page)
		if err != nil {
			t.Fatal(err)
		}
		reading := 1 + (float64(p.Bytes)/1024-1)/11
		spent("a large write, and a page of it", r.Charge+p.Charge, 6*reading)
		spent("a small version in its place", write(`{"id":"a","pk":"p"}`).Charge, 5*reading)
		spent("a small version of a small one", write(`{"id":"a","pk":"p"}`).Charge, 5)
		if r, err = c.Read(ctx, pk, "a", ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		spent("a read", r.Charge, 1)
		items, err := c.Items(ctx, ItemsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		spent("a page of items", items.Charge, 1)
		results, err := c.Batch(ctx, pk, []Operation{{Kind: OpRead, ID: "a"}, {Kind: OpUpsert, Body: []byte(large)}, {Kind: OpDelete, ID: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		spent("a batch", results[0].Charge+results[1].Charge+results[2].Charge, 1+10*reading)
	})
}
