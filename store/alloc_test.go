package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

// What a page costs besides its changes must not grow with their number.
func TestPageTakesAHandfulOfAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties Pebble's pools at random")
	}
	db := openForTest(t)
	c, err := db.CreateContainer(t.Context(), "db", store.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d"}`, i), store.WriteOptions{}); err != nil {
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
			t.Errorf("a page of %d takes %.0f allocations", n, allocs)
		}
	}
}

// A filter over a container must not leave garbage behind for each document it passes.
func TestVisitAllocatesNothingForAnItem(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties Pebble's pools at random")
	}
	c := newContainer(t, openForTest(t), store.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}})
	const items = 2000
	for i := range items {
		if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d"}`, i), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	visit := func(*store.VisitedItem) (bool, error) {
		count++
		return true, nil
	}
	allocs := testing.AllocsPerRun(5, func() {
		if _, err := c.VisitItems(t.Context(), store.ItemsRequest{MaxTime: time.Hour}, visit); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > items/20 || count < items {
		t.Errorf("%v allocations for %d items", allocs, count)
	}
}
