package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// Items of several keys are written in turn, and many of them again. Whatever the size of
// pages and chunks, an item must come where it was first written: among the items of a key,
// and among those of a whole partition. Items of a prefix are sorted by key before.
func TestItemsComeInTheOrderOfTheirFirstWrite(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{KeyPaths: []string{"/a", "/b"}, KeyVersion: storetype.MultiHash})
	const n = 3000
	var all []string
	for k := range n + n/2 {
		i := k
		if k >= n {
			i = (k - n) * 7 % n
		} else {
			all = append(all, fmt.Sprint(i))
		}
		doc := fmt.Appendf(nil, `{"id":"%d","a":"a%d","b":%d,"k":%d}`, i, i%2, i/2%3, k)
		if _, err := c.Upsert(t.Context(), nil, doc, storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	only := func(keep func(i int) bool) (ids []string) {
		for i, id := range all {
			if keep(i) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	var some []ItemSet
	for i := n - 1; i > 0; i -= 100 {
		some = append(some, withID(feed.PartitionKey{fmt.Sprintf("a%d", i%2), i / 2 % 3}, fmt.Sprint(i)))
	}
	for name, test := range map[string]struct {
		request ItemsRequest
		want    []string
	}{
		"everything": {ItemsRequest{}, all},
		"a key":      {ItemsRequest{ItemsRequest: storetype.ItemsRequest{Key: feed.PartitionKey{"a1", 2}}}, only(func(i int) bool { return i%2 == 1 && i/2%3 == 2 })},
		"some items": {ItemsRequest{Sets: some}, only(func(i int) bool { return i%100 == 99 })},
		"all items":  {ItemsRequest{Sets: []ItemSet{{Key: feed.PartitionKey{"a0", 0}}, {Key: feed.PartitionKey{"a0", 1}}, {Key: feed.PartitionKey{"a1", 0}}}}, only(func(i int) bool { return i%6 < 3 })},
		"ids":        {ItemsRequest{ItemsRequest: storetype.ItemsRequest{IDPrefix: "29"}}, only(func(i int) bool { return i == 29 || i/10 == 29 || i/100 == 29 })},
	} {
		for _, size := range []int{0, 1, 100, 1000} {
			if size == 1 && len(test.want) > 500 {
				continue
			}
			r := test.request
			r.MaxItems = size
			var got []string
			visitAll(t, c, r, func(v *VisitedItem) { got = append(got, string(v.ID)) })
			if !slices.Equal(got, test.want) {
				t.Errorf("%s in pages of %d: %d items, want %d:\n%.300v\n%.300v", name, size, len(got), len(test.want), got, test.want)
			}
		}
	}
	var keys []string
	lists := map[string][]string{}
	visitAll(t, c, ItemsRequest{ItemsRequest: storetype.ItemsRequest{Key: feed.PartitionKey{"a1"}, MaxItems: 70}}, func(v *VisitedItem) {
		key := fmt.Sprint(field(t, v.Body, "b"))
		if len(keys) == 0 || keys[len(keys)-1] != key {
			keys = append(keys, key)
		}
		lists[key] = append(lists[key], string(v.ID))
	})
	if len(keys) != 3 {
		t.Errorf("the items of a prefix come in the order of keys %v", keys)
	}
	for key, ids := range lists {
		if want := only(func(i int) bool { return i%2 == 1 && fmt.Sprint(i/2%3) == key }); !slices.Equal(ids, want) {
			t.Errorf("key a1, %s: %d items, want %d", key, len(ids), len(want))
		}
	}
}

// A page ends within an item. Before the next page, the item's partition is split, so that
// the item may be in another partition than those that follow. The page must begin with
// it, and the rest must not have it again.
func TestPagesBeginAgainWithAnItemAfterASplit(t *testing.T) {
	for _, merge := range []bool{false, true} {
		c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 2})
		const n = 300
		for i := range n {
			upsert(t, c, fmt.Sprint(i), fmt.Sprint(i), i)
		}
		for _, stop := range []int{1, 50, 137, 200} {
			r := ItemsRequest{}
			var got []string
			page, err := c.VisitItems(t.Context(), r, func(v *VisitedItem) (bool, error) {
				got = append(got, string(v.ID))
				return len(got) < stop, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			ps, err := c.Partitions(t.Context())
			if err == nil && merge {
				_, err = c.Merge(t.Context(), ps[0].ID, ps[1].ID)
			} else if err == nil {
				_, err = c.Split(t.Context(), ps[0].ID, "")
			}
			if err != nil {
				t.Fatal(err)
			}
			r.Continuation, r.Again, r.MaxItems = page.Continuation, !page.PartitionEnd, 20
			first := true
			for more := true; more; more = r.Continuation != "" {
				page, err := c.VisitItems(t.Context(), r, func(v *VisitedItem) (bool, error) {
					if first && r.Again {
						if string(v.ID) != got[len(got)-1] || v.Continuation() != r.Continuation {
							t.Errorf("the page begins with %s instead of %s", v.ID, got[len(got)-1])
						}
						got = got[:len(got)-1]
					}
					first = false
					got = append(got, string(v.ID))
					return true, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				r.Continuation, r.Again = page.Continuation, false
			}
			slices.Sort(got)
			if len(got) != n || len(slices.Compact(got)) != n {
				t.Errorf("merge %t, stop after %d: %d items, want %d", merge, stop, len(got), n)
			}
			if merge {
				break // one partition is left
			}
		}
	}
}
