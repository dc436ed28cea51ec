package changefeed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// The rules of order hold whatever the calls' durations and failures are, with all changes in
// one page or in many, and whatever is written meanwhile.
func TestKeysAreHandledInOrderAndAtTheSameTime(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			random := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return rng.IntN(n)
			}
			h := newLanes(t, 8, func(string) time.Duration { return time.Duration(1+random(40)) * time.Millisecond })
			h.fails = func(_ string, b *Batch) error {
				switch n := len(b.Changes); {
				case random(10) > 0:
				case n > 1: // all but the last one are handled
					for _, c := range b.Changes[:n-1] {
						key, _ := keyOf(c)
						h.last[key] = max(h.last[key], c.LSN)
						h.times[c.LSN]++
					}
					return &BatchError{Errors: map[int]error{n - 1: errors.New("the last one")}}
				default:
					return errors.New("no")
				}
				return nil
			}
			source, leases := newFakeSource("0"), newFakeStore()
			source.writeKeys("0", keys(300, 40)...)
			idle(t, leases, Config{
				Source: source, Handler: h, Start: fromBeginning, Concurrency: 8, MaxItems: []int{1, 7, 100}[seed%3],
				Failure: Failure{Delay: 30 * time.Millisecond, MaxDelay: 50 * time.Millisecond},
			})
			for range 10 {
				source.writeKeys("0", fmt.Sprintf("key-%d", random(40)), fmt.Sprintf("key-%d", random(3)))
				time.Sleep(time.Duration(random(700)) * time.Millisecond)
			}
			pause(20 * time.Second)
			lsns, twice := h.handled()
			if !slices.Equal(lsns, to(320)) || twice > 0 || h.peak < 8 {
				t.Errorf("seed %d: %d changes were handled, %d twice, at most %d at a time", seed, len(lsns), twice, h.peak)
			}
			if at := leases.doc("0").Continuation; at != "320" {
				t.Errorf("seed %d: the position is %s", seed, at)
			}
		})
	}
}

// One key never ends. All others are handled nevertheless, but the position stays before
// the change that is not done.
func TestSlowKeyDelaysNoOtherKeyAndHoldsThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		release := make(chan struct{})
		h := newLanes(t, 2, each(time.Millisecond))
		h.fails = func(key string, _ *Batch) error {
			if key == "slow" {
				h.mu.Unlock()
				<-release
				h.mu.Lock()
			}
			return nil
		}
		source.writeKeys("0", keys(4, 4)...)
		source.writeKeys("0", "slow")
		source.writeKeys("0", keys(200, 20)...)
		source.writeKeys("0", "slow")
		idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: 2, MaxItems: 4})
		pause(time.Minute)
		if lsns, _ := h.handled(); len(lsns) != 204 {
			t.Errorf("%d changes were handled beside the slow ones", len(lsns))
		}
		if at := leases.doc("0").Continuation; at != "4" {
			t.Errorf("the position is %s; want 4, the end of the page before the slow change", at)
		}
		close(release)
		pause(time.Second)
		if at := leases.doc("0").Continuation; at != "206" {
			t.Errorf("after the slow key, the position is %s", at)
		}
	})
}

// Changes that are done behind one that is not count 32 bytes in the window. So a crash repeats
// a limited number of them.
func TestWindowLimitsWhatIsDoneBehindASlowKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		h := newLanes(t, 4, func(key string) time.Duration {
			if key == "slow" {
				return time.Hour
			}
			return time.Millisecond
		})
		source.writeKeys("0", "slow")
		source.writeKeys("0", keys(5000, 50)...)
		idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: 4, ReadAhead: 32 << 10})
		pause(time.Minute)
		if lsns, _ := h.handled(); len(lsns) < 900 || len(lsns) > 1024+100 {
			t.Errorf("%d changes are done behind the slow one; ReadAhead has room for 1024", len(lsns))
		}
	})
}

// With a delayed checkpoint, a full window is a reason to write.
func TestFullWindowIsCheckpointed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		h := newLanes(t, 4, each(time.Millisecond))
		source.writeKeys("0", keys(5000, 50)...)
		idle(t, leases, Config{
			Source: source, Handler: h, Start: fromBeginning, Concurrency: 4, ReadAhead: 32 << 10,
			Checkpoint: Checkpointing{Interval: time.Hour}, RenewInterval: 40 * time.Second,
		})
		pause(10 * time.Second)
		if lsns, _ := h.handled(); len(lsns) != 5000 {
			t.Errorf("%d changes were handled", len(lsns))
		}
	})
}

