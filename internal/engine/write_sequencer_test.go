package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/storetype"
)

// inOneGroup queues requests so that the sequencer carries them out in one group, and
// waits for the results.
func inOneGroup(t *testing.T, db *DB, requests ...*request) {
	t.Helper()
	db.queue.mu.Lock()
	db.queue.waiting = append(db.queue.waiting, requests...)
	db.queue.mu.Unlock()
	select {
	case db.queue.wake <- struct{}{}:
	default:
	}
	for i, r := range requests {
		<-r.done
		if r.err != nil {
			t.Errorf("request %d: %v", i, r.err)
		}
	}
}

func writeRequest(t *testing.T, c *Container, o storetype.Operation) *request {
	t.Helper()
	r := &request{c: c, ops: make([]operation, 1), done: make(chan struct{}, 1)}
	if err := c.prepare(&r.ops[0], nil, o); err != nil {
		t.Fatal(err)
	}
	return r
}

// A group writes items and then deletes their container. No key of the container may be
// left. Check, which openPebble calls when the test ends, reports such keys.
func TestDeletionOfAContainerRemovesWritesOfItsGroup(t *testing.T) {
	db := openPebble(t, Options{PurgeInterval: -1})
	c := newContainer(t, db, storetype.ContainerProperties{})
	upsert(t, c, "old", "p", 1)
	inOneGroup(t, db,
		writeRequest(t, c, storetype.Operation{Kind: storetype.OpUpsert, Body: body("old", "p", 2)}),
		writeRequest(t, c, storetype.Operation{Kind: storetype.OpCreate, Body: body("new", "p", 1)}),
		&request{control: func(g *group) error { return g.deleteContainer(c) }, done: make(chan struct{}, 1)})
}

func TestItemWrittenTwiceInOneGroupHasItsLastVersion(t *testing.T) {
	db := openPebble(t, Options{PurgeInterval: -1})
	c := newContainer(t, db, storetype.ContainerProperties{})
	requests := make([]*request, 3)
	for i := range requests {
		requests[i] = writeRequest(t, c, storetype.Operation{Kind: storetype.OpUpsert, Body: body("a", "p", i)})
	}
	inOneGroup(t, db, requests...)
	got, err := c.Read(t.Context(), []any{"p"}, "a", storetype.ReadOptions{})
	if err != nil || got.LSN != 3 {
		t.Errorf("the item is %s at LSN %d (%v)", got.Body, got.LSN, err)
	}
}

// The size of a group must be limited by the data that its requests produce. Small
// requests can produce much: changes write documents, reads return them, and deletes
// write previous images.
func TestGroupIsBoundedByTheSizeOfItsResults(t *testing.T) {
	if race.Enabled {
		t.Skip("checks how much memory is used, which the race detector cannot judge")
	}
	const size = 1 << 20
	for name, kind := range map[string]storetype.OpKind{"changes": storetype.OpChange, "reads": storetype.OpRead, "deletes": storetype.OpDelete} {
		t.Run(name, func(t *testing.T) {
			db := openPebble(t, Options{PurgeInterval: -1})
			c := newContainer(t, db, storetype.ContainerProperties{Retention: time.Hour})
			var requests []*request
			bytes := map[*view]int{} // the bytes that each group produced, by the view before that group
			for i := range 3 * maxGroupBytes / size {
				id := strconv.Itoa(i)
				large := fmt.Appendf(nil, `{"id":%q,"pk":"p","t":%q}`, id, strings.Repeat("x", size))
				if _, err := c.Upsert(t.Context(), nil, large, storetype.WriteOptions{NoBody: true}); err != nil {
					t.Fatal(err)
				}
				r := &request{c: c, ops: make([]operation, 1), done: make(chan struct{}, 1)}
				o := storetype.Operation{Kind: kind, ID: id, Change: func(old []byte) ([]byte, error) { return old, nil }}
				if err := c.prepare(&r.ops[0], feed.PartitionKey{"p"}, o); err != nil {
					t.Fatal(err)
				}
				// Each request is followed by a small write, because a group without
				// writes publishes no view to count by.
				requests = append(requests, r, writeRequest(t, c, storetype.Operation{Kind: storetype.OpUpsert, Body: body("small", "p", i)}),
					&request{control: func(*group) error { bytes[db.current] += size; return nil }, done: make(chan struct{}, 1)})
			}
			inOneGroup(t, db, requests...)
			for _, n := range bytes {
				if n > maxGroupBytes+size {
					t.Errorf("a group produced %d bytes", n)
				}
			}
		})
	}
}

// A batch of deletes keeps the previous image of each deleted item until the batch is
// written. The sequencer must then release that memory if it is large.
func TestMemoryOfManyPreviousImagesIsReleased(t *testing.T) {
	if race.Enabled {
		t.Skip("checks how much memory is used, which the race detector cannot judge")
	}
	db := openPebble(t, Options{PurgeInterval: -1})
	c := newContainer(t, db, storetype.ContainerProperties{Retention: time.Hour})
	var ops []storetype.Operation
	for i := range 10 {
		id := strconv.Itoa(i)
		large := fmt.Appendf(nil, `{"id":%q,"pk":"p","t":%q}`, id, strings.Repeat("x", 1<<20))
		if _, err := c.Upsert(t.Context(), nil, large, storetype.WriteOptions{NoBody: true}); err != nil {
			t.Fatal(err)
		}
		ops = append(ops, storetype.Operation{Kind: storetype.OpDelete, ID: id})
	}
	if _, err := c.Batch(t.Context(), feed.PartitionKey{"p"}, ops); err != nil {
		t.Fatal(err)
	}
	if err := db.do(context.Background(), func(g *group) error {
		if n := cap(g.images); n > maxGroupBytes {
			t.Errorf("%d bytes are retained", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
