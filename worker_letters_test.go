package changefeed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// post is a letters container in memory, in which writes can fail.
type post struct {
	letters.Container
	mu    sync.Mutex // guards the fields below
	down  error
	reads int // by hosts
	// takes is the time that a read by a host takes.
	takes time.Duration
}

func newPost() *post { return &post{Container: memory.NewLetters()} }

func (p *post) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	s, err := p.Container.Open(ctx, k)
	return postStore{s, p}, err
}

// breaks makes every write fail with err, or succeed again if err is nil.
func (p *post) breaks(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = err
}

type postStore struct {
	letters.Store
	p *post
}

// fails returns the error of a request.
func (s postStore) fails() error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.down
}

func (s postStore) Read(ctx context.Context, q letters.Query) iter.Seq2[letters.Letter, error] {
	s.p.mu.Lock()
	s.p.reads++
	s.p.mu.Unlock()
	err := s.fails()
	if !sleep(ctx, s.p.takes) {
		err = ctx.Err()
	}
	if err != nil {
		return func(yield func(letters.Letter, error) bool) { yield(letters.Letter{}, err) }
	}
	return s.Store.Read(ctx, q)
}

func (s postStore) Delete(ctx context.Context, l letters.Letter) error {
	if err := s.fails(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, l)
}

func (s postStore) Put(ctx context.Context, l letters.Letter) error {
	if err := s.fails(); err != nil {
		return err
	}
	return s.Store.Put(ctx, l)
}

// all returns the letters of the container, whole and in order.
func (p *post) all(t *testing.T) (all []letters.Letter) {
	t.Helper()
	store, err := p.Container.Open(t.Context(), letters.Key{})
	if err != nil {
		t.Fatal(err)
	}
	for l, err := range store.Read(t.Context(), letters.Query{}) {
		if err == nil {
			l, err = store.Get(t.Context(), l.Group, l.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b letters.Letter) int { return strings.Compare(a.Sequence, b.Sequence) })
	return all
}

// picky is a handler that fails with err for the items in poison, and counts its calls by LSN.
type picky struct {
	poison map[string]error
	// each reports the failure of single changes.
	each bool
	// then is called after a success.
	then func()

	mu      sync.Mutex // guards the fields below
	handled []int64
	calls   map[int64]int // of the calls with each change alone
	batches int
}

func (h *picky) Handle(_ context.Context, b *Batch) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches++
	if h.calls == nil {
		h.calls = map[int64]int{}
	}
	if b.Changes[0].LSN == b.Changes[len(b.Changes)-1].LSN {
		h.calls[b.Changes[0].LSN]++
	}
	for i, c := range b.Changes {
		id, _ := c.ID()
		if err := h.poison[id]; err != nil && h.each {
			for _, before := range b.Changes[:i] {
				h.handled = append(h.handled, before.LSN)
			}
			return failedAt(len(b.Changes), i, err)
		} else if err != nil {
			return err
		}
	}
	for _, c := range b.Changes {
		h.handled = append(h.handled, c.LSN)
	}
	if h.then != nil {
		h.then()
	}
	return nil
}

// items appends changes of one key to the log of partition 0, each a transaction.
func (s *fakeSource) items(key string, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		lsn := int64(len(s.logs["0"]) + 1)
		s.logs["0"] = append(s.logs["0"], feed.Change{LSN: lsn, Current: fmt.Appendf(nil, `{"id":%q,"k":%q}`, id, key)})
	}
}

func withLetters(cfg Config, p *post, attempts int) Config {
	cfg.Start, cfg.Failure = fromBeginning, Failure{Attempts: attempts, Letters: p, Park: ParkNone, Delay: time.Second, MaxDelay: time.Second}
	return cfg
}