// withdraw ends the request of another host for a lease.
func withdraw(l *lease.Lease) { delete(l.Properties, lease.PropertyWanted) }

// A stop and a hand-over finish the pages that have started, and nothing after them. So the
// next owner delivers every other change, and none twice.
func TestPlannedMoveRedeliversNothing(t *testing.T) {
	for seed := range int64(12) {
		for _, handOver := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				source, leases := newFakeSource("0"), newFakeStore()
				rng := rand.New(rand.NewPCG(uint64(seed), 2))
				var mu sync.Mutex
				h := newLanes(t, 5, func(string) time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(rng.IntN(400)) * time.Millisecond
				})
				source.writeKeys("0", keys(400, 60)...)
				cfg := Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: 5, MaxItems: 10, DrainTimeout: time.Minute}
				r, said := idle(t, leases, cfg)
				pause(time.Duration(seed) * 150 * time.Millisecond)
				if handOver {
					leases.edit("0", wantLease)
					for len(said.of(Released)) == 0 {
						pause(time.Second)
					}
				}
				if err := r.end(); err != nil {
					t.Fatal(err)
				}
				lsns, twice := h.handled()
				if n := int64(len(lsns)); n == 400 || twice > 0 || !slices.Equal(lsns, to(n)) || leases.doc("0").Continuation != position(n) {
					t.Errorf("seed %d, hand-over %t: %d changes were handled, %d twice, and the position is %s", seed, handOver, n, twice, leases.doc("0").Continuation)
				}
				leases.edit("0", withdraw)
				idle(t, leases, cfg)
				pause(5 * time.Minute)
				if lsns, twice := h.handled(); twice > 0 || len(lsns) != 400 {
					t.Errorf("seed %d, hand-over %t: %d changes were handled in the end, %d twice", seed, handOver, len(lsns), twice)
				}
			})
		}
	}
}

// A key that keeps failing delays neither the others nor a hand-over. Only what is done behind
// it is delivered again.
func TestFailingKeyDelaysNeitherTheOthersNorTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		h := newLanes(t, 4, each(time.Millisecond))
		mended := h.failFor("bad", errors.New("no"))
		source.writeKeys("0", keys(20, 10)...)
		source.writeKeys("0", "bad")
		source.writeKeys("0", keys(29, 10)...)
		source.writeKeys("0", "bad")
		cfg := Config{
			Source: source, Handler: h, Start: fromBeginning, Concurrency: 4, MaxItems: 10,
			Failure: Failure{Delay: time.Hour, MaxDelay: time.Hour},
		}
		r, said := idle(t, leases, cfg)
		if lsns, _ := h.handled(); len(lsns) != 49 {
			t.Errorf("%d changes of other keys were handled", len(lsns))
		}
		leases.edit("0", wantLease)
		pause(20 * time.Second)
		if len(said.of(Released)) != 1 || leases.doc("0").Continuation != "20" {
			t.Errorf("the releases are %+v, and the position is %s", said.of(Released), leases.doc("0").Continuation)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
		mended()
		leases.edit("0", withdraw)
		idle(t, leases, cfg)
		pause(10 * time.Second)
		lsns, twice := h.handled()
		if len(lsns) != 51 || twice != 29 || leases.doc("0").Continuation != "51" {
			t.Errorf("%d changes, %d twice; the position is %s", len(lsns), twice, leases.doc("0").Continuation)
		}
	})
}

