package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/storetype"
)

// A read of a page makes at most 30 allocations. The number must not grow with the number
// of changes on the page.
func TestPageTakesAHandfulOfAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector empties Pebble's pools at random")
	}
	db := openForTest(t)
	c, err := db.CreateContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d"}`, i), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	src := db.Source(c)
	for _, n := range []int{10, 1000} {
		r := feed.Request{From: feed.Beginning(), MaxItems: n}
		allocs := testing.AllocsPerRun(20, func() {
			if p, err := src.Read(t.Context(), r); err != nil || len(p.Changes) != n {
				t.Fatalf("%d changes, %v", len(p.Changes), err)
			}
		})
		if allocs > 30 {
			t.Errorf("a page of %d changes makes %.0f allocations", n, allocs)
		}
	}
}

// VisitItems must not allocate memory for each item that it visits. The test allows one
// allocation for 20 items.
func TestVisitAllocatesNothingForAnItem(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector empties Pebble's pools at random")
	}
	c := newContainer(t, openForTest(t), storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}})
	const items = 2000
	for i := range items {
		if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d"}`, i), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	visit := func(*engine.VisitedItem) (bool, error) {
		count++
		return true, nil
	}
	allocs := testing.AllocsPerRun(5, func() {
		if _, err := c.VisitItems(t.Context(), engine.ItemsRequest{ItemsRequest: storetype.ItemsRequest{MaxTime: time.Hour}}, visit); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > items/20 || count < items {
		t.Errorf("%v allocations for %d items", allocs, count)
	}
}

// A write with the option NoBody returns a result without a body. All other fields of the
// result are set as usual.
func TestWriteWithoutABodyReturnsTheRest(t *testing.T) {
	c := newContainer(t, openForTest(t), storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}})
	ctx, pk, o, body := t.Context(), feed.PartitionKey{"1"}, storetype.WriteOptions{NoBody: true}, []byte(`{"id":"1"}`)
	change := func([]byte) ([]byte, error) { return body, nil }
	inBatch := func() (storetype.Result, error) {
		results, err := c.Batch(ctx, pk, []storetype.Operation{{Kind: storetype.OpUpsert, Body: body, NoBody: true}, {Kind: storetype.OpRead, ID: "1", NoBody: true}})
		if err != nil {
			return storetype.Result{}, err
		}
		if len(results[1].Body) == 0 {
			t.Error("a read has no body")
		}
		return results[0], nil
	}
	for name, do := range map[string]func() (storetype.Result, error){
		"upsert":  func() (storetype.Result, error) { return c.Upsert(ctx, pk, body, o) },
		"replace": func() (storetype.Result, error) { return c.Replace(ctx, pk, "1", body, o) },
		"change":  func() (storetype.Result, error) { return c.Change(ctx, pk, "1", change, o) },
		"batch":   inBatch,
		"create": func() (storetype.Result, error) {
			if _, err := c.Delete(ctx, pk, "1", o); err != nil {
				return storetype.Result{}, err
			}
			return c.Create(ctx, pk, body, o)
		},
	} {
		if _, err := c.Upsert(ctx, pk, body, storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := do()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read, err := c.Read(ctx, pk, "1", storetype.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Body != nil || got.ETag != read.ETag || !got.Modified.Equal(read.Modified) || got.LSN != read.LSN || got.End != read.End ||
			got.Partition != read.Partition || got.Charge < 5 {
			t.Errorf("%s returned %+v; the item is %+v", name, got, read)
		}
	}
}
