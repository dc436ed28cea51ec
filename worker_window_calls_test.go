package changefeed

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/changefeed-go/changefeed/feed"
)

// All handlers wait for their checkpoints, and in one page there is a change whose key cannot be
// read. None of them may wait without end: the position moves, or the checkpoint reports a gap,
// which is no failure.
func TestCheckpointsBesideAChangeWithoutAReadableKeyDoNotHang(t *testing.T) {
	const odd, a = `{"id":"odd","k":[1]}`, `{"id":"a","k":"a"}`
	for name, texts := range map[string][]string{"first": {odd, a}, "last": {a, odd}, "between": {a, odd, a}} {
		for _, manual := range []bool{false, true} {
			t.Run(fmt.Sprint(name, manual), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					source, leases := newFakeSource("0"), newFakeStore()
					for i, text := range texts {
						source.logs["0"] = append(source.logs["0"], feed.Change{LSN: int64(i + 1), Current: []byte(text)})
					}
					var calls atomic.Int64
					h := HandlerFunc(func(ctx context.Context, b *Batch) error {
						calls.Add(1)
						err := b.Checkpoint(ctx)
						if err != nil && name != "between" {
							t.Errorf("%d changes from LSN %d on: %v", len(b.Changes), b.Changes[0].LSN, err)
						}
						return err
					})
					idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: 4, Checkpoint: Checkpointing{Manual: manual}})
					pause(time.Hour)
					if n := int(calls.Load()); n != len(texts) || leases.doc("0").Continuation != position(int64(n)) {
						t.Errorf("%d calls; the position is %q", n, leases.doc("0").Continuation)
					}
				})
			})
		}
	}
}

// ErrGap comes at once, even if nothing else happens.
func TestGapIsReportedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource("0")
		source.writeKeys("0", "bad", "good", "long")
		var took time.Duration
		var got error
		h := HandlerFunc(func(ctx context.Context, b *Batch) error {
			switch key, _ := keyOf(b.Changes[0]); key {
			case "bad":
				return errors.New("no")
			case "long":
				<-ctx.Done()
				return nil
			}
			time.Sleep(1700 * time.Millisecond)
			began := time.Now()
			got = b.Checkpoint(ctx)
			took = time.Since(began)
			return nil
		})
		idle(t, newFakeStore(), Config{
			Source: source, Handler: h, Start: fromBeginning, Concurrency: 4, ReadAhead: 1, PollInterval: time.Minute,
			Failure: Failure{Delay: time.Hour, MaxDelay: time.Hour},
		})
		pause(30 * time.Second)
		if !errors.Is(got, ErrGap) || took > 10*time.Millisecond {
			t.Errorf("Checkpoint returned %v after %s", got, took)
		}
	})
}

// A batch that the user has checkpointed holds no position, even if its handler fails later.
func TestFailureAfterACheckpointIsNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		source.writeKeys("0", "first", "slow", "second")
		var second error
		h := HandlerFunc(func(ctx context.Context, b *Batch) error {
			switch key, _ := keyOf(b.Changes[0]); key {
			case "first": // its checkpoint waits for the slow one, which is in the same page
				short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
				defer cancel()
				return b.Checkpoint(short)
			case "slow":
				time.Sleep(2 * time.Second)
				return b.Checkpoint(ctx)
			}
			time.Sleep(500 * time.Millisecond)
			second = b.Checkpoint(ctx)
			return second
		})
		idle(t, leases, Config{
			Source: source, Handler: h, Start: fromBeginning, Concurrency: 4, MaxItems: 2, Checkpoint: Checkpointing{Manual: true},
			Failure: Failure{Delay: time.Hour, MaxDelay: time.Hour},
		})
		pause(5 * time.Second)
		if at := leases.doc("0").Continuation; second != nil || at != "3" {
			t.Errorf("the last checkpoint returned %v; the position is %q", second, at)
		}
	})
}

// Several calls stop the lease at the same time. It is stopped once, and one resume ends that.
func TestSeveralStopsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		source.writeKeys("0", keys(4, 4)...)
		reader := metric.NewManualReader()
		var mended atomic.Bool
		var handled, calls atomic.Int64
		h := HandlerFunc(func(_ context.Context, b *Batch) error {
			if mended.Load() {
				handled.Add(int64(len(b.Changes)))
				return nil
			}
			time.Sleep(time.Duration(calls.Add(1)) * 500 * time.Millisecond)
			return Stop(errors.New("no"))
		})
		_, said := idle(t, leases, Config{
			Source: source, Handler: h, Start: fromBeginning, Concurrency: 4, Metrics: metric.NewMeterProvider(metric.WithReader(reader)),
		})
		pause(30 * time.Second)
		if got := figures(t, reader)["changefeed.processor.stopped"]; got != 1 || len(said.of(Stopped)) != 1 {
			t.Errorf("%v leases are stopped, and %d stops are notified", got, len(said.of(Stopped)))
		}
		mended.Store(true)
		leases.edit("0", resume)
		pause(time.Minute)
		if got := figures(t, reader)["changefeed.processor.stopped"]; got != 0 || handled.Load() != 4 {
			t.Errorf("after the resume %v leases are stopped, and %d changes were handled", got, handled.Load())
		}
	})
}