// A change whose key cannot be read might have any key. So it waits for everything before it,
// and everything after it waits for it.
func TestChangeWithoutAReadableKeyRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		source.writeKeys("0", keys(10, 5)...)
		for range 2 {
			source.logs["0"] = append(source.logs["0"], feed.Change{LSN: int64(len(source.logs["0"]) + 1), Current: []byte(`{"id":"odd","k":[1]}`)})
			source.writeKeys("0", keys(10, 5)...)
		}
		var mu sync.Mutex
		running, fails := 0, 3
		var order []int64
		h := HandlerFunc(func(_ context.Context, b *Batch) error {
			mu.Lock()
			defer mu.Unlock()
			running++
			lsn := b.Changes[0].LSN
			odd := lsn == 11 || lsn == 22
			if odd && (running > 1 || len(b.Changes) > 1) {
				t.Errorf("LSN %d is handled in a batch of %d, beside %d other calls", lsn, len(b.Changes), running-1)
			}
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			running--
			if fails > 0 && (odd || lsn == 10) {
				fails--
				return errors.New("no")
			}
			for _, c := range b.Changes {
				order = append(order, c.LSN)
			}
			return nil
		})
		idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: 4})
		pause(time.Minute)
		before := func(lsn int64) int { return slices.Index(order, lsn) }
		if len(order) != 32 || before(11) != 10 || before(22) != 21 {
			t.Errorf("the order is %v", order)
		}
	})
}

func TestOrderByItemHandlesTheItemsOfAKeyAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource("0")
		for i := range 20 {
			source.logs["0"] = append(source.logs["0"], feed.Change{LSN: int64(i + 1), Current: fmt.Appendf(nil, `{"id":"item-%d","k":"one"}`, i%10)})
		}
		h := newLanes(t, 10, each(time.Second)) // the id is the key
		idle(t, newFakeStore(), Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: 10, Order: OrderByItem})
		pause(10 * time.Second)
		if lsns, _ := h.handled(); len(lsns) != 20 || h.peak != 10 {
			t.Errorf("%d changes, %d at a time", len(lsns), h.peak)
		}
	})
}

// The filter hides changes within the batches of a key. They are done, but count as handled
// nowhere.
func TestFilterHidesChangesOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		source.writeKeys("0", keys(100, 5)...)
		h := newLanes(t, 3, each(time.Millisecond))
		h.fails = func(_ string, b *Batch) error {
			if last := len(b.Changes) - 1; last > 0 && b.Attempt == 1 {
				for _, c := range b.Changes[:last] {
					h.times[c.LSN]++
				}
				return &BatchError{Errors: map[int]error{last: errors.New("no")}}
			}
			return nil
		}
		idle(t, leases, Config{
			Source: source, Handler: h, Start: fromBeginning, Concurrency: 3, MaxItems: 50,
			Filter: func(c feed.Change) bool { return c.LSN%3 > 0 && c.LSN < 90 },
		})
		pause(30 * time.Second)
		lsns, twice := h.handled()
		if slices.ContainsFunc(lsns, func(lsn int64) bool { return lsn%3 == 0 || lsn >= 90 }) || len(lsns) != 60 || twice > 0 {
			t.Errorf("%v were handled, %d twice", lsns, twice)
		}
		if at := leases.doc("0").Continuation; at != "100" {
			t.Errorf("the position is %s", at)
		}
	})
}

// A stopped lease starts no other call, and goes on with all keys once it is resumed.
func TestStopOfOneKeyStopsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		h := newLanes(t, 2, each(100*time.Millisecond))
		mended := h.failFor("key-0", Stop(errors.New("no")))
		source.writeKeys("0", keys(20, 10)...)
		_, said := idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: 2})
		pause(time.Minute)
		if lsns, _ := h.handled(); len(said.of(Stopped)) != 1 || len(lsns) > 4 {
			t.Errorf("%d stops are notified, and %v were handled", len(said.of(Stopped)), lsns)
		}
		mended()
		leases.edit("0", resume)
		pause(time.Minute)
		if lsns, twice := h.handled(); len(lsns) != 20 || twice > 0 {
			t.Errorf("%d changes were handled after the lease was resumed, %d twice", len(lsns), twice)
		}
	})
}

