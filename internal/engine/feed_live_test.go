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
)

// Readers follow a container while others write, split and merge it concurrently. The
// test checks:
//
//   - In all versions mode a reader is shown each version of each item exactly once, in
//     order.
//   - In latest version mode the versions of an item rise, no version is shown twice,
//     and in the end the last one was shown.
//   - A transaction comes whole, on one page.
//   - All of that holds for readers of one partition after the other, and for readers of
//     the whole container at once. The LSNs on the pages of the latter also rise from
//     page to page.

const (
	liveWriters  = 4
	liveVersions = 150 // of each item of each writer
	liveItems    = 6   // of each writer; it writes the two items of a key together
	// liveDivisions limits the splits and merges, which are cheaper than writes and would
	// otherwise dominate.
	liveDivisions = 200
)

// liveWitness records nothing, because the test checks the feeds only.
type liveWitness struct{}

func (liveWitness) try(int, map[crashItem]int)  {}
func (liveWitness) ack(crashItem, int)          {}
func (liveWitness) deliver(crashItem, delivery) {}
func (liveWitness) divide(int, string)          {}

func TestReadersFollowWritesSplitsAndMerges(t *testing.T) {
	seeds := uint64(4)
	if engine.RaceDetector {
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
	c := load.containers[1] // the container that keeps all versions
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

// writeLive writes the versions of a writer's items. Each transaction writes the two
// items of a key.
func writeLive(t *testing.T, c *engine.Container, writer int) {
	for v := 1; v <= liveVersions; v++ {
		for n := 0; n < liveItems; n += 2 {
			key := fmt.Sprintf("w%dk%d", writer, n/2)
			var ops []engine.Operation
			for _, id := range []string{"a", "b"} {
				ops = append(ops, engine.Operation{Kind: engine.OpUpsert, Body: crashBody(crashItem{key: key, id: id}, v, 0)})
			}
			if _, err := c.Batch(t.Context(), feed.PartitionKey{key}, ops); err != nil {
				t.Errorf("version %d of %s: %v", v, key, err)
				return
			}
		}
	}
}

// partByPart returns a reader of one partition after the other.
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

// allAtOnce returns a reader of the whole container.
func allAtOnce(t *testing.T, c *engine.Container, mode feed.Mode) func() (feed.Page, error) {
	r := feed.Request{From: feed.After(`"0"`), Mode: mode, MaxItems: 7, Wait: time.Millisecond}
	var last int64
	return func() (feed.Page, error) {
		page, err := c.Feed(t.Context(), r)
		if errors.As(err, new(*feed.GoneError)) {
			err = fmt.Errorf("the whole container: %w", errors.New(err.Error())) // the reader cannot continue after this error
		}
		for _, ch := range page.Changes {
			if ch.LSN < last || ch.LSN > page.LSN || page.LSN > page.End {
				err = errors.Join(err, fmt.Errorf("LSN %d after %d, on a page up to %d of %d", ch.LSN, last, page.LSN, page.End))
			}
			last = ch.LSN
		}
		last, r.From = page.LSN+1, feed.After(page.Continuation)
		return page.Page, err
	}
}

// followLive reads until the writers are done and all their writes were delivered.
func followLive(t *testing.T, mode feed.Mode, next func() (feed.Page, error), done <-chan struct{}) {
	last := map[crashItem]int{}
	// Pages that were read before the writers ended prove nothing about the last writes.
	// So every part is read once more after the writers have ended. There are fewer than
	// fifty parts.
	for quiet := 0; quiet < 50; {
		select {
		case <-done:
			quiet++
		default:
		}
		page, err := next()
		var gone *feed.GoneError
		if errors.As(err, &gone) {
			continue // partitions change faster than the reader can follow
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
	together := map[int64]int{}
	for _, ch := range page.Changes {
		i, d, err := deliveryOf(0, ch)
		if err != nil {
			t.Error(err)
			return false
		}
		together[ch.LSN]++
		if d.version <= last[i] || mode == feed.AllVersionsAndDeletes && d.version != last[i]+1 {
			t.Errorf("%v: version %d of %v follows version %d", mode, d.version, i, last[i])
			return false
		}
		last[i] = d.version
	}
	for lsn, n := range together {
		if n != 2 {
			t.Errorf("%v: the page has %d of the two writes of LSN %d", mode, n, lsn)
			return false
		}
	}
	return true
}