// A handler that fails with a plain error for one change in a hundred must lose only that one: its
// batch is divided, it alone gets its attempts, and then it's a letter that has all one needs.
func TestChangeThatCannotBeHandledBecomesALetter(t *testing.T) {
	for _, concurrency := range []int{1, 8} {
		synctest.Test(t, func(t *testing.T) {
			source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
			for i := range 100 {
				source.items([]string{"a", "b"}[i%2], fmt.Sprintf("i%d", i))
			}
			h := &picky{poison: map[string]error{"i40": errors.New("no such account")}}
			_, said := idle(t, leases, withLetters(Config{Source: source, Handler: h, Concurrency: concurrency}, p, 3))
			pause(time.Minute)
			all := p.all(t)
			if len(all) != 1 || len(h.handled) != 99 || slices.Contains(h.handled, 41) || h.calls[41] != 3 {
				t.Fatalf("%d letters; %d changes handled, and %d attempts at LSN 41 alone", len(all), len(h.handled), h.calls[41])
			}
			if at := leases.doc("0").Continuation; at != "100" {
				t.Errorf("the position is %s", at)
			}
			l := all[0]
			if l.ItemID != "i40" || l.LSN != 41 || l.PartitionKey.String() != `["a"]` || l.Hash == "" || l.State != letters.Dead ||
				l.Error != "no such account" || l.Attempts != 3 || l.Lease != "0" || l.Host == "" || !strings.Contains(string(l.Current), `"i40"`) ||
				!l.Last.After(l.First) {
				t.Errorf("%+v", l)
			}
			if n := said.of(GivenUp); len(n) != 1 || n[0].Attempt != 3 || !strings.Contains(n[0].Err.Error(), "no such account") {
				t.Errorf("%+v", n)
			}
		})
	}
}

// While letters cannot be written, the key waits and the position stays. Other keys go on.
func TestNothingIsDroppedWhileLettersCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
		source.items("a", "bad", "later")
		source.items("b", "b1", "b2")
		p.breaks(errors.New("unreachable"))
		h := &picky{poison: map[string]error{"bad": errors.New("no")}}
		r, said := idle(t, leases, withLetters(Config{Source: source, Handler: h}, p, 1))
		pause(10 * time.Minute)
		if !slices.Equal(h.handled, []int64{3, 4}) || h.calls[1] != 1 || leases.doc("0").Continuation != "" {
			t.Errorf("%v were handled, with %d calls for the bad one; the position is %s", h.handled, h.calls[1], leases.doc("0").Continuation)
		}
		if _, is := errors.AsType[*LettersError](said.of(Failed)[len(said.of(Failed))-1].Err); !is {
			t.Errorf("the last failure is %v", said.of(Failed)[len(said.of(Failed))-1].Err)
		}
		p.breaks(nil)
		pause(2 * time.Minute)
		if len(p.all(t)) != 1 || len(h.handled) != 3 || leases.doc("0").Continuation != "4" {
			t.Errorf("%d letters, %v were handled, the position is %s", len(p.all(t)), h.handled, leases.doc("0").Continuation)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// A host crashes after it has written a letter and before its checkpoint. The next one makes no
// second letter.
func TestCrashBetweenLetterAndCheckpointMakesNoSecondLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
		source.items("a", "bad")
		h := &picky{poison: map[string]error{"bad": errors.New("no")}}
		cfg := withLetters(Config{Source: source, Handler: h, DrainTimeout: -1}, p, 2)
		leases.before = func(w fakeWrite) error {
			if w.lease.Continuation != "" {
				return errors.New("unreachable") // the host never stores the position
			}
			return nil
		}
		r, _ := idle(t, leases, cfg)
		pause(20 * time.Second)
		_ = r.end()
		leases.setBefore(nil)
		pause(5 * time.Minute) // the lease expires
		idle(t, leases, cfg)
		pause(time.Minute)
		if n := len(p.all(t)); n != 1 || h.calls[1] != 4 || leases.doc("0").Continuation != "1" {
			t.Errorf("%d letters after %d attempts; the position is %s", n, h.calls[1], leases.doc("0").Continuation)
		}
	})
}

func TestPermanentErrorsAndUndecodableChangesAreGivenUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
		source.items("a", "1", "bad", "3", "odd", "5")
		source.logs["0"][3].Current = []byte(`{"id":"odd","k":"a","n":"text"}`)
		calls := 0
		h := Each(func(_ context.Context, c Change[struct{ N int }]) error {
			calls++
			if c.ID == "bad" {
				return fmt.Errorf("refused: %w", Permanent(errors.New("no")))
			}
			return nil
		})
		idle(t, leases, withLetters(Config{Source: source, Handler: h}, p, 0))
		pause(time.Minute)
		all := p.all(t)
		if len(all) != 2 || all[0].ItemID != "bad" || all[0].Attempts != 1 || all[1].ItemID != "odd" || calls != 4 || leases.doc("0").Continuation != "5" {
			t.Errorf("%+v after %d calls; the position is %s", all, calls, leases.doc("0").Continuation)
		}
	})
}

