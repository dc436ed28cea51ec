package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/storetype"
)

// lossesStore is a store with a container c that keeps versions for a minute. c has two
// partitions. The partition key left is in the first one, and right in the second one.
type lossesStore struct {
	t           *testing.T
	fs          vfs.FS
	db          *engine.DB
	c           *engine.Container
	src         feed.Source
	left, right feed.PartitionKey
}

func newLossesStore(t *testing.T) *lossesStore {
	t.Helper()
	s := &lossesStore{t: t, fs: vfs.NewMem()}
	db, err := engine.Open("db", engine.Options{FS: s.fs})
	if err != nil {
		t.Fatal(err)
	}
	s.db = db
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	p := storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}, Partitions: 2, Retention: time.Minute}
	if s.c, err = db.CreateContainer(t.Context(), "db", p); err != nil {
		t.Fatal(err)
	}
	s.src = db.Source(s.c)
	border := s.partitions()[0].Range.Max
	for n := 0; s.left == nil || s.right == nil; n++ {
		key := feed.PartitionKey{fmt.Sprint(n)}
		if epk.Hex(epk.V2.Append(nil, components(key))) < border {
			s.left = key
		} else {
			s.right = key
		}
	}
	return s
}

func (s *lossesStore) close() {
	s.t.Helper()
	if err := errors.Join(s.db.Check(s.t.Context()), s.db.Close()); err != nil {
		s.t.Error(err)
	}
}

// reopen closes the store and opens it again.
func (s *lossesStore) reopen() {
	s.t.Helper()
	s.close()
	var err error
	if s.db, err = engine.Open("db", engine.Options{FS: s.fs}); err != nil {
		s.t.Fatal(err)
	}
	if s.c, err = s.db.Container(s.t.Context(), "db", "c"); err != nil {
		s.t.Fatal(err)
	}
	s.src = s.db.Source(s.c)
}

func (s *lossesStore) partitions() []feed.Partition {
	s.t.Helper()
	ps, err := s.src.Partitions(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return ps
}

func (s *lossesStore) upsert(key feed.PartitionKey) {
	s.t.Helper()
	if _, err := s.c.Upsert(s.t.Context(), nil, fmt.Appendf(nil, `{"id":"a","pk":%q}`, key[0]), storetype.WriteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// read returns a page of the versions in a range of keys, after a position.
func (s *lossesStore) read(keys feed.Range, after feed.Continuation) (feed.Page, error) {
	return s.src.Read(s.t.Context(), feed.Request{Range: keys, From: feed.After(after), Mode: feed.AllVersionsAndDeletes})
}

func TestMergeLosesNoHistoryOfARangeThatWasQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLossesStore(t)
		defer s.close()
		ps := s.partitions()
		s.upsert(s.left)
		page, err := s.read(ps[0].Range, `"0"`)
		if err != nil || len(page.Changes) != 1 {
			t.Fatalf("%d changes, %v", len(page.Changes), err)
		}
		position := page.Continuation
		// The right partition receives more writes, and its versions pass their
		// retention. The left partition receives none, so its reader stays at the same
		// position.
		for range 10 {
			s.upsert(s.right)
			time.Sleep(20 * time.Second)
			if page, err = s.read(ps[0].Range, position); err != nil || page.Continuation != position {
				t.Fatalf("quiet range: %q, %v", page.Continuation, err)
			}
		}
		merged, err := s.c.Merge(t.Context(), ps[0].ID, ps[1].ID)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if page, err = s.read(ps[0].Range, position); err != nil {
				t.Errorf("a reader that has read its whole range gets an error after the merge: %v", err)
			}
			var lost *feed.HistoryLostError
			if _, err := s.read(ps[1].Range, `"1"`); !errors.As(err, &lost) {
				t.Errorf("the lost history of the neighbour was not reported: %v", err)
			}
			// In the second pass of the loop, the log segments of both former partitions
			// are deleted.
			s.upsert(s.left)
			s.upsert(s.right)
			time.Sleep(5 * time.Minute)
			position = page.Continuation
			if page, err = s.read(ps[0].Range, position); !errors.As(err, &lost) {
				t.Errorf("after five minutes without a read: %v", err)
			} else {
				position = lost.Oldest
			}
			s.upsert(s.left)
			if page, err = s.read(ps[0].Range, position); err != nil || len(page.Changes) != 1 {
				t.Errorf("from the oldest position: %d changes, %v", len(page.Changes), err)
			}
			position = page.Continuation
		}
		if ps = s.partitions(); len(ps) != 1 || ps[0].ID != merged.ID {
			t.Errorf("partitions %v", ps)
		}
	})
}

