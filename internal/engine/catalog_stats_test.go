package engine

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// PartitionStats must return the exact number and size of the items of each partition.
// The test compares them with the feed after writes, transactions, splits, merges and
// restarts.
func TestStatisticsAreExact(t *testing.T) {
	fs := vfs.NewMem()
	open := func() *DB {
		db, err := Open("db", Options{FS: fs, PurgeInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, db, storetype.ContainerProperties{Partitions: 2})
	sizes := map[string]int64{}
	total := func() (items, bytes int64) {
		t.Helper()
		stats, err := c.PartitionStats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stats {
			items, bytes = items+s.Items, bytes+s.Bytes
			page := readPage(t, c, feed.Request{Partition: s.Partition, From: feed.Beginning(), MaxItems: 1000})
			if int(s.Items) != len(page.Changes) || int(s.Bytes) != page.Bytes || s.LSN != page.End {
				t.Errorf("partition %s: %d items of %d bytes up to %d; its feed has %d items of %d bytes up to %d",
					s.ID, s.Items, s.Bytes, s.LSN, len(page.Changes), page.Bytes, page.End)
			}
		}
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
		return items, bytes
	}
	if items, bytes := total(); items != 0 || bytes != 0 {
		t.Errorf("an empty container has %d items of %d bytes", items, bytes)
	}
	for n := range 40 {
		r := upsert(t, c, fmt.Sprint(n%25), fmt.Sprint(n%25), n*1000)
		sizes[fmt.Sprint(n%25)] = int64(len(r.Body) + len(layout.TailLSN) + layout.DigitCount(r.LSN))
	}
	want := func(when string) {
		t.Helper()
		var bytes int64
		for _, n := range sizes {
			bytes += n
		}
		if items, got := total(); items != int64(len(sizes)) || got != bytes {
			t.Errorf("%s: %d items of %d bytes, want %d of %d", when, items, got, len(sizes), bytes)
		}
	}
	want("after writes")
	if _, err := c.Split(t.Context(), "1", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context(), feed.PartitionKey{"7"}, "7", storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	delete(sizes, "7")
	want("after a split and a delete")
	// One transaction creates, replaces, deletes and recreates an item.
	r, err := c.Batch(t.Context(), nil, []storetype.Operation{
		{Kind: storetype.OpCreate, Body: body("x", "x", 1)},
		{Kind: storetype.OpReplace, ID: "x", Body: body("x", "x", 22)},
		{Kind: storetype.OpDelete, ID: "x"},
		{Kind: storetype.OpCreate, Body: body("x", "x", 333)},
		{Kind: storetype.OpCreate, Body: body("y", "x", 1)},
		{Kind: storetype.OpDelete, ID: "y"},
	})
	if err != nil {
		t.Fatal(err)
	}
	sizes["x"] = int64(len(r[3].Body) + len(layout.TailLSN) + layout.DigitCount(r[3].LSN))
	want("after a transaction")
	if _, err := c.Batch(t.Context(), nil, []storetype.Operation{{Kind: storetype.OpCreate, Body: body("z", "z", 1)}, {Kind: storetype.OpDelete, ID: "none"}}); err == nil {
		t.Fatal("the delete of a missing item succeeded")
	}
	want("after a failed transaction")
	if _, err := c.Merge(t.Context(), "0", "2"); err != nil {
		t.Fatal(err)
	}
	upsert(t, c, "after", "after", 1)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	defer closeChecked(t, db)
	if c, err = db.Container(t.Context(), "db", "c"); err != nil {
		t.Fatal(err)
	}
	read, err := c.Read(t.Context(), feed.PartitionKey{"after"}, "after", storetype.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sizes["after"] = int64(len(read.Body) + len(layout.TailLSN) + layout.DigitCount(read.LSN))
	want("after a merge and a restart")
}

// BenchmarkPartitionStats measures a call of PartitionStats for 200 partitions. It
// measures the first call, which counts 20,000 items, and later calls, which count none.
func BenchmarkPartitionStats(b *testing.B) {
	db, c := benchmarkItems(b, 200)
	for _, first := range []bool{true, false} {
		b.Run(fmt.Sprintf("first=%t", first), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if first {
					for _, p := range c.db.current.states[c.slot].meta.partitions {
						p.size.known = false
					}
				}
				stats, err := c.PartitionStats(b.Context())
				if err != nil || len(stats) != 200 {
					b.Fatal(err)
				}
			}
		})
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
