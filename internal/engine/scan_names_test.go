package engine

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// partScan returns a scan of the first partition of c, after the item with a number.
func partScan(t *testing.T, c *Container, after uint32) *chunkScan {
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
	b.part.number = after
	return b
}

// openPart opens an iterator over the names of the scan's part.
func (b *chunkScan) openPart(t *testing.T) *pebble.Iterator {
	t.Helper()
	it, err := b.w.openNames(&b.part)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := it.Close(); err != nil {
			t.Error(err)
		}
	})
	return it
}

// namedItem is an item of a chunk with its name.
type namedItem struct {
	collected
	name string
}

func (b *chunkScan) namedItems() (items []namedItem) {
	for _, x := range b.chunk {
		name := string(b.name(&x))
		x.rest, x.end = 0, 0
		items = append(items, namedItem{x, name})
	}
	return items
}

// A large chunk reads the index once, since looking up each of its items by its name made a
// scan a quarter slower. It must have the same items in the same order as if they were looked
// up, whether it has all of the part's items, drops many or only the last one, and begins in
// the middle. In a container with two partitions, and after deletes, the numbers have gaps.
func TestLargeChunksReadTheIndexOnce(t *testing.T) {
	for _, partitions := range []int{1, 2} {
		c := scannable(t, 10_000, partitions)
		for k := 0; k < 10_000; k += 5 {
			if _, err := c.Delete(t.Context(), feed.PartitionKey{fmt.Sprintf("p%d", k%101)}, fmt.Sprintf("%05d", k), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		whole := partScan(t, c, 0)
		if _, err := whole.readNames(t.Context(), whole.openPart(t), 10_000); err != nil {
			t.Fatal(err)
		}
		all := len(whole.chunk)
		for _, n := range []int{all + 1, all, all - 1, all / 4, 2 * largeChunk} {
			for _, after := range []uint32{0, 2000} {
				byIndex, byName := partScan(t, c, after), partScan(t, c, after)
				if _, ok := byIndex.isLarge(byIndex.openPart(t), n); !ok {
					t.Errorf("%d partitions: a chunk of %d is not large", partitions, n)
				}
				complete, ok, err := byIndex.readIndex(t.Context(), n)
				if err != nil || !ok {
					t.Fatalf("%d partitions: a chunk of %d cannot read the index: %v", partitions, n, err)
				}
				whole, err := byName.readNames(t.Context(), byName.openPart(t), n)
				if err != nil {
					t.Fatal(err)
				}
				if err := byName.resolve(t.Context()); err != nil {
					t.Fatal(err)
				}
				if complete != whole || !complete && byIndex.at.encode() != byName.at.encode() {
					t.Errorf("%d partitions: a chunk of %d after %d ends at %+v (%t), want %+v (%t)", partitions, n, after, byIndex.at, complete, byName.at, whole)
				}
				if !slices.Equal(byIndex.namedItems(), byName.namedItems()) {
					t.Errorf("%d partitions: a chunk of %d after %d has other items than by their names", partitions, n, after)
				}
			}
		}
	}
}

// A chunk with few of a part's items must not read the whole index for them.
func TestSmallChunksReadLittleOfTheIndex(t *testing.T) {
	const items = 20 * largeChunk
	c := scannable(t, items, 1)
	for _, k := range []struct {
		n     int
		after uint32
		want  bool
	}{
		{largeChunk - 1, 0, false},
		{largeChunk, 0, false},
		{2 * largeChunk, 0, true},
		{items, items - largeChunk, false}, // few are left
		{items, items - 2*largeChunk, true},
	} {
		b := partScan(t, c, k.after)
		if _, large := b.isLarge(b.openPart(t), k.n); large != k.want {
			t.Errorf("a chunk of %d after %d of %d items is large: %t, want %t", k.n, k.after, items, large, k.want)
		}
	}
	// If the estimate was wrong, readIndex gives up.
	b := partScan(t, c, 0)
	if _, ok, err := b.readIndex(t.Context(), largeChunk); err != nil || ok || len(b.chunk) > 0 {
		t.Errorf("a chunk of %d of %d items reads the index: %t with %d items (%v)", largeChunk, items, ok, len(b.chunk), err)
	}
}

// The names of a large chunk must not take more memory than those of any other. So a chunk
// with long names has only some of the items, which are the first ones.
func TestLargeChunksOfLongNamesStayInBounds(t *testing.T) {
	const items, size = 9000, 1000
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for n := w; n < items; n += 16 {
				if _, err := c.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"%0*d","pk":"p"}`, size, n), storetype.WriteOptions{NoBody: true}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	b := partScan(t, c, 0)
	complete, ok, err := b.readIndex(t.Context(), items)
	if err != nil || !ok || complete || len(b.names) > maxChunkNames {
		t.Fatalf("the chunk has %d bytes of names, complete: %t, read: %t, %v", len(b.names), complete, ok, err)
	}
	for n := range b.chunk {
		if got := b.chunk[n].Number; got != uint32(n+1) { //nolint:gosec // small
			t.Fatalf("item %d has the number %d", n, got)
		}
	}
}

// The names of a range of keys are sorted by key. A chunk that ends between two of them must
// leave the position after the last one that it has.
func TestNamesOfARangeGoOnAfterTheLastOne(t *testing.T) {
	const items = 1000
	c := scannable(t, items, 1)
	b := partScan(t, c, 0)
	b.part.byNumber = false
	found := map[uint32]bool{}
	for complete := false; !complete; b.part.lower, b.part.number = b.at.lower, b.at.number {
		b.chunk, b.names = b.chunk[:0], b.names[:0]
		var err error
		if complete, err = b.readNames(t.Context(), b.openPart(t), 30); err != nil {
			t.Fatal(err)
		}
		for _, x := range b.chunk {
			if found[x.Number] {
				t.Fatalf("item %d comes twice", x.Number)
			}
			found[x.Number] = true
		}
	}
	if len(found) != items {
		t.Errorf("%d items are found, want %d", len(found), items)
	}
}
