package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// crosses reports whether the first or the last key of a busy segment divides the range
// of keys from first to last.
func (b *sstPartitions) crosses(first, last []byte) bool {
	for _, p := range *b.prefixes.Load() {
		for _, border := range [][]byte{p, layout.Successor(p)} {
			if bytes.Compare(first, border) < 0 && bytes.Compare(last, border) >= 0 {
				return true
			}
		}
	}
	return false
}

func TestSpanEndsAtTheNextBorderOfABusySegment(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	key := func() []byte {
		return layout.AppendLogKey(nil, "ALI"[rng.IntN(3)], rng.Uint32N(3), rng.Uint32N(4), rng.Int64N(100), 0)
	}
	b := &sstPartitions{window: 20 * minLarge}
	for round := range 200 {
		for b.prefixes.Store(nil); b.prefixes.Load() == nil; {
			b.note(key(), rng.IntN(2*minLarge))
		}
		for range 100 {
			start := key()
			_, end, err := b.span(start)
			if err != nil {
				t.Fatal(err)
			}
			if end == nil { // nil means that the file may extend to the last key
				end = []byte{0xFF}
			}
			if bytes.Compare(end, start) <= 0 {
				t.Fatalf("round %d: the span that begins at %x ends at %x", round, start, end)
			}
			last := key()
			if bytes.Compare(last, start) < 0 {
				continue
			}
			if inside := bytes.Compare(last, end) < 0; inside == b.crosses(start, last) {
				t.Fatalf("round %d: %x is in the file that begins with %x: %v; busy: %x", round, last, start, inside, *b.prefixes.Load())
			}
		}
	}
}

// No table may hold log entries of two busy partitions. Otherwise every compaction would
// rewrite all documents.
func TestNoFileHoldsTheLogsOfTwoBusyPartitions(t *testing.T) {
	db, err := OpenMemory(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
		t.Fatal(err)
	}
	c, err := db.CreateContainer(t.Context(), "db", storetype.ContainerProperties{ID: "c", KeyPaths: []string{"/id"}, Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("x"), 16<<10)
	write := func(from, to int) {
		for n := from; n < to; n++ {
			if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%d","text":"%s"}`, n, text), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		// Flush and compact, so that no background work changes the tables while the test
		// lists them.
		if err := errors.Join(db.pebble.Flush(), db.pebble.Compact(t.Context(), []byte{0}, []byte{0xFF}, false)); err != nil {
			t.Fatal(err)
		}
	}
	tables := func() map[uint64]pebble.TableInfo {
		levels, err := db.pebble.SSTables()
		if err != nil {
			t.Fatal(err)
		}
		all := map[uint64]pebble.TableInfo{}
		for _, level := range levels {
			for _, table := range level {
				all[uint64(table.FileNum)] = table.TableInfo
			}
		}
		return all
	}
	write(0, 500)
	early := tables()
	if n := len(*db.sstPartitions.prefixes.Load()); n != 2 {
		t.Fatalf("%d segments are busy, want those of both partitions", n)
	}
	write(500, 1000)
	logs := 0
	for n, table := range tables() {
		if _, ok := early[n]; ok {
			continue
		}
		first, last := table.Smallest.UserKey, table.Largest.UserKey
		if db.sstPartitions.crosses(first, last) {
			t.Errorf("file %d holds %x to %x", n, first, last)
		}
		if first[0] == layout.SpaceLog {
			logs++
		}
	}
	if logs < 2 {
		t.Errorf("%d files hold logs only, want one of each partition at least", logs)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
