package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// restored is a store that is lost and restored from a copy.
type restored struct {
	t    *testing.T
	fs   *vfs.MemFS
	db   *engine.DB
	c    *engine.Container
	copy *vfs.MemFS
}

func newRestored(t *testing.T, p storetype.ContainerProperties) *restored {
	r := &restored{t: t, fs: vfs.NewMem()}
	r.open()
	if _, err := r.db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	p.ID, p.KeyPaths = "items", []string{"/pk"}
	r.c = newContainer(t, r.db, p)
	t.Cleanup(func() { _ = r.db.Close() })
	return r
}

func (r *restored) open() {
	r.t.Helper()
	db, err := engine.Open("db", engine.Options{FS: r.fs, PurgeInterval: -1})
	if err != nil {
		r.t.Fatal(err)
	}
	r.db = db
}

// backup copies the open store.
func (r *restored) backup() {
	r.t.Helper()
	r.copy = vfs.NewMem()
	if _, err := vfs.Clone(r.fs, r.copy, "db", "db"); err != nil {
		r.t.Fatal(err)
	}
}

// restore replaces the store by a copy of the copy.
func (r *restored) restore() engine.Restoration {
	r.t.Helper()
	if err := r.db.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.fs = vfs.NewMem()
	if _, err := vfs.Clone(r.copy, r.fs, "db", "db"); err != nil {
		r.t.Fatal(err)
	}
	done, err := engine.Restore(r.t.Context(), "db", engine.Options{FS: r.fs}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.open()
	if err := r.db.Check(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if r.c, err = r.db.Container(r.t.Context(), "db", "items"); err != nil {
		r.t.Fatal(err)
	}
	return done
}

// keyIn returns a partition key in a partition.
func (r *restored) keyIn(p feed.Partition) string {
	r.t.Helper()
	for i := 0; ; i++ {
		key := fmt.Sprint("k", i)
		res, err := r.c.Upsert(r.t.Context(), nil, fmt.Appendf(nil, `{"id":"probe","pk":%q}`, key), storetype.WriteOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		if res.Partition == p.ID {
			return key
		}
	}
}

func (r *restored) write(key string, ids ...int) (last storetype.Result) {
	r.t.Helper()
	for _, id := range ids {
		res, err := r.c.Upsert(r.t.Context(), nil, fmt.Appendf(nil, `{"id":"%d","pk":%q}`, id, key), storetype.WriteOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		last = res
	}
	return last
}

func (r *restored) read(p feed.Partition, keys feed.Range, from feed.Start, most int) (feed.Page, error) {
	r.t.Helper()
	return r.db.Source(r.c).Read(r.t.Context(), feed.Request{Partition: p, Range: keys, From: from, MaxItems: most})
}

// numbers returns the integers from low to high.
func numbers(low, high int) (all []int) {
	for i := low; i <= high; i++ {
		all = append(all, i)
	}
	return all
}

// A reader has read part of the log that was lost. Its position must stay refused, however
// much is written later. Without the hole, the reader would skip the next writes.
func TestARestoreIsNoticedForGood(t *testing.T) {
	r := newRestored(t, storetype.ContainerProperties{})
	r.write("a", numbers(1, 5)...)
	r.backup()
	lost := r.write("a", numbers(6, 9)...)
	end := r.restore().Containers[0].Partitions[0].Next - 1
	after := r.write("a", numbers(10, 30)...)
	if after.ETag == lost.ETag || end < 5+holeWidth || after.LSN != end+21 {
		t.Errorf("the LSN is %d and the etag %s after the restore", after.LSN, after.ETag)
	}
	for _, lsn := range []int64{6, 9, 1000, 4 + holeWidth, end - 1} {
		_, err := r.read(feed.Partition{}, feed.Full(), feed.After(feed.Continuation(fmt.Sprintf(`"%d"`, lsn))), 100)
		if history, ok := errors.AsType[*feed.HistoryLostError](err); !ok || !history.Ended || history.Oldest != `"5"` {
			t.Errorf("from %d: %v", lsn, err)
		}
	}
	for lsn, want := range map[int64]int{3: 23, 5: 21, end: 21, end + 1: 20} {
		page, err := r.read(feed.Partition{}, feed.Full(), feed.After(feed.Continuation(fmt.Sprintf(`"%d"`, lsn))), 100)
		if err != nil || len(page.Changes) != want {
			t.Fatalf("from %d: %d changes, want %d, %v", lsn, len(page.Changes), want, err)
		}
		if lag := page.End - page.Changes[0].LSN + 1 - page.Unused; lag != int64(want) {
			t.Errorf("from %d: a lag of %d transactions, want %d", lsn, lag, want)
		}
	}
}

// The partitions of a restored container have holes at different LSNs. After they were
// merged, a reader of the merged partition passes one partition's transactions in the
// other one's hole. It must get every change once, and its positions must stay valid for
// all parts of the range.
func TestAMergedPartitionIsReadAcrossTheHolesOfItsParents(t *testing.T) {
	for _, most := range []int{1, 3, 100} {
		r := newRestored(t, storetype.ContainerProperties{Partitions: 2})
		ps, err := r.c.Partitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		left, right := r.keyIn(ps[0]), r.keyIn(ps[1])
		r.write(left, numbers(1, 4)...)
		r.write(right, numbers(1, 20)...)
		r.backup()
		r.restore()
		merged, err := r.c.Merge(t.Context(), ps[0].ID, ps[1].ID)
		if err != nil {
			t.Fatal(err)
		}
		r.write(left, numbers(5, 8)...)
		r.write(right, numbers(21, 24)...)
		seen, last := map[string]int{}, int64(0)
		for from := feed.Beginning(); ; {
			page, err := r.read(merged, feed.Range{}, from, most)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Changes) == 0 {
				break
			}
			for _, c := range page.Changes {
				seen[string(c.Current)]++
				if c.LSN < last {
					t.Fatalf("pages of %d: LSN %d after %d", most, c.LSN, last)
				}
				last = c.LSN
			}
			from = feed.After(page.Continuation)
			for _, p := range ps { // the position is valid for the parts of the range, too
				if _, err := r.read(merged, p.Range, from, most); err != nil {
					t.Fatalf("from %s, keys %v: %v", page.Continuation, p.Range, err)
				}
			}
		}
		for document, n := range seen {
			if n != 1 {
				t.Errorf("pages of %d: %s was returned %d times", most, document, n)
			}
		}
		if items := 4 + 20 + 4 + 4; len(seen) < items {
			t.Errorf("pages of %d: %d changes, want %d", most, len(seen), items)
		}
	}
}

// A restore must give no number again: not that of a database, a container, a record, a
// partition or a document.
func TestARestoreUsesNoNumberAgain(t *testing.T) {
	r := newRestored(t, storetype.ContainerProperties{})
	r.write("a", 1)
	r.backup()
	numbers := func() (names []string) {
		d, err := r.db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "new"})
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.db.CreateContainer(t.Context(), "new", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}})
		if err != nil {
			t.Fatal(err)
		}
		record, err := r.db.CreateRecord(t.Context(), "new", engine.Record{Name: "r", Value: []byte(`1`)})
		if err != nil {
			t.Fatal(err)
		}
		children, err := r.c.Split(t.Context(), "0", "")
		if err != nil {
			t.Fatal(err)
		}
		replaced, err := r.db.ReplaceContainer(t.Context(), "db", storetype.ContainerProperties{ID: "items", DefaultTTL: -1})
		if err != nil {
			t.Fatal(err)
		}
		p, err := replaced.Properties(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := r.write("a", 2)
		return append(names, d.RID, c.Identity().ContainerRID, fmt.Sprint("record ", record.Number), "partition "+children[0].ID, "partition "+children[1].ID,
			p.ETag, w.ETag, string(property(t, w.Body, "_rid")))
	}
	used := map[string]bool{}
	for range 3 {
		for _, name := range numbers() {
			if used[name] {
				t.Errorf("%s was used again", name)
			}
			used[name] = true
		}
		r.restore()
		r.backup()
	}
}

