package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// manyKeys returns a container with the 40 partition keys k00 to k39. Each key has the
// items i0 to i9.
func manyKeys(t *testing.T) *Container {
	t.Helper()
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{Partitions: 3})
	for n := range 400 {
		upsert(t, c, fmt.Sprintf("i%d", n/40), fmt.Sprintf("k%02d", n%40), n)
	}
	return c
}

// If all sets have a partition key, a scan must read only the index entries in the sets.
func TestSetsWithKeysReadNoOtherPartOfTheIndex(t *testing.T) {
	c := manyKeys(t)
	for _, test := range []struct {
		name string
		sets []ItemSet
		want string
	}{
		{"one item", []ItemSet{withID(feed.PartitionKey{"k07"}, "i3")}, "k07/i3"},
		{"no such item", []ItemSet{withID(feed.PartitionKey{"k07"}, "j")}, ""},
		{"a range of ids", []ItemSet{{Key: feed.PartitionKey{"k01"}, From: "i2", To: "i5"}}, "k01/i2 k01/i3 k01/i4"},
		{"overlapping", []ItemSet{{Key: feed.PartitionKey{"k01"}, From: "i8"}, withID(feed.PartitionKey{"k01"}, "i9"), withID(feed.PartitionKey{"k01"}, "i0")}, "k01/i0 k01/i8 k01/i9"},
		{"an empty range", []ItemSet{{Key: feed.PartitionKey{"k01"}, From: "i5", To: "i5"}}, ""},
		{"no set", []ItemSet{}, ""},
	} {
		sets, err := c.newItemSets(test.sets)
		if err != nil {
			t.Fatal(err)
		}
		v, s, err := c.open(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		sc, err := c.newKeyFilter(feed.Range{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = c.scanIndex(t.Context(), v, &sc, sets.intervals(), nil, func(i *indexed) (bool, error) {
			body, err := c.fetch(v.snap, nil, i.Entry, i.pointBytes())
			if err != nil {
				return false, err
			}
			got = append(got, fmt.Sprintf("%s/%s", field(t, body, "pk"), i.id()))
			return true, nil
		})
		v.release()
		if err != nil || s == nil || strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, %v; want %s", test.name, got, err, test.want)
		}
	}
}

// If a set has no partition key, VisitItems must read the whole index, but only the
// documents in the set.
func TestSetsOfIDsReadOnlyTheirDocuments(t *testing.T) {
	c := manyKeys(t)
	read := func(sets ...ItemSet) (ids []string) {
		visitAll(t, c, ItemsRequest{Sets: sets}, func(v *VisitedItem) { ids = append(ids, string(v.ID)) })
		slices.Sort(ids)
		return ids
	}
	if ids := read(ItemSet{From: "i3", To: "i4"}); len(ids) != 40 || ids[0] != "i3" || ids[39] != "i3" {
		t.Errorf("%d items of one id: %v", len(ids), ids)
	}
	// A set of one id in all keys and a set of one key select the items in either of
	// them.
	if ids := read(withID(nil, "i3"), ItemSet{Key: feed.PartitionKey{"k00"}, From: "i3"}); len(ids) != 46 || ids[40] != "i4" {
		t.Errorf("%d items: %v", len(ids), ids)
	}
}

// VisitItems with IndexOnly, which counts items, must not read any document. It must not
// visit expired items.
func TestIndexOnlyVisitsReadNoDocument(t *testing.T) {
	synctest.Test(t, testIndexOnlyVisits)
}

func testIndexOnlyVisits(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{PurgeInterval: -1}), storetype.ContainerProperties{Partitions: 2, DefaultTTL: -1})
	for n := range 100 {
		upsert(t, c, fmt.Sprint(n), fmt.Sprint(n%7), n)
	}
	count := func(r ItemsRequest) (n int, charge float64) {
		r.IndexOnly = true
		charge = visitAll(t, c, r, func(v *VisitedItem) {
			if v.Body != nil || len(v.ID) == 0 {
				t.Errorf("a visit of %q shows %q", v.ID, v.Body)
			}
			n++
		})
		return n, charge
	}
	all, charge := count(ItemsRequest{})
	if any, _ := count(ItemsRequest{AnyOrder: true}); all != 100 || any != 100 {
		t.Errorf("%d items, and %d in any order", all, any)
	}
	if full := visitAll(t, c, ItemsRequest{}, func(*VisitedItem) {}); charge >= full || charge <= readCharge(0) {
		t.Errorf("a count costs %v RU, and a read of the documents costs %v", charge, full)
	}
	if n, _ := count(ItemsRequest{Sets: []ItemSet{{Key: feed.PartitionKey{"3"}}}}); n != 14 {
		t.Errorf("%d items of a key", n)
	}
	gone := []byte(`{"id":"gone","pk":"3","ttl":1}`)
	if _, err := c.Upsert(t.Context(), nil, gone, storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	if n, _ := count(ItemsRequest{}); n != 100 {
		t.Errorf("%d items when one is expired", n)
	}
}

func TestSetsNeedFullKeys(t *testing.T) {
	c := manyKeys(t)
	_, err := c.Items(t.Context(), ItemsRequest{Sets: []ItemSet{{Key: feed.PartitionKey{"a", "b"}}}})
	if bad := (*storetype.BadRequestError)(nil); !errors.As(err, &bad) || bad.Kind != storetype.KeyMismatch {
		t.Errorf("a key of two components: %v", err)
	}
}

// withID returns the set of the items with an id, in one partition key or, if key is nil,
// in all.
func withID(key feed.PartitionKey, id string) ItemSet {
	return ItemSet{Key: key, From: id, To: id + "\x00"}
}
