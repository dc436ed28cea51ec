package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// Each case damages one key or value of a valid store. Check must then report the broken
// invariant.
func TestCheckFindsEveryBrokenInvariant(t *testing.T) {
	key := func(space byte, c *Container, segment uint32, lsn int64, ordinal uint16, pk string) []byte {
		components, err := c.paths.FullKey(feed.PartitionKey{pk})
		if err != nil {
			t.Fatal(err)
		}
		return c.hash.Append(layout.AppendLogKey(nil, space, c.number, segment, lsn, ordinal), components)
	}
	index := func(c *Container, pk, id string) []byte {
		components, err := c.paths.FullKey(feed.PartitionKey{pk})
		if err != nil {
			t.Fatal(err)
		}
		k, _ := layout.AppendIndexKey(nil, c.number, c.hash, components, id)
		return k
	}
	get := func(g *group, key []byte) []byte {
		b, closer, err := g.db.pebble.Get(key)
		if err != nil {
			t.Fatalf("key %x: %v", key, err)
		}
		defer func() { _ = closer.Close() }()
		return append([]byte(nil), b...)
	}
	// Item a was written at LSN 1. The second version of item b was written at LSN 3.
	// Both are in partition 1 or 2, which are the parts of partition 0. Item c was
	// written at LSN 4, after the split.
	for name, k := range map[string]struct {
		want   string
		damage func(g *group, l *writeState)
	}{
		"a record of a missing database": {"belongs to a database that is not there", func(g *group, _ *writeState) {
			_ = g.batch.Set(recordKey(99, 1), []byte(`{"name":"a","value":""}`), nil)
		}},
		"an invalid record": {"cannot be read", func(g *group, l *writeState) {
			_ = g.batch.Set(recordKey(l.c.database, 1), []byte(`{`), nil)
		}},
		"a record above the counter": {"above the last assigned one", func(g *group, l *writeState) {
			_ = g.batch.Set(recordKey(l.c.database, 7), []byte(`{"name":"a","value":""}`), nil)
		}},
		"a name without a record": {"which does not have it", func(g *group, l *writeState) {
			_ = g.batch.Set(recordNameKey(l.c.database, "a"), []byte{0, 0, 0, 1}, nil)
		}},
		"a record without its name": {"cannot be found by name", func(g *group, l *writeState) {
			g.db.numbers.Record = 1
			_ = g.putNumbers()
			_ = g.batch.Set(recordKey(l.c.database, 1), []byte(`{"name":"a","value":""}`), nil)
		}},
		"a document without an index entry": {"in the index (found: false)", func(g *group, l *writeState) {
			_ = g.batch.Delete(index(l.c, "p", "a"), nil)
		}},
		"an index entry without a document": {"the index has 3 items and the log 2 documents", func(g *group, l *writeState) {
			_ = g.batch.Delete(key(layout.SpaceLog, l.c, 0, 1, 0, "p"), nil)
		}},
		"a document that was changed": {", ordinal 0", func(g *group, l *writeState) {
			k := key(layout.SpaceLog, l.c, 0, 1, 0, "p")
			v := get(g, k)
			v[7]++ // byte 7 is the lowest byte of _ts
			_ = g.batch.Set(k, v, nil)
		}},
		"a document cut short": {"LSN 1", func(g *group, l *writeState) {
			k := key(layout.SpaceLog, l.c, 0, 1, 0, "p")
			_ = g.batch.Set(k, get(g, k)[:layout.LogHeaderSize+10], nil)
		}},
		"one LSN in two segments of a lineage": {"LSN 1 is in segment 1, which is", func(g *group, l *writeState) {
			v := get(g, key(layout.SpaceLog, l.c, 0, 1, 0, "p"))
			_ = g.batch.Set(key(layout.SpaceLog, l.c, 1, 1, 0, "p"), v, nil)
		}},
		"one LSN in two transactions of a segment": {"is in two transactions", func(g *group, l *writeState) {
			v := get(g, key(layout.SpaceLog, l.c, 0, 1, 0, "p"))
			_ = g.batch.Set(key(layout.SpaceLog, l.c, 0, 1, 1, "other"), v, nil)
		}},
		"a child that begins before its parent's end": {"reads segment 0, which is", func(g *group, l *writeState) {
			m := l.meta.change()
			n := m.partitions[0].number
			s := m.segments[n]
			s.From--
			m.segments[n] = s
			l.replace(g, m, l.ends)
		}},
		"a child whose time is before its parent's": {"times", func(g *group, l *writeState) {
			p := l.meta.partitions[l.meta.find(key(0, l.c, 0, 0, 0, "p")[layout.LogKeySize:])]
			k := key(layout.SpaceLog, l.c, p.number, 4, 0, "p")
			v := get(g, k)
			v[6]-- // _ts becomes 256 seconds earlier
			_ = g.batch.Set(k, v, nil)
		}},
		"an LSN above the counter": {"which ends at", func(g *group, l *writeState) {
			v := get(g, key(layout.SpaceLog, l.c, 0, 1, 0, "p"))
			_ = g.batch.Set(key(layout.SpaceLog, l.c, l.meta.partitions[l.meta.find(key(0, l.c, 0, 0, 0, "p")[layout.LogKeySize:])].number, 77, 0, "p"), v, nil)
		}},
		"a key outside its partition": {"is not read by the partition", func(g *group, l *writeState) {
			index := l.meta.find(key(0, l.c, 0, 0, 0, "p")[layout.LogKeySize:])
			other := l.meta.partitions[1-index].number
			v := get(g, key(layout.SpaceLog, l.c, 0, 1, 0, "p"))
			_ = g.batch.Set(key(layout.SpaceLog, l.c, other, 4, 9, "p"), v, nil)
		}},
		"a missing segment": {"is in segment 9", func(g *group, l *writeState) {
			v := get(g, key(layout.SpaceLog, l.c, 0, 1, 0, "p"))
			_ = g.batch.Set(key(layout.SpaceLog, l.c, 9, 1, 0, "p"), v, nil)
		}},
		"a time that goes back": {"before that of", func(g *group, l *writeState) {
			k := key(layout.SpaceLog, l.c, 0, 3, 0, "p")
			v := get(g, k)
			v[6]-- // _ts becomes 256 seconds earlier
			_ = g.batch.Set(k, v, nil)
		}},
		"a counter that is too low": {"stored and", func(g *group, l *writeState) {
			v := layout.Counters{LSN: 1, Docs: 99}.Encode()
			_ = g.batch.Set(layout.PartitionKeyOf(l.c.number, l.meta.partitions[0].number), v[:], nil)
		}},
		"a document number above the counter": {"the last assigned one is", func(g *group, l *writeState) {
			for i, p := range l.meta.partitions {
				v := layout.Counters{LSN: l.ends[i], Docs: 1, TS: g.ts}.Encode()
				_ = g.batch.Set(layout.PartitionKeyOf(l.c.number, p.number), v[:], nil)
			}
		}},
		"counters of a retired partition": {"counters of 3 partitions", func(g *group, l *writeState) {
			v := layout.Counters{}.Encode()
			_ = g.batch.Set(layout.PartitionKeyOf(l.c.number, 0), v[:], nil)
		}},
		"partitions that leave a gap": {"is the next key", func(g *group, l *writeState) {
			m := l.meta.change()
			p := *m.partitions[1]
			p.keys.Min += "00"
			m.partitions[1] = &p
			l.replace(g, m, l.ends)
		}},
		"a segment without a partition": {"of which partitions read", func(g *group, l *writeState) {
			m := l.meta.change()
			m.segments[77] = segment{From: 1, To: 2}
			l.replace(g, m, l.ends)
		}},
		"a write in a hole": {"is in a hole", func(g *group, l *writeState) {
			m, ends := l.meta.change(), slices.Clone(l.ends)
			m.holes = []hole{{Max: feed.MaxEPK, From: 0, To: holeWidth}}
			for i := range ends {
				ends[i] += holeWidth
			}
			l.replace(g, m, ends)
		}},
		"a hole above the last LSN": {"below the hole", func(g *group, l *writeState) {
			m := l.meta.change()
			m.holes = []hole{{Max: feed.MaxEPK, From: 99, To: 99 + holeWidth}}
			l.replace(g, m, l.ends)
		}},
		"a hole that is too narrow": {"it has the hole", func(g *group, l *writeState) {
			m := l.meta.change()
			m.holes = []hole{{Max: feed.MaxEPK, From: 3, To: 4}}
			l.replace(g, m, l.ends)
		}},
		"a live ancestor": {"has the live ancestor", func(g *group, l *writeState) {
			m := l.meta.change()
			p := *m.partitions[1]
			p.parents = append(p.parents, m.partitions[0].id)
			m.partitions[1] = &p
			l.replace(g, m, l.ends)
		}},
		"a document that is not canonical": {"is not in canonical form", func(g *group, l *writeState) {
			k := key(layout.SpaceLog, l.c, 0, 3, 0, "p")
			v := get(g, k)
			copy(v[strings.Index(string(v), `"n":2`):], `"": 2`)
			_ = g.batch.Set(k, v, nil)
		}},
		"a last version that differs from the item": {"is not its last version", func(g *group, l *writeState) {
			k := key(layout.SpaceVersions, l.c, 0, 3, 0, "p")
			v := get(g, k)
			i := strings.Index(string(v), `"n":2`)
			v[i+4] = '7'
			_ = g.batch.Set(k, v, nil)
		}},
		"a version without an index entry": {"its last version is", func(g *group, l *writeState) {
			v := get(g, key(layout.SpaceVersions, l.c, 0, 1, 0, "p"))
			v[0] = byte(feed.Delete)
			_ = g.batch.Delete(key(layout.SpaceVersions, l.c, 0, 1, 0, "p"), nil)
			deleted := append(append(v[:18:18], 0, 0, 0, 0), v[versionHeaderSize:]...)
			_, s, err := l.c.tail.ParseStored(v[versionHeaderSize:])
			if err != nil {
				t.Fatal(err)
			}
			deleted[17] = byte(s.LSN)
			_ = g.batch.Set(key(layout.SpaceVersions, l.c, 0, 3, 5, "p"), deleted, nil)
		}},
		"a previous image of another version": {"the previous image", func(g *group, l *writeState) {
			k := key(layout.SpaceVersions, l.c, 0, 3, 0, "p")
			v := get(g, k)
			v[17]-- // byte 17 is the lowest byte of the previous LSN
			_ = g.batch.Set(k, v, nil)
		}},
		"an item that is not in the order of its key": {"2 are in the order of their keys", func(g *group, l *writeState) {
			point := key(0, l.c, 0, 0, 0, "p")[layout.LogKeySize:]
			_ = g.batch.Delete(layout.AppendKeyOrder(nil, l.c.number, point, 1), nil)
		}},
		"an item that is not in the order of its partition": {"and 2 in that of their partitions", func(g *group, l *writeState) {
			home := l.meta.partitions[l.meta.find(key(0, l.c, 0, 0, 0, "p")[layout.LogKeySize:])].number
			_ = g.batch.Delete(layout.AppendOrderKey(nil, l.c.number, home, 2), nil)
		}},
		"an item with another number": {"names item \"a\"", func(g *group, l *writeState) {
			point := key(0, l.c, 0, 0, 0, "p")[layout.LogKeySize:]
			_ = g.batch.Set(layout.AppendKeyOrder(nil, l.c.number, point, 9), []byte("a"), nil)
		}},
		"an item in the order of another partition": {"is in the order of partition", func(g *group, l *writeState) {
			point := key(0, l.c, 0, 0, 0, "p")[layout.LogKeySize:]
			other := l.meta.partitions[1-l.meta.find(point)].number
			_ = g.batch.Set(layout.AppendOrderKey(nil, l.c.number, other, 1), layout.AppendOrderValue(nil, point, "a"), nil)
		}},
		"a key of a missing container": {"which does not exist", func(g *group, l *writeState) {
			_ = g.batch.Set(layout.AppendContainerKey(nil, layout.SpaceLog, 99), nil, nil)
		}},
		"a key outside all spaces": {"in no key space", func(g *group, l *writeState) {
			_ = g.batch.Set([]byte("zzz"), nil, nil)
		}},
		"a container that is not open": {"is stored and not open", func(g *group, l *writeState) {
			_ = g.batch.Set(layout.ContainerKey(99), []byte("{}"), nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := OpenMemory(Options{PurgeInterval: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "db"}); err != nil {
				t.Fatal(err)
			}
			c := newContainer(t, db, storetype.ContainerProperties{Retention: time.Hour})
			upsert(t, c, "a", "p", 1)
			upsert(t, c, "b", "p", 1)
			upsert(t, c, "b", "p", 2)
			if _, err := c.Split(t.Context(), "0", ""); err != nil {
				t.Fatal(err)
			}
			upsert(t, c, "c", "p", 3)
			if err := db.Check(t.Context()); err != nil {
				t.Fatalf("before: %v", err)
			}
			err = db.do(context.Background(), func(g *group) error {
				k.damage(g, db.writeState(c))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			err = db.Check(t.Context())
			var broken *storetype.CorruptError
			if !errors.As(err, &broken) || !strings.Contains(err.Error(), k.want) {
				t.Errorf("Check returned %v, want %q", err, k.want)
			}
		})
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	db := openPebble(t, Options{})
	c := newContainer(t, db, storetype.ContainerProperties{})
	for i := range checkEvery + 1 {
		upsert(t, c, fmt.Sprint(i), "p", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