// A transaction is given up as a whole, unless the handler reports single changes.
func TestTransactionIsOneUnitUnlessItemsAreReported(t *testing.T) {
	for _, each := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
			source.items("a", "1", "2", "3", "bad", "2", "6")
			for i := 1; i < 5; i++ {
				source.logs["0"][i].LSN = 5 // one transaction of four changes, two of them to one item
			}
			h := &picky{each: each, poison: map[string]error{"bad": errors.New("no")}}
			if each {
				h.poison["2"] = errors.New("no")
			}
			idle(t, leases, withLetters(Config{Source: source, Handler: h}, p, 2))
			pause(time.Minute)
			var got []string
			for _, l := range p.all(t) {
				got = append(got, fmt.Sprintf("%s/%d/%d", l.ItemID, l.Index, l.Place))
			}
			want := []string{"2/0/0", "3/1/0", "bad/2/0", "2/3/1"}
			if each {
				want = []string{"2/0/0", "bad/2/0", "2/3/1"}
			}
			if !slices.Equal(got, want) || len(h.handled)+len(got) != 6 || leases.doc("0").Continuation != "6" {
				t.Errorf("reported %t: the letters are %v, and %v were handled; the position is %s", each, got, h.handled, leases.doc("0").Continuation)
			}
		})
	}
}

// Neither the end of a call's context nor a stop of the lease is an attempt.
func TestStopsAndEndedContextsAreNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
		source.items("a", "1")
		h := &picky{poison: map[string]error{"1": Stop(errors.New("no"))}}
		r, said := idle(t, leases, withLetters(Config{Source: source, Handler: h}, p, 1))
		pause(time.Minute)
		if len(said.of(Stopped)) != 1 || len(p.all(t)) > 0 {
			t.Errorf("%d stops, %d letters", len(said.of(Stopped)), len(p.all(t)))
		}
		_ = r.end()
		leases.edit("0", resume)
		slow := HandlerFunc(func(ctx context.Context, _ *Batch) error { <-ctx.Done(); return errors.New("interrupted") })
		r, _ = idle(t, leases, withLetters(Config{Source: source, Handler: slow, DrainTimeout: time.Second}, p, 1))
		pause(time.Minute)
		_ = r.end()
		if n := len(p.all(t)); n > 0 || leases.doc("0").Continuation != "" {
			t.Errorf("%d letters; the position is %s", n, leases.doc("0").Continuation)
		}
	})
}