// A key has a change in each of many pages. Its batches must not reach so far that a planned move has
// to finish all of these pages.
func TestBatchOfAFrequentKeyDoesNotReachFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		for i := range 100 {
			source.writeKeys("0", "hot")
			for j := range 99 {
				source.writeKeys("0", fmt.Sprintf("k-%d-%d", i, j))
			}
		}
		h := newLanes(t, 4, each(50*time.Millisecond))
		_, said := idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: 4})
		pause(2 * time.Second)
		before, _ := h.handled()
		leases.edit("0", wantLease)
		for len(said.of(Released)) == 0 {
			pause(100 * time.Millisecond)
		}
		if after, _ := h.handled(); len(before) < 100 || len(after) > len(before)+400 {
			t.Errorf("%d changes were handled before the move began, and %d in the end", len(before), len(after))
		}
	})
}

// Deletes without previous images have no documents. They take room in the window all the same.
func TestReadAheadBoundsDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource("0")
		for i := range 20_000 {
			source.logs["0"] = append(source.logs["0"], feed.Change{LSN: int64(i + 1), Op: feed.Delete, DeletedID: "x", DeletedKey: feed.PartitionKey{fmt.Sprint(i)}})
		}
		idle(t, newFakeStore(), Config{
			Source: source, Start: feed.After("0"), Mode: feed.AllVersionsAndDeletes, Concurrency: 2, ReadAhead: 4096, DrainTimeout: -1,
			Handler: HandlerFunc(func(ctx context.Context, _ *Batch) error { <-ctx.Done(); return ctx.Err() }),
		})
		pause(time.Minute)
		if n := len(source.requests()); n > 10 {
			t.Errorf("%d pages of 100 deletes were read; ReadAhead is 4096 bytes", n)
		}
	})
}

// When the work ends, a batch is cut. If the work goes on after all, what was cut off still precedes
// a later change whose key cannot be read.
func TestWhatIsCutOffKeepsItsPlace(t *testing.T) {
	w := &worker{host: &host{keyReader: &keyReader{}, cfg: Config{MaxItems: 10, ReadAhead: 1 << 20, Concurrency: 2}}}
	w.window, w.writer = newWindow(w), leaseWriter{w: w, anchored: true, progress: newProgress("")}
	for n, keys := range [][]changeKey{
		{{laneKey: laneKey{hash: 1}}, {laneKey: laneKey{hash: 7}}},
		{{laneKey: laneKey{hash: 7}}},
		{{laneKey: laneKey{alone: true}}},
	} {
		page := pageOf(string(position(int64(n+1))), to(int64(len(keys)))...)
		w.pushed(page, pagePosition{int64(n + 1), page.Continuation}, keys)
	}
	first := w.window.next(false) // the key 1, of page 1
	second := w.window.next(true) // the key 7, of page 1 alone
	if n := len(second.Changes); n != 1 {
		t.Fatalf("the batch has %d changes", n)
	}
	for _, b := range []*queuedBatch{first, second} {
		w.delivered(b, outcome{})
		w.window.returned(b, true, 0)
	}
	if third := w.window.next(false); third == nil || third.lane == w.window.alone {
		t.Errorf("the change without a readable key overtakes one before it: %+v", third)
	}
}

// A handler that keeps a batch must not keep those after it in memory.
func TestKeptBatchKeepsNoLaterOne(t *testing.T) {
	q := queueOf(1, 1<<20)
	q.push(pageOf("a", 1))
	q.push(pageOf("b", 2))
	first := q.take()
	q.done(first)
	if first.own.after != nil || first.Changes != nil {
		t.Errorf("the batch that is done refers to %+v and to its changes %v", first.own.after, first.Changes)
	}
}

// Of the changes that may start, the one that was read first does, so that the position moves soon.
func TestOldestChangeStartsFirst(t *testing.T) {
	w := &worker{host: &host{keyReader: &keyReader{}, cfg: Config{MaxItems: 1, ReadAhead: 1 << 20, Concurrency: 2}}}
	w.window, w.writer = newWindow(w), leaseWriter{w: w, anchored: true, progress: newProgress("")}
	for n, key := range []uint64{5, 5, 3, 4} {
		page := pageOf(string(position(int64(n+1))), int64(n+1))
		w.pushed(page, pagePosition{int64(n + 1), page.Continuation}, []changeKey{{laneKey: laneKey{hash: key}}})
	}
	for _, want := range []int64{1, 2, 3, 4} {
		b := w.window.next(false)
		if b == nil || b.Changes[0].LSN != want {
			t.Fatalf("the next batch is %+v; want LSN %d", b, want)
		}
		w.delivered(b, outcome{})
		w.window.returned(b, true, 0)
	}
}

// What a handler says of its changes concerns those that the filter has left. The places of the
// others stay where they were.
func TestOutcomeNamesChangesAsTheyWereBeforeTheFilter(t *testing.T) {
	b := &queuedBatch{Page: feed.Page{Changes: make([]feed.Change, 3)}} // those with the indexes 1, 3 and 4
	o := outcome{hidden: []int{0, 2}}
	o.settle(b, &HandlerError{Err: errors.New("no"), failed: []int{1}})
	for i, want := range []fate{wasHidden, wasHandled, wasHidden, stillOpen, wasHandled} {
		if got := o.of(i); got != want {
			t.Errorf("the fate of change %d is %d; want %d", i, got, want)
		}
	}
}