// 10,000 changes of 1,000 keys take 5 ms each. 64 calls at a time must need little more than a
// 64th of that, whatever the share of each key.
func TestSixtyFourCallsAtATimeAreSixtyFourTimesAsFast(t *testing.T) {
	const changes, wait, calls = 10_000, 5 * time.Millisecond, 64
	for name, draw := range map[string]func(*rand.Rand) int{
		"equal keys": func(r *rand.Rand) int { return r.IntN(1000) },
		"a hot key":  func(r *rand.Rand) int { return max(0, r.IntN(1200)-200) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 1))
				source, leases := newFakeSource("0"), newFakeStore()
				all, most := make([]string, changes), map[string]int{}
				for i := range all {
					all[i] = fmt.Sprintf("key-%d", draw(rng))
					most[all[i]]++
				}
				source.writeKeys("0", all...)
				longest := 0
				for _, n := range most {
					longest = max(longest, n)
				}
				var began, done time.Time
				var first sync.Once
				h := newLanes(t, calls, func(string) time.Duration {
					first.Do(func() { began = time.Now() })
					return wait
				})
				h.fails = func(string, *Batch) error { done = time.Now(); return nil }
				idle(t, leases, Config{Source: source, Handler: h, Start: fromBeginning, Concurrency: calls, MaxItems: 500})
				pause(time.Minute)
				ideal := max(changes*wait/calls, time.Duration(longest)*wait)
				took := done.Sub(began)
				if lsns, _ := h.handled(); len(lsns) != changes || ideal < took*9/10 {
					t.Errorf("%d changes took %s; want %s", len(lsns), took, ideal)
				}
				t.Logf("took %s, ideal %s", took, ideal)
			})
		})
	}
}

func TestConcurrencyIsRefusedWhereItCannotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer := func(lease.Lease) (Observer, error) { return nil, nil }
		for field, cfg := range map[string]Config{
			"Concurrency: is negative":                {Concurrency: -1},
			"Concurrency: (1025) is more than 1024":   {Concurrency: 1025},
			"Concurrency: must be 1 with Observer":    {Concurrency: 2, Observer: observer},
			"ReadAhead: cannot be switched off":       {Concurrency: 2, ReadAhead: -1},
			"Order: 2 is not an order":                {Concurrency: 2, Order: 2},
			"Order: has an effect with Concurrency":   {Order: OrderByItem},
			"Concurrency: must be 1, because Source ": {Concurrency: 2, Source: withoutKeys{newFakeSource("0")}},
		} {
			cfg.Processor, cfg.Leases = "test", newFakeStore()
			if cfg.Source == nil {
				cfg.Source = newFakeSource("0")
			}
			if cfg.Observer == nil {
				cfg.Handler = &collector{}
			}
			p, err := New(cfg)
			if err == nil {
				err = p.Run(t.Context())
			}
			if err == nil || !errorHasPrefix(err, "changefeed: Config."+field) {
				t.Errorf("%v; want Config.%s", err, field)
			}
		}
	})
}

func errorHasPrefix(err error, prefix string) bool {
	text := err.Error()
	return len(text) >= len(prefix) && text[:len(prefix)] == prefix
}

// withoutKeys is a source that does not know its partition key paths.
type withoutKeys struct{ *fakeSource }

func (withoutKeys) Identity(context.Context) (feed.Identity, error) {
	return feed.Identity{AccountHost: "localhost", Database: "d", DatabaseRID: "dr", Container: "c", ContainerRID: "cr"}, nil
}

// When the work ends, a key's batch may have changes of pages that have not started. Those are
// left for the next owner.
func TestBatchIsCutAtTheLastPageThatHasStarted(t *testing.T) {
	w := &worker{host: &host{keyReader: &keyReader{}, cfg: Config{MaxItems: 10, ReadAhead: 1 << 20, Concurrency: 2}}}
	w.window, w.writer = newWindow(w), leaseWriter{w: w, anchored: true, progress: newProgress("")}
	for n := range int64(4) {
		page := pageOf(fmt.Sprint(n+1), 2*n+1, 2*n+2)
		w.pushed(page, pagePosition{n + 1, page.Continuation}, []changeKey{{laneKey: laneKey{hash: uint64(n % 2)}}, {laneKey: laneKey{hash: 9}}})
	}
	first := w.window.next(false) // of pages 1 and 3
	second := w.window.next(true) // what pages 1 to 3 have of the key 9
	third := w.window.next(true)  // what page 2 has
	fourth := w.window.next(true) // nothing more
	if n := len(first.Changes); n != 2 || first.last != 3 {
		t.Errorf("the first batch has %d changes, up to page %d", n, first.last)
	}
	if n := len(second.Changes); n != 3 || second.last != 3 || second.Bytes != 12 {
		t.Errorf("the second batch has %d changes and %d bytes, up to page %d", n, second.Bytes, second.last)
	}
	if n := len(third.Changes); n != 1 || third.last != 2 || fourth != nil {
		t.Errorf("the third batch has %d changes, up to page %d, and the fourth is %+v", n, third.last, fourth)
	}
}