// One copy is restored twice, and what was written in between is lost. The second restore must
// not use the LSNs of the first one: a reader from in between would skip the next writes, and
// a condition on an ETag from in between would hold for another version.
func TestASecondRestoreOfACopyUsesOtherNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRestored(t, storetype.ContainerProperties{})
		r.write("a", numbers(1, 5)...)
		r.backup()
		etags := map[string]bool{}
		var positions []int64
		for range 4 {
			time.Sleep(time.Second)
			end := r.restore().Containers[0].Partitions[0].Next - 1
			for i := range 50 {
				w := r.write("a", 1+i%5)
				if etags[w.ETag] {
					t.Fatalf("the ETag %s is used again", w.ETag)
				}
				etags[w.ETag] = true
			}
			for _, lsn := range positions {
				_, err := r.read(feed.Partition{}, feed.Full(), feed.After(feed.Continuation(fmt.Sprintf(`"%d"`, lsn))), 100)
				if history, ok := errors.AsType[*feed.HistoryLostError](err); !ok || !history.Ended || history.Oldest != `"5"` {
					t.Errorf("from %d, which an earlier restore had: %v", lsn, err)
				}
			}
			positions = append(positions, end, end+1, end+50)
		}
	})
}

// Power is lost at any point of a restore. Then the store is either as the copy or
// restored, and the restore can be run again.
func TestARestoreIsAtomic(t *testing.T) {
	r := newRestored(t, storetype.ContainerProperties{Partitions: 3})
	for i := range 40 {
		r.write(fmt.Sprint(i), 1)
	}
	r.backup()
	done := false
	outcomes := map[bool]int{}
	for operations := int64(1); !done; operations++ {
		crashable := vfs.NewCrashableMem()
		if _, err := vfs.Clone(r.copy, crashable, "db", "db", vfs.CloneSync); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"db", ""} {
			dir, err := crashable.OpenDir(name)
			if err == nil {
				err = errors.Join(dir.Sync(), dir.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var n atomic.Int64 // Pebble's own goroutines use the disk, too
		var crashed atomic.Pointer[vfs.MemFS]
		hook := &hookFS{FS: crashable, before: func(fileOp) {
			if n.Add(1) == operations {
				crashed.Store(crashable.CrashClone(vfs.CrashCloneCfg{}))
			}
		}}
		plan, err := engine.Restore(t.Context(), "db", engine.Options{FS: hook}, nil)
		if err != nil {
			t.Fatal(err)
		}
		after := crashed.Load()
		if done = after == nil; done {
			break
		}
		db, err := engine.Open("db", engine.Options{FS: after, PurgeInterval: -1})
		if err != nil {
			t.Fatalf("after %d operations: %v", operations, err)
		}
		if err := db.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := db.Container(t.Context(), "db", "items")
		if err != nil {
			t.Fatal(err)
		}
		stats, err := c.PartitionStats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range stats {
			before := plan.Containers[0].Partitions[i]
			if jumped := s.LSN == before.Next-1; !jumped && s.LSN != before.Last || jumped != (stats[0].LSN > holeWidth) {
				t.Fatalf("after %d operations: partition %s ends at %d; it had %d", operations, s.ID, s.LSN, before.Last)
			}
		}
		outcomes[stats[0].LSN > holeWidth]++
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if again, err := engine.Restore(t.Context(), "db", engine.Options{FS: after}, nil); err != nil || again.Incarnation == plan.Incarnation ||
			again.Previous.IsZero() == (stats[0].LSN > holeWidth) {
			t.Fatalf("again: %+v, %v", again, err)
		}
	}
	if outcomes[true] == 0 || outcomes[false] == 0 {
		t.Errorf("restored or not after a crash: %v; want both", outcomes)
	}
}

func TestARestoreThatIsNotConfirmedChangesNothing(t *testing.T) {
	r := newRestored(t, storetype.ContainerProperties{})
	r.write("a", 1)
	if err := r.db.Close(); err != nil {
		t.Fatal(err)
	}
	plan, err := engine.Restore(t.Context(), "db", engine.Options{FS: r.fs}, func(p engine.Restoration) (bool, error) {
		if len(p.Containers) != 1 || time.Since(p.LastWrite) > time.Hour || p.Containers[0].Partitions[0].Next < 2+holeWidth {
			t.Errorf("%+v", p)
		}
		return false, nil
	})
	if !errors.Is(err, engine.ErrNotConfirmed) {
		t.Errorf("%+v, %v", plan, err)
	}
	r.open()
	if r.c, err = r.db.Container(t.Context(), "db", "items"); err != nil {
		t.Fatal(err)
	}
	if w := r.write("a", 2); w.LSN != 2 {
		t.Errorf("the next LSN is %d", w.LSN)
	}
	if _, err := engine.Restore(t.Context(), "other", engine.Options{FS: r.fs}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory without a store: %v", err)
	}
}

// An item of the copy has expired. A purge would write its delete with an LSN that the lost
// part may have used, so a restore must not purge. The next open does.
func TestARestoreWritesNothingBeforeTheHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRestored(t, storetype.ContainerProperties{DefaultTTL: 1, Retention: time.Hour})
		r.write("a", 1)
		time.Sleep(5 * time.Second)
		r.backup()
		if err := r.db.Close(); err != nil {
			t.Fatal(err)
		}
		r.fs = r.copy
		plan, err := engine.Restore(t.Context(), "db", engine.Options{FS: r.fs}, func(engine.Restoration) (bool, error) {
			time.Sleep(time.Minute) // the user thinks
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r.open()
		if r.c, err = r.db.Container(t.Context(), "db", "items"); err != nil {
			t.Fatal(err)
		}
		stats, err := r.c.PartitionStats(t.Context())
		if err != nil || stats[0].LSN != plan.Containers[0].Partitions[0].Next-1 {
			t.Errorf("the last LSN is %d, %v; want that of the plan, %+v", stats[0].LSN, err, plan)
		}
		_, err = r.read(feed.Partition{}, feed.Full(), feed.After(`"2"`), 1)
		if lost, ok := errors.AsType[*feed.HistoryLostError](err); !ok || lost.Oldest != `"1"` {
			t.Errorf("the hole begins elsewhere than at the copy's end: %v", err)
		}
	})
}
