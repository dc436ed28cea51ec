package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/storetype"
)

// In a container with a retention, a purge writes each deleted document to the versions
// log. The purge must therefore be divided into several transactions. A single one would
// take several times the size of all documents in memory and would delay writes.
func TestPurgeOfLargeItemsWithVersionsIsDivided(t *testing.T) {
	if race.Enabled {
		t.Skip("checks the size of transactions, which the race detector cannot judge")
	}
	var syncs atomic.Int64
	fs := &hookFS{FS: vfs.NewMem(), before: func(op fileOp) {
		if op.kind == "sync" && strings.HasSuffix(op.name, ".log") {
			syncs.Add(1)
		}
	}}
	db, err := engine.Open("db", engine.Options{FS: fs, Memory: 256 << 20, PurgeInterval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	p := storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/k"}, Retention: time.Hour}
	c := newContainer(t, db, p)
	const n, size, group = 40, 1 << 20, 8 << 20
	text := strings.Repeat("x", size)
	for i := range n {
		if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d","k":"k","t":%q}`, i, text), storetype.WriteOptions{NoBody: true}); err != nil {
			t.Fatal(err)
		}
	}
	before := syncs.Load()
	p.DefaultTTL = 1
	if _, err := db.ReplaceContainer(t.Context(), "db", p); err != nil {
		t.Fatal(err)
	}
	deleted, at := 0, feed.After(feed.Continuation(fmt.Sprintf("%q", fmt.Sprint(n))))
	for deleted < n {
		page, err := c.Feed(t.Context(), feed.Request{Mode: feed.AllVersionsAndDeletes, From: at, Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range page.Changes {
			if !change.Expired || len(change.Previous) < size {
				t.Errorf("LSN %d: %s, expired: %t, %d bytes of previous image", change.LSN, change.Op, change.Expired, len(change.Previous))
			}
		}
		deleted, at = deleted+len(page.Changes), feed.After(page.Continuation)
	}
	if got := syncs.Load() - before; got < n*size/group {
		t.Errorf("%d items of %d bytes were purged with %d syncs of the log, so some group was larger than %d bytes", n, size, got, group)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// Each round of the purge visits a limited number of index entries and resumes where the
// previous round stopped. So the purge must also reach expired items after the first
// 20,000 entries. After the last entry, the next round begins again at the first.
func TestSweepOfManyItemsReachesThemAll(t *testing.T) {
	if race.Enabled {
		t.Skip("20,000 writes take half a minute with the race detector")
	}
	synctest.Test(t, func(t *testing.T) {
		db, err := engine.OpenMemory(engine.Options{PurgeInterval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
			t.Fatal(err)
		}
		c := newContainer(t, db, storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/k"}, DefaultTTL: -1})
		// In the index, the items that do not expire come first. The items that expire
		// follow them.
		const stay, mortal = 20_000, 300
		for from := 0; from < stay+mortal; from += engine.MaxBatchOperations {
			var ops []storetype.Operation
			for n := from; n < from+engine.MaxBatchOperations; n++ {
				ttl := -1
				if n >= stay {
					ttl = 1
				}
				ops = append(ops, storetype.Operation{Kind: storetype.OpCreate, Body: fmt.Appendf(nil, `{"id":"%06d","k":"k","ttl":%d}`, n, ttl), NoBody: true})
			}
			if _, err := c.Batch(t.Context(), nil, ops); err != nil {
				t.Fatal(err)
			}
		}
		count := func() int64 {
			t.Helper()
			stats, err := c.PartitionStats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return stats[0].Items
		}
		for round, want := range []int64{stay + mortal, stay, stay - 1} {
			if round == 2 { // the purge has already passed this item when it expires
				if _, err := c.Upsert(t.Context(), nil, []byte(`{"id":"000000","k":"k","ttl":1}`), storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Hour + time.Minute)
			synctest.Wait()
			if got := count(); got != want {
				t.Errorf("after round %d there are %d items, want %d", round+1, got, want)
			}
		}
		if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
			t.Error(err)
		}
	})
}
