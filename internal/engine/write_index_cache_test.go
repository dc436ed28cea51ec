package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// recentStore is a store whose index cache has tiny generations. want has the ids of the
// items that must exist.
type recentStore struct {
	t    *testing.T
	fs   *vfs.MemFS
	rng  *rand.Rand
	db   *DB
	c    *Container
	want map[string]bool
	// judged counts, by cacheState, where the sequencer found the old index entry of a
	// written item.
	judged [3]int
	// mask selects the bits of a key's hash that the cache uses. With few bits, many keys
	// share a hash.
	mask uint32
}

func (s *recentStore) open() {
	db, err := Open("/store", Options{FS: s.fs})
	if err != nil {
		s.t.Fatal(err)
	}
	s.db = db
	if _, err := db.CreateDatabase(s.t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil && !errors.Is(err, storetype.ErrConflict) {
		s.t.Fatal(err)
	}
	if s.c, err = db.Container(s.t.Context(), "db", "c"); errors.Is(err, feed.ErrNotFound) {
		s.c, err = db.CreateContainer(s.t.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}, Partitions: 2})
	}
	if err == nil {
		err = db.do(context.Background(), func(g *group) error {
			g.cache.keys, g.cache.most, g.cache.mask = 3, 6, s.mask
			return nil
		})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// write creates, replaces or deletes a random item. It checks that the result agrees with
// want.
func (s *recentStore) write() {
	id := fmt.Sprint(s.rng.IntN(60))
	pk := feed.PartitionKey{"p" + id}
	var err error
	_ = s.db.do(context.Background(), func(g *group) error { // this function reads the cache and writes nothing
		doc, err := layout.ParseDocument(body(id, "p"+id, 0), s.c.paths, false)
		if err != nil {
			s.t.Fatal(err)
		}
		key, _ := layout.AppendIndexKey(nil, s.c.number, s.c.hash, doc.Components(), id)
		_, _, where, err := g.cache.find(key)
		s.judged[where]++
		if r := &g.cache; slices.ContainsFunc(r.generations[len(r.generations):cap(r.generations)], func(old *generation) bool { return old != nil }) {
			s.t.Error("the memory of dropped generations is retained")
		}
		return err
	})
	switch s.rng.IntN(4) {
	case 0:
		_, err = s.c.Create(s.t.Context(), nil, body(id, "p"+id, 1), storetype.WriteOptions{})
		if errors.Is(err, storetype.ErrConflict) != s.want[id] {
			s.t.Fatalf("create of %s returned %v; the item exists: %t", id, err, s.want[id])
		}
		s.want[id] = true
	case 1:
		_, err = s.c.Replace(s.t.Context(), pk, id, body(id, "p"+id, 2), storetype.WriteOptions{})
		if errors.Is(err, feed.ErrNotFound) == s.want[id] {
			s.t.Fatalf("replace of %s returned %v; the item exists: %t", id, err, s.want[id])
		}
	case 2:
		// Two operations on one item are in one group, and the later one decides whether
		// the item exists.
		ops := []storetype.Operation{{Kind: storetype.OpUpsert, Body: body(id, "p"+id, 3)}, {Kind: storetype.OpDelete, ID: id}}
		if s.want[id] {
			ops = []storetype.Operation{{Kind: storetype.OpDelete, ID: id}, {Kind: storetype.OpCreate, Body: body(id, "p"+id, 4)}}
		}
		if _, err := s.c.Batch(s.t.Context(), pk, ops); err != nil {
			s.t.Fatalf("batch on %s, which exists: %t: %v", id, s.want[id], err)
		}
	default:
		_, err = s.c.Delete(s.t.Context(), pk, id, storetype.WriteOptions{})
		if errors.Is(err, feed.ErrNotFound) == s.want[id] {
			s.t.Fatalf("delete of %s returned %v; the item existed: %t", id, err, s.want[id])
		}
		delete(s.want, id)
	}
	if err != nil && !errors.Is(err, storetype.ErrConflict) && !errors.Is(err, feed.ErrNotFound) {
		s.t.Fatal(err)
	}
}

// change splits a partition, merges two, or deletes and recreates the container.
func (s *recentStore) change() {
	ps, err := s.c.Partitions(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	switch n := s.rng.IntN(10); {
	case n == 0:
		if err = s.db.DeleteContainer(s.t.Context(), "db", "c"); err == nil {
			s.want = map[string]bool{}
			s.c, err = s.db.CreateContainer(s.t.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/pk"}})
		}
	case n < 5 && len(ps) > 1:
		at := s.rng.IntN(len(ps) - 1)
		_, err = s.c.Merge(s.t.Context(), ps[at].ID, ps[at+1].ID)
	default:
		_, err = s.c.Split(s.t.Context(), ps[s.rng.IntN(len(ps))].ID, "")
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// The index cache must never return an entry that a later write has replaced. The test
// compares random writes with the expected items. With every other seed, the hashes are
// so short that keys share them.
func TestNoWriteIsDecidedByAStaleEntry(t *testing.T) {
	for seed := range uint64(8) {
		s := &recentStore{t: t, fs: vfs.NewMem(), rng: rand.New(rand.NewPCG(seed, 1)), want: map[string]bool{}, mask: math.MaxUint32}
		if seed%2 == 1 {
			s.mask = 15
		}
		s.open()
		for step := range 800 {
			switch n := s.rng.IntN(200); {
			case n == 0:
				closeChecked(t, s.db)
				s.open()
			case n < 3:
				s.change()
			case n < 12:
				if err := s.db.pebble.Flush(); err != nil {
					t.Fatal(err)
				}
			default:
				s.write()
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		closeChecked(t, s.db)
		if slices.Min(s.judged[:]) < 50 {
			t.Errorf("seed %d: %d writes were decided by files, by recent entries, and by both and memtables; one of these is too rare", seed, s.judged)
		}
	}
}

func TestDataInMemtablesIsNotSettled(t *testing.T) {
	db := openPebble(t, Options{})
	c := newContainer(t, db, storetype.ContainerProperties{})
	check := func(want bool) {
		t.Helper()
		if settled, err := allInFiles(db.pebble); err != nil || settled != want {
			t.Errorf("settled is %t (%v), want %t", settled, err, want)
		}
	}
	check(false)
	if err := db.pebble.Flush(); err != nil {
		t.Fatal(err)
	}
	check(true)
	upsert(t, c, "1", "p", 1)
	check(false)
}
