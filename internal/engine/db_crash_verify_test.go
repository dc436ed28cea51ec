package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// verifyCrash checks a store that was opened after a crash. k is the state that clients
// knew at the crash. verifyCrash returns the version of each item in the store.
func verifyCrash(t *testing.T, db *engine.DB, k *known) map[crashItem]int {
	t.Helper()
	ctx := t.Context()
	if err := db.Check(ctx); err != nil {
		t.Fatalf("Check after the crash: %v", err)
	}
	versions := map[crashItem]int{}
	for n, p := range crashContainers {
		c, err := db.Container(ctx, "db", p.ID)
		if errors.Is(err, feed.ErrNotFound) && len(k.acked) == 0 {
			continue // the crash came before the container was created
		}
		if err != nil {
			t.Fatalf("container %s: %v", p.ID, err)
		}
		verifyItems(t, c, n, k, versions)
		verifyPartitions(t, c, n, k)
		if p.Retention > 0 {
			verifyVersions(t, db.Source(c), c, n, k, versions)
		}
	}
	verifyTransactions(t, k, versions)
	return versions
}

// verifyTransactions checks the last transaction that each writer sent. If it was not
// acknowledged, either all of its versions must be present or none. No other item may be
// newer than its acknowledged version.
func verifyTransactions(t *testing.T, k *known, versions map[crashItem]int) {
	t.Helper()
	tried := map[crashItem]bool{}
	for _, items := range k.tried {
		applied := 0
		for i, v := range items {
			tried[i] = true
			if versions[i] == v {
				applied++
			}
		}
		if applied != 0 && applied != len(items) {
			t.Fatalf("the transaction %v has %d of %d writes", items, applied, len(items))
		}
	}
	for i, v := range versions {
		if v > k.acked[i] && !tried[i] {
			t.Fatalf("%v: version %d is present, but no writer sent it", i, v)
		}
	}
}

// verifyItems checks that every item has its last acknowledged version or the next one,
// whose write was in progress. The item must not be older than a version that a reader
// received.
func verifyItems(t *testing.T, c *engine.Container, n int, k *known, versions map[crashItem]int) {
	t.Helper()
	for w := range crashWriters {
		for key := range crashKeys {
			for id := range crashIDs {
				i := crashItem{n, fmt.Sprintf("w%dk%d", w, key), fmt.Sprintf("i%d", id)}
				res, err := c.Read(t.Context(), feed.PartitionKey{i.key}, i.id, storetype.ReadOptions{})
				v, acked := 0, k.acked[i]
				switch {
				case err == nil:
					doc, err := readCrashDoc(res.Body)
					if err != nil {
						t.Fatal(err)
					}
					v = doc.version
				case !errors.Is(err, feed.ErrNotFound):
					t.Fatalf("read %v: %v", i, err)
				case (acked+1)%crashDelete == 0:
					v = acked + 1
				case acked%crashDelete == 0:
					v = acked
				}
				if v != acked && v != acked+1 {
					t.Fatalf("%v: version %d was acknowledged, but version %d is present (0 means none)", i, acked, v)
				}
				if d := k.delivered[i]; v < d.version || err == nil && v == d.version && res.LSN != d.lsn {
					t.Fatalf("%v: version %d at LSN %d was delivered, but version %d at LSN %d is present", i, d.version, d.lsn, v, res.LSN)
				}
				versions[i] = v
			}
		}
	}
}

// verifyPartitions checks that the result of every acknowledged split and merge is
// durable. Each resulting partition must be live or an ancestor of a live one.
func verifyPartitions(t *testing.T, c *engine.Container, n int, k *known) {
	t.Helper()
	ps, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, p := range ps {
		for _, id := range append(slices.Clone(p.Parents), p.ID) {
			have[fmt.Sprintf("%d/%s", n, id)] = true
		}
	}
	for id := range k.partitions {
		if strings.HasPrefix(id, fmt.Sprintf("%d/", n)) && !have[id] {
			t.Fatalf("partition %s was acknowledged, but the partitions are %v", id, ps)
		}
	}
}

// verifyVersions checks the feed of all versions. It must have each version of each item
// exactly once and in order, up to the item's current version. A version that a reader
// received before the crash must still have its LSN.
func verifyVersions(t *testing.T, src feed.Source, c *engine.Container, n int, k *known, versions map[crashItem]int) {
	t.Helper()
	ps, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := map[crashItem]delivery{}
	lsns := map[crashItem]int64{}
	for _, p := range ps {
		from := feed.Continuation(`"0"`)
		for {
			page, err := src.Read(t.Context(), feed.Request{Partition: p, From: feed.After(from), Mode: feed.AllVersionsAndDeletes, MaxItems: 1000})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Changes) == 0 {
				break
			}
			for _, ch := range page.Changes {
				i, d, err := deliveryOf(n, ch)
				if err != nil {
					t.Fatal(err)
				}
				if i.id[0] != 'i' {
					continue
				}
				if d.version != last[i].version+1 {
					t.Fatalf("%v: version %d at LSN %d follows version %d", i, d.version, d.lsn, last[i].version)
				}
				last[i] = d
				if d.version == k.delivered[i].version {
					lsns[i] = d.lsn
				}
			}
			from = page.Continuation
		}
	}
	for i, v := range versions {
		if i.container != n {
			continue
		}
		if last[i].version != v {
			t.Fatalf("%v: the feed ends at version %d, but the item has version %d", i, last[i].version, v)
		}
		if d := k.delivered[i]; d.version > 0 && lsns[i] != d.lsn {
			t.Fatalf("%v: version %d was delivered at LSN %d, but is at LSN %d", i, d.version, d.lsn, lsns[i])
		}
	}
}
