package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// ordersOf returns the numbers of the partitions that have entries in the order of
// writing, each with the number of its entries.
func ordersOf(t *testing.T, c *Container) map[uint32]int {
	t.Helper()
	n := map[uint32]int{}
	err := eachKey(c.db.pebble, layout.AppendContainerKey(nil, layout.SpaceOrder, c.number), func(key, _ []byte) error {
		n[orderPartition(key)]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Items are created, replaced and deleted while a partition of several chunks is split and
// merged again. The order of writing must then have exactly the items that exist, which
// Check verifies at the end of the test, and a read must return each partition's items in
// that order.
func TestWritesDuringSplitsAndMergesKeepTheOrder(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{PurgeInterval: -1}), storetype.ContainerProperties{})
	const items, writers = 3*orderChunk + 100, 4
	var stop atomic.Bool
	var wg, filled sync.WaitGroup
	for w := range writers {
		filled.Add(1)
		wg.Go(func() {
			for n := w; n < items || !stop.Load(); n += writers {
				id := fmt.Sprint(n)
				err := errors.Join(err1(c.Upsert(t.Context(), nil, body(id, fmt.Sprint(n%50), n), storetype.WriteOptions{NoBody: true})))
				if old := n - items/2; old >= 0 && n%3 == 0 {
					err = errors.Join(err, err1(c.Delete(t.Context(), feed.PartitionKey{fmt.Sprint(old % 50)}, fmt.Sprint(old), storetype.WriteOptions{})))
				}
				if err != nil {
					t.Error(err)
					break
				}
				if n < items && n+writers >= items {
					filled.Done()
				}
			}
		})
	}
	filled.Wait()
	ps, err := c.Partitions(t.Context())
	for range 3 {
		if err == nil {
			ps, err = c.Split(t.Context(), ps[0].ID, "")
		}
		if err == nil {
			ps[0], err = c.Merge(t.Context(), ps[0].ID, ps[1].ID)
		}
	}
	if err == nil {
		_, err = c.Split(t.Context(), ps[0].ID, "")
	}
	if err != nil {
		t.Error(err)
	}
	stop.Store(true)
	wg.Wait()
	if got := ordersOf(t, c); len(got) != 2 {
		t.Errorf("the orders of two partitions have %v entries", got)
	}
	checkNumbersRise(t, c)
}

func err1(_ storetype.Result, err error) error { return err }

// checkNumbersRise reads all items and checks that the numbers of each partition's items
// rise.
func checkNumbersRise(t *testing.T, c *Container) {
	t.Helper()
	ps, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		last := uint32(0)
		visitAll(t, c, ItemsRequest{ItemsRequest: storetype.ItemsRequest{Partition: p.ID, MaxItems: 1000}}, func(v *VisitedItem) {
			if v.stamp.Number <= last {
				t.Fatalf("partition %s: item %d comes after item %d", p.ID, v.stamp.Number, last)
			}
			last = v.stamp.Number
		})
		if last == 0 {
			t.Errorf("partition %s has no items", p.ID)
		}
	}
}

// A split whose context ends changes nothing and leaves no entries behind.
func TestCanceledSplitChangesNothing(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{PurgeInterval: -1}), storetype.ContainerProperties{})
	for n := range 50 {
		upsert(t, c, fmt.Sprint(n), fmt.Sprint(n), n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.rearrange(ctx, func(l *writeState) (int, int, []feed.Range, error) {
		cancel()
		return l.planSplit("0", "")
	})
	ps, perr := c.Partitions(t.Context())
	if !errors.Is(err, context.Canceled) || perr != nil || len(ps) != 1 || ps[0].ID != "0" {
		t.Fatalf("%v; partitions %v, %v", err, ps, perr)
	}
	upsert(t, c, "later", "p", 1)
	if got := ordersOf(t, c); len(got) != 1 || got[0] != 51 {
		t.Errorf("the orders have %v entries", got)
	}
	if l := c.db.writeState(c); l.copying != nil || l.meta.prepared != nil {
		t.Errorf("copying %v for %v", l.copying, l.meta.prepared)
	}
}

// When the store is reopened during a split, the sequencer forgets the copy. The split
// must notice that before it writes another chunk, and begin again. What the lost copy has
// written is deleted.
func TestSplitBeginsAgainAfterTheStoreWasReopened(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{PurgeInterval: -1}), storetype.ContainerProperties{})
	for n := range 50 {
		upsert(t, c, fmt.Sprint(n), fmt.Sprint(n), n)
	}
	plan := func(l *writeState) (int, int, []feed.Range, error) { return l.planSplit("0", "") }
	forget := func() {
		if err := c.db.do(t.Context(), func(*group) error { c.db.writeState(c).copying = nil; return nil }); err != nil {
			t.Error(err)
		}
	}
	var cp *orderCopy
	err := c.db.do(t.Context(), func(g *group) (err error) { cp, err = g.beginCopy(c, plan); return err })
	if err == nil {
		err = cp.run(t.Context(), c)
	}
	if err != nil || len(ordersOf(t, c)) != 3 {
		t.Fatal(ordersOf(t, c), err)
	}
	forget()
	upsert(t, c, "missed", "p", 1) // for the old partition only
	if err := c.db.do(t.Context(), func(g *group) error { return g.replacePartitions(c, cp) }); !errors.Is(err, errCopyLost) {
		t.Errorf("partitions are replaced after the copy was lost: %v", err)
	}
	// The purge deletes what was copied, but nothing of a copy that is in progress.
	if err := c.db.purgeOnce(map[*Container][]byte{}); err != nil || len(ordersOf(t, c)) != 1 {
		t.Errorf("after a purge, the partitions %v have orders: %v", ordersOf(t, c), err)
	}
	if err := cp.run(t.Context(), c); !errors.Is(err, errCopyLost) {
		t.Errorf("a lost copy goes on: %v", err)
	}
	tries := 0
	made, err := c.rearrange(t.Context(), func(l *writeState) (int, int, []feed.Range, error) {
		if tries++; tries == 1 {
			go forget()
			for waiting := 0; waiting == 0; runtime.Gosched() { // so that it comes before the next request of the split
				c.db.queue.mu.Lock()
				waiting = len(c.db.queue.waiting)
				c.db.queue.mu.Unlock()
			}
		}
		return plan(l)
	})
	if err != nil || len(made) != 2 || tries != 2 {
		t.Fatal(made, tries, err)
	}
	var homes []uint32
	for home := range ordersOf(t, c) {
		homes = append(homes, home)
	}
	slices.Sort(homes)
	if want := []uint32{made[0].number, made[1].number}; !slices.Equal(homes, want) {
		t.Errorf("the partitions %d have orders, want %d", homes, want)
	}
	checkNumbersRise(t, c)
}
