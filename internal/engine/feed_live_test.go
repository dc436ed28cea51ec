package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/storetype"
)

// These tests follow the feed of a container while other goroutines write, split and
// merge it. They check:
//
//   - In all versions mode, a reader receives each version of each item exactly once and
//     in order.
//   - In latest version mode, a reader receives newer and newer versions of each item, no
//     version twice, and the last version in the end.
//   - All changes of a transaction are on one page.
//
// The same must hold for two kinds of readers. One reads the partitions one after the
// other. The other reads all partitions at once.

const (
	liveWriters  = 4
	liveVersions = 150 // the number of versions that each writer writes of each item
	liveItems    = 6   // the number of items of each writer, two for each partition key
	// liveDivisions is the largest number of splits and merges. Without it there would be
	// far more of them than writes, because they are cheaper.
	liveDivisions = 200
)

// liveWitness is a witness that records nothing, because these tests check only the
// feeds.
type liveWitness struct{}

func (liveWitness) try(int, map[crashItem]int)  {}
func (liveWitness) ack(crashItem, int)          {}
func (liveWitness) deliver(crashItem, delivery) {}
func (liveWitness) divide(int, string)          {}

func TestReadersFollowWritesSplitsAndMerges(t *testing.T) {
	seeds := uint64(4)
	if race.Enabled {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			runLive(t, seed)
		})
	}
}

func runLive(t *testing.T, seed uint64) {
	db, err := engine.OpenMemory(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	load := &crashLoad{db: db, w: liveWitness{}}
	if err := load.setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := load.containers[1] // the second container keeps all versions
	done := make(chan struct{})
	var writers, others sync.WaitGroup
	for n := range liveWriters {
		writers.Go(func() { writeLive(t, c, n) })
	}
	others.Go(func() {
		w := &crashWriter{crashLoad: load, rng: rand.New(rand.NewPCG(seed, 7))}
		for range liveDivisions {
			select {
			case <-done:
				return
			default:
			}
			if err := w.divide(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for _, mode := range []feed.Mode{feed.LatestVersion, feed.AllVersionsAndDeletes} {
		others.Go(func() { followLive(t, mode, partByPart(t, db.Source(c), mode), done) })
		others.Go(func() { followLive(t, mode, allAtOnce(t, c, mode), done) })
	}
	writers.Wait()
	close(done)
	others.Wait()
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Error(err)
	}
}

// writeLive writes all versions of one writer's items. Each transaction writes one
// version of the two items of a partition key.
func writeLive(t *testing.T, c *engine.Container, writer int) {
	for v := 1; v <= liveVersions; v++ {
		for n := 0; n < liveItems; n += 2 {
			key := fmt.Sprintf("w%dk%d", writer, n/2)
			var ops []storetype.Operation
			for _, id := range []string{"a", "b"} {
				ops = append(ops, storetype.Operation{Kind: storetype.OpUpsert, Body: crashBody(crashItem{key: key, id: id}, v, 0)})
			}
			if _, err := c.Batch(t.Context(), feed.PartitionKey{key}, ops); err != nil {
				t.Errorf("version %d of %s: %v", v, key, err)
				return
			}
		}
	}
}

// partByPart returns a function that returns the next page of a reader. The reader reads
// the container's partitions one after the other.
func partByPart(t *testing.T, src feed.Source, mode feed.Mode) func() (feed.Page, error) {
	r, err := feed.NewReader(src, feed.ReaderConfig{Start: feed.After(`"0"`), Mode: mode, MaxItems: 7, Wait: time.Millisecond})
	if err != nil {
		t.Error(err)
	}
	return func() (feed.Page, error) {
		page, _, err := r.Next(t.Context())
		return page, err
	}
}

// allAtOnce returns a function that returns the next page of the whole container.
func allAtOnce(t *testing.T, c *engine.Container, mode feed.Mode) func() (feed.Page, error) {
	r := feed.Request{From: feed.After(`"0"`), Mode: mode, MaxItems: 7, Wait: time.Millisecond}
	return func() (feed.Page, error) {
		page, err := c.Feed(t.Context(), r)
		if errors.As(err, new(*feed.GoneError)) {
			err = fmt.Errorf("the whole container: %w", errors.New(err.Error())) // hides the GoneError: a read of the whole container must never return one
		}
		r.From = feed.After(page.Continuation)
		return page.Page, err
	}
}

// followLive calls next until the writers are done and the last version of each item was
// delivered. It checks every page.
func followLive(t *testing.T, mode feed.Mode, next func() (feed.Page, error), done <-chan struct{}) {
	last := map[crashItem]int{}
	// Changes may still follow until each partition was read once more after the last
	// write. So followLive stops after 50 empty pages, which is more than the number of
	// partitions.
	for quiet := 0; quiet < 50; {
		select {
		case <-done:
			quiet++
		default:
		}
		page, err := next()
		var gone *feed.GoneError
		if errors.As(err, &gone) {
			continue // the reader's partition was split or merged again; the next page continues
		}
		if err != nil {
			t.Errorf("%v: %v", mode, err)
			return
		}
		if len(page.Changes) > 0 {
			quiet = 0
		}
		if !judgeLive(t, mode, page, last) {
			return
		}
	}
	for w := range liveWriters {
		for n := range liveItems / 2 {
			for _, id := range []string{"a", "b"} {
				i := crashItem{key: fmt.Sprintf("w%dk%d", w, n), id: id}
				if last[i] != liveVersions {
					t.Errorf("%v: the last delivered version of %v is %d of %d", mode, i, last[i], liveVersions)
				}
			}
		}
	}
}

func judgeLive(t *testing.T, mode feed.Mode, page feed.Page, last map[crashItem]int) bool {
	type unit struct {
		lsn int64
		key string
	}
	together := map[unit]int{} // transactions of several partitions may have one LSN
	for _, ch := range page.Changes {
		i, d, err := deliveryOf(0, ch)
		if err != nil {
			t.Error(err)
			return false
		}
		together[unit{ch.LSN, i.key}]++
		if d.version <= last[i] || mode == feed.AllVersionsAndDeletes && d.version != last[i]+1 {
			t.Errorf("%v: version %d of %v follows version %d", mode, d.version, i, last[i])
			return false
		}
		last[i] = d.version
	}
	for u, n := range together {
		if n != 2 {
			t.Errorf("%v: the page has %d of the two writes of %v", mode, n, u)
			return false
		}
	}
	return true
}