// The store deletes a log segment when all of its versions are past their retention. A
// read from a position before them must still return a *feed.HistoryLostError, after any
// number of splits, merges and reopenings.
func TestLostHistoryIsReportedAfterItsSegmentIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLossesStore(t)
		defer s.close()
		ps := s.partitions()
		s.upsert(s.left)
		if _, err := s.c.Split(t.Context(), ps[0].ID, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.c.Delete(t.Context(), s.left, "a", storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		lost := func(what string) {
			t.Helper()
			var e *feed.HistoryLostError
			_, err := s.src.Read(t.Context(), feed.Request{Key: s.left, From: feed.After(`"0"`), Mode: feed.AllVersionsAndDeletes})
			if !errors.As(err, &e) {
				t.Errorf("%s: a position before all lost versions: %v", what, err)
			}
			page, err := s.c.Feed(t.Context(), feed.Request{From: feed.After(`"0"`), Mode: feed.AllVersionsAndDeletes})
			if !errors.As(err, &e) {
				t.Errorf("%s: a read of all partitions from a position before all lost versions: %d changes, %v", what, len(page.Changes), err)
			}
			if _, err := s.read(ps[1].Range, `"0"`); err != nil {
				t.Errorf("%s: a range that has lost nothing: %v", what, err)
			}
		}
		lost("split once")
		for range 3 {
			point := epk.Hex(epk.V2.Append(nil, components(s.left)))
			for _, p := range s.partitions() {
				if p.Range.Holds(point) {
					if _, err := s.c.Split(t.Context(), p.ID, ""); err != nil {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(5 * time.Minute)
			lost("split again")
			s.reopen()
			lost("opened again")
		}
		for ps := s.partitions(); len(ps) > 2; ps = s.partitions() {
			if _, err := s.c.Merge(t.Context(), ps[0].ID, ps[1].ID); err != nil {
				t.Fatal(err)
			}
			lost("merged")
			s.reopen()
			lost("merged and opened again")
		}
	})
}

// Each partition has losses of its own. A read of all partitions must report those of the
// second one as well, also from a position after all losses of the first.
func TestLossesOfEveryPartitionCountForAReadOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLossesStore(t)
		defer s.close()
		ps, between := s.partitions(), feed.Continuation("")
		for i, key := range []feed.PartitionKey{s.left, s.right} {
			s.upsert(key)
			if _, err := s.c.Delete(t.Context(), key, "a", storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			if _, err := s.c.Split(t.Context(), ps[i].ID, ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute) // the segment of the former partition is empty, and is deleted
			if i == 0 {
				page, err := s.c.Feed(t.Context(), feed.Request{From: feed.Now(), Mode: feed.AllVersionsAndDeletes})
				if err != nil {
					t.Fatal(err)
				}
				between = page.Continuation
			}
		}
		page, err := s.c.Feed(t.Context(), feed.Request{From: feed.After(between), Mode: feed.AllVersionsAndDeletes})
		if !errors.As(err, new(*feed.HistoryLostError)) {
			t.Errorf("from %s: %d changes, %v; want the losses of the second partition reported", between, len(page.Changes), err)
		}
	})
}