// One poison key among 10,000 must cost the others next to nothing: the 99th percentile of their
// delays is within 1.3 of a run without it.
func TestPoisonKeyDelaysNoOtherKey(t *testing.T) {
	percentile := func(poison bool) time.Duration {
		var all []time.Duration
		synctest.Test(t, func(t *testing.T) {
			source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
			var mu sync.Mutex
			h := HandlerFunc(func(ctx context.Context, b *Batch) error {
				sleep(ctx, time.Millisecond)
				for _, c := range b.Changes {
					if id, _ := c.ID(); id == "key-7" && poison {
						return errors.New("no")
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for _, c := range b.Changes {
					all = append(all, time.Since(c.Time))
				}
				return nil
			})
			cfg := withLetters(Config{Source: source, Handler: h, Concurrency: 4}, p, 3)
			idle(t, leases, cfg)
			for i := range 10_000 {
				source.writeKeys("0", fmt.Sprintf("key-%d", i))
				if i%20 == 0 {
					time.Sleep(100 * time.Millisecond)
				}
			}
			pause(time.Minute)
			want := 0
			if poison {
				want = 1
			}
			if n := len(p.all(t)); n != want || len(all)+n != 10_000 {
				t.Errorf("%d letters, and %d changes were handled", n, len(all))
			}
		})
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	without, with := percentile(false), percentile(true)
	if with > without*13/10 {
		t.Errorf("the 99th percentile is %s with a poison key and %s without", with, without)
	}
}

func TestLettersAreRefusedWhereTheyCannotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost()
		for field, cfg := range map[string]Config{
			"Failure.Attempts: is negative":                    {Failure: Failure{Attempts: -1}},
			"Failure.Letters: is required with":                {Failure: Failure{Attempts: 1}},
			"Failure.Park: has an effect with Failure.Letter":  {Failure: Failure{Park: ParkNone}},
			"Failure.Breaker: has an effect with Failure.L":    {Failure: Failure{Breaker: Breaker{Letters: 5}}},
			"Failure.Park: 3 is not one of":                    {Failure: Failure{Letters: p, Park: 3}},
			"Failure.Park: cannot be ParkKey with OrderByItem": {Failure: Failure{Letters: p}, Order: OrderByItem},
			"Checkpoint.Manual: cannot be combined":            {Failure: Failure{Letters: p, Park: ParkNone}, Checkpoint: Checkpointing{Manual: true}},
			"ReadAhead: cannot be switched off":                {Failure: Failure{Letters: p, Park: ParkNone}, ReadAhead: -1},
			"Failure.Letters: needs a Source that":             {Failure: Failure{Letters: p, Park: ParkNone}, Source: plainSource{newFakeSource("0")}},
			"Failure.Letters: the container":                   {Failure: Failure{Letters: unfit{}, Park: ParkNone}},
		} {
			cfg.Processor, cfg.Leases, cfg.Handler = "test", newFakeStore(), &collector{}
			if cfg.Source == nil {
				cfg.Source = newFakeSource("0")
			}
			r, err := New(cfg)
			if err == nil {
				err = r.Run(t.Context())
			}
			if err == nil || !errorHasPrefix(err, "changefeed: Config."+field) {
				t.Errorf("%v; want Config.%s", err, field)
			}
		}
	})
}

// plainSource is a source that hashes no keys.
type plainSource struct{ feed.Source }

// unfit is a container that cannot hold letters.
type unfit struct{}

func (unfit) Open(context.Context, letters.Key) (letters.Store, error) {
	return nil, &letters.ContainerError{Found: "the container is full", Remedy: "use another"}
}

// A handler checkpoints a batch, and fails when that takes too long. Its changes are acknowledged then,
// also after the batch was divided, and must not count twice: the position would pass a change that
// is still in its handler.
func TestCheckpointedBatchThatIsDividedCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
		source.items("slow", "s")
		source.items("a", "a1", "a2", "a3")
		h := HandlerFunc(func(ctx context.Context, b *Batch) error {
			if id, _ := b.Changes[0].ID(); id == "s" {
				<-ctx.Done()
				return ctx.Err()
			}
			ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			return b.Checkpoint(ctx)
		})
		r, _ := idle(t, leases, withLetters(Config{Source: source, Handler: h, Concurrency: 2, DrainTimeout: -1}, p, 3))
		pause(time.Minute)
		_ = r.end()
		if at := leases.doc("0").Continuation; at != "" {
			t.Errorf("the position is %s, though the handler has not done the first change", at)
		}
	})
}

// What is left of a divided batch has been filtered, and later changes have not.
func TestFilterHidesChangesBehindADividedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
		source.items("a", "bad", "1", "2")
		h := &picky{poison: map[string]error{"bad": errors.New("no")}}
		idle(t, leases, withLetters(Config{
			Source: source, Handler: h, Filter: func(c feed.Change) bool { id, _ := c.ID(); return id != "hidden" },
		}, p, 5))
		source.items("a", "hidden", "3")
		pause(time.Minute)
		if !slices.Equal(h.handled, []int64{2, 3, 5}) || leases.doc("0").Continuation != "5" {
			t.Errorf("%v were handled; the position is %s", h.handled, leases.doc("0").Continuation)
		}
	})
}

// A change that is no JSON becomes a letter, too.
func TestChangeThatIsNoJSONBecomesALetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
		source.logs["0"] = append(source.logs["0"], feed.Change{LSN: 1, Current: []byte(`{"id":"x","k":`)})
		h := HandlerFunc(func(context.Context, *Batch) error { return Permanent(errors.New("no")) })
		idle(t, leases, withLetters(Config{Source: source, Handler: h}, p, 0))
		pause(time.Minute)
		if all := p.all(t); len(all) != 1 || leases.doc("0").Continuation != "1" {
			t.Errorf("%d letters; the position is %s", len(all), leases.doc("0").Continuation)
		}
	})
}
