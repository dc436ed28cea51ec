package store_test

import (
	"fmt"
	"testing"

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
