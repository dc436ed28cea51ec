package engine

import (
	"math"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/storetype"
)

// matchedScan returns the chunk of a scan of the first partition of c, with the names of up
// to n items but without their entries in the index.
func matchedScan(t *testing.T, c *Container, n int) *chunkScan {
	t.Helper()
	v, s, err := c.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.release)
	sc, err := c.newKeyFilter(s.meta.partitions[0].keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &itemScan{c: c, v: v, m: s.meta, sc: &sc, r: ItemsRequest{ItemsRequest: storetype.ItemsRequest{MaxTime: time.Hour}}, start: time.Now()}
	b := &chunkScan{w: w}
	var ok bool
	if b.part, ok = w.m.partAt(w.sc, b.at); !ok || !b.part.byNumber {
		t.Fatalf("the part %+v is not in the order of writing", b.part)
	}
	if _, err := b.readNames(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return b
}

// A large chunk must find all of its items by reading the index once, since looking each of
// them up by its name made a scan a quarter slower. In a container with two partitions, the
// numbers of a partition's items have gaps.
func TestLargeChunksReadTheIndexOnce(t *testing.T) {
	for _, partitions := range []int{1, 2} {
		c := scannable(t, 10_000, partitions)
		all := 10_000 / partitions
		b := matchedScan(t, c, all/4)
		if least, most := all*3/4, all*5/4; b.entries < least || b.entries > most {
			t.Errorf("%d partitions: the part is estimated at %d entries, want %d to %d", partitions, b.entries, least, most)
		}
		if err := b.match(t.Context()); err != nil {
			t.Fatal(err)
		}
		found := append([]collected(nil), b.chunk...)
		if b.sortNames(); len(b.sorted) > 0 {
			t.Errorf("%d partitions: %d of %d items are not found", partitions, len(b.sorted), len(b.chunk))
		}
		for n := range b.chunk {
			b.chunk[n].LSN = 0
		}
		if err := b.resolve(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n := range b.chunk {
			if b.chunk[n] != found[n] {
				t.Fatalf("%d partitions: item %d is found as %+v by its number and as %+v by its name", partitions, n, found[n], b.chunk[n])
			}
		}
	}
}

// A chunk with few of a part's items must not read the whole index for them. It looks up those
// that it has not come across.
func TestSmallChunksReadLittleOfTheIndex(t *testing.T) {
	c := scannable(t, 10_000, 1)
	b := matchedScan(t, c, 100)
	if b.entries != math.MaxInt {
		t.Errorf("a chunk of 100 estimates the index at %d entries", b.entries)
	}
	if err := b.match(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.sortNames()
	if n := len(b.sorted); n < 50 || n == 100 {
		t.Errorf("%d of 100 items are left to look up, want most but not all", n)
	}
	if err := b.resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.sortNames(); len(b.sorted) > 0 {
		t.Errorf("%d of 100 items have no entry", len(b.sorted))
	}
}