// Versions that were not kept before a container got its retention count as lost. The
// store remembers that even for a partition without a write of its own, whose ancestor's
// segment was empty and is deleted, when that partition is split in turn.
func TestLostHistoryOfAQuietPartitionIsReportedAfterItsSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLossesStore(t)
		defer s.close()
		retain := func(d time.Duration) {
			if _, err := s.db.ReplaceContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", Retention: d}); err != nil {
				t.Fatal(err)
			}
		}
		remove := func(key feed.PartitionKey) {
			if _, err := s.c.Delete(t.Context(), key, "a", storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		retain(0)
		ps := s.partitions()
		merged, err := s.c.Merge(t.Context(), ps[0].ID, ps[1].ID)
		if err != nil {
			t.Fatal(err)
		}
		s.upsert(s.right)
		remove(s.right)
		s.upsert(s.left)
		ps, err = s.c.Split(t.Context(), merged.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		remove(s.left) // the merged partition's segment is now empty, and the purge deletes it
		time.Sleep(time.Minute)
		retain(time.Hour)
		lost := func(what string, keys feed.Range) {
			t.Helper()
			if page, err := s.read(keys, `"0"`); !errors.As(err, new(*feed.HistoryLostError)) {
				t.Errorf("%s: %d changes, %v", what, len(page.Changes), err)
			}
		}
		quiet := ps[1]
		lost("a quiet partition", quiet.Range)
		if ps, err = s.c.Split(t.Context(), quiet.ID, ""); err != nil {
			t.Fatal(err)
		}
		for _, p := range ps {
			lost("a part of a quiet partition", p.Range)
		}
		s.reopen()
		for _, p := range ps {
			lost("opened again", p.Range)
		}
	})
}

// A version that is one second past the retention must be reported as lost. It does not
// matter whether the purge has already removed it; here it never runs.
func TestVersionsPastTheirRetentionAreLostBeforeTheyAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := engine.OpenMemory(engine.Options{PurgeInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		s := &lossesStore{t: t, db: db}
		defer s.close()
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
			t.Fatal(err)
		}
		p := storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}, Retention: time.Minute}
		if s.c, err = db.CreateContainer(t.Context(), "db", p); err != nil {
			t.Fatal(err)
		}
		s.src = db.Source(s.c)
		s.upsert(feed.PartitionKey{"p"})
		time.Sleep(time.Minute)
		s.upsert(feed.PartitionKey{"p"})
		if page, err := s.read(feed.Full(), `"0"`); err != nil || len(page.Changes) != 2 {
			t.Errorf("within the retention: %d changes, %v", len(page.Changes), err)
		}
		time.Sleep(time.Second)
		var lost *feed.HistoryLostError
		if page, err := s.read(feed.Full(), `"0"`); !errors.As(err, &lost) || lost.Oldest != `"1"` {
			t.Fatalf("a second later: %d changes, %v", len(page.Changes), err)
		}
		if page, err := s.read(feed.Full(), lost.Oldest); err != nil || len(page.Changes) != 1 {
			t.Errorf("from the oldest: %d changes, %v", len(page.Changes), err)
		}
	})
}

// The retention of a container becomes longer after versions were removed. The removed
// versions stay lost, although they may be newer than a kept version in another segment.
// The oldest position that the error names must be after all of them. Otherwise a reader
// that resumes there would get the same error forever. It must not skip the kept versions.
func TestOldestPositionIsReadableAfterTheRetentionWasLengthened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLossesStore(t)
		defer s.close()
		s.upsert(s.left) // LSN 1
		time.Sleep(2 * time.Second)
		s.upsert(s.right) // LSN 1 of the right partition
		time.Sleep(time.Second)
		s.upsert(s.left) // LSN 2
		// The purge removes the versions of a segment when the oldest one is past the
		// retention by a tenth of it. At 67 s after the first write, it has removed the
		// left partition's versions, and not the right one's.
		time.Sleep(64*time.Second + 500*time.Millisecond)
		if _, err := s.db.ReplaceContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", Retention: time.Hour}); err != nil {
			t.Fatal(err)
		}
		ps := s.partitions()
		if page, err := s.read(ps[1].Range, `"0"`); err != nil || len(page.Changes) != 1 {
			t.Fatalf("the right partition: %d changes, %v", len(page.Changes), err)
		}
		if _, err := s.c.Merge(t.Context(), ps[0].ID, ps[1].ID); err != nil {
			t.Fatal(err)
		}
		var lost *feed.HistoryLostError
		want := feed.Continuation(`"2;` + ps[1].Range.Min + `:0"`)
		if _, err := s.read(feed.Full(), `"0"`); !errors.As(err, &lost) || lost.Oldest != want {
			t.Fatalf("from the beginning: %v, oldest %s", err, lost.Oldest)
		}
		s.upsert(s.right)
		if page, err := s.read(feed.Full(), lost.Oldest); err != nil || len(page.Changes) != 2 || page.Continuation != `"3"` {
			t.Errorf("from the oldest position: %d changes up to %s, %v", len(page.Changes), page.Continuation, err)
		}
	})
}
