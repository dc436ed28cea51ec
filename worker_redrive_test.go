package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/letters"
)

// The later changes of a key of which a letter exists must not overtake it, while all other keys go
// on. When the letter is redriven, they follow in order, and then the newer ones.
func TestKeyOfALetterIsParkedUntilItIsRedriven(t *testing.T) {
	for _, concurrency := range []int{1, 8} {
		synctest.Test(t, func(t *testing.T) {
			source, leases, p, h, cfg := parkingScene(t, ParkKey, "a2")
			cfg.Concurrency = concurrency
			for i := range 4 {
				source.items("a", fmt.Sprintf("a%d", i+1))
				source.items("b", fmt.Sprintf("b%d", i+1))
			}
			idle(t, leases, cfg)
			pause(time.Minute)
			p.want(t, "of the parked key", "3 dead", "5 parked", "7 parked")
			got := h.order()
			slices.Sort(got)
			wantOrder(t, "beside the letter", got, 1, 2, 4, 6, 8)
			if parked := p.all(t)[1]; parked.Error != "" || parked.Attempts != 0 || parked.PartitionKey.String() != `["a"]` || parked.First.IsZero() {
				t.Errorf("the parked letter is %+v", parked)
			}
			if doc := leases.doc("0"); doc.Continuation != "8" || doc.Properties["letters"] != "some" {
				t.Errorf("the lease is %+v", doc)
			}
			source.items("a", "a5")
			pause(time.Minute)
			p.want(t, "of a key that stays parked", "3 dead", "5 parked", "7 parked", "9 parked")
			h.heal(nil, "a2")
			p.redrive(t, leases)
			source.items("a", "a6")
			pause(time.Minute)
			wantOrder(t, "after the redrive", h.order(), 3, 5, 7, 9, 10)
			p.want(t, "after the redrive")
			source.items("a", "a7")
			pause(time.Minute)
			wantOrder(t, "of the key that is parked no longer", h.order(), 11)
			if doc := leases.doc("0"); doc.Properties["letters"] != "none" || doc.Properties["redrive"] != "" {
				t.Errorf("the lease is %+v", doc)
			}
		})
	}
}

// Changes that do not build on each other overtake a letter, and only what an operator has chosen is
// handed out again.
func TestWithoutParkingOnlyChosenLettersAreRedriven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkNone, "x", "z")
		source.items("a", "x", "y", "z")
		idle(t, leases, cfg)
		pause(time.Minute)
		wantOrder(t, "beside the letters", h.order(), 2)
		h.heal(nil, "x", "z")
		store, err := p.Container.Open(t.Context(), letters.Key{})
		if err != nil {
			t.Fatal(err)
		}
		chosen := p.all(t)[1]
		chosen.State = letters.Redriving
		if _, err := store.Update(t.Context(), chosen); err != nil {
			t.Fatal(err)
		}
		askToRedrive(leases)
		pause(time.Minute)
		wantOrder(t, "after the redrive", h.order(), 3)
		p.want(t, "that nobody has chosen", "1 dead")
		if doc := leases.doc("0"); doc.Properties["letters"] != "" || doc.Properties["redrive"] != "" {
			t.Errorf("the lease is %+v", doc)
		}
	})
}

// When the handler fails once more with a letter, it is dead again, and the later ones keep waiting.
func TestLetterThatFailsAgainIsDeadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1", "a3")
		source.items("a", "a1", "a2", "a3", "a4")
		_, said := idle(t, leases, cfg)
		pause(time.Minute)
		before := len(said.of(GivenUp))
		h.heal(nil, "a1")
		h.heal(errors.New("still not"), "a3")
		p.redrive(t, leases)
		pause(time.Minute)
		wantOrder(t, "up to the next poison", h.order(), 1, 2)
		p.want(t, "behind it", "3 dead", "4 parked")
		l := p.all(t)[0]
		if l.Error != "still not" || l.Attempts != 2 || len(said.of(GivenUp)) != before+1 {
			t.Errorf("the letter is %+v, and %d changes were given up", l, len(said.of(GivenUp)))
		}
		source.items("a", "a5")
		pause(time.Minute)
		p.want(t, "of the key that stays parked", "3 dead", "4 parked", "5 parked")
		h.heal(nil, "a3")
		askToRedrive(leases) // for the letter of another key
		pause(time.Minute)
		wantOrder(t, "behind a letter that nobody has chosen", h.order())
	})
}

// To drop the letter that holds a key releases the rest in order, and to drop all of them unparks it.
func TestDroppedLetterReleasesThoseBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1", "b1")
		source.items("a", "a1", "a2", "a3")
		source.items("b", "b1", "b2")
		idle(t, leases, cfg)
		pause(time.Minute)
		p.drop(t, leases, 1, 4, 5)
		pause(time.Minute)
		wantOrder(t, "after the drop", h.order(), 2, 3)
		source.items("b", "b3")
		pause(time.Minute)
		wantOrder(t, "of the key without letters", h.order(), 6)
		p.want(t, "after the drop")
	})
}

// A planned move waits for the letter in the handler, and nothing else of its key. The next owner
// goes on with the redrive.
func TestRedriveGoesOnWithTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1")
		source.items("a", "a1", "a2", "a3")
		cfg.Concurrency = 4
		cfg.Handler = HandlerFunc(func(ctx context.Context, b *Batch) error {
			if id, _ := b.Changes[0].ID(); id != "b1" {
				time.Sleep(10 * time.Second)
			}
			return h.Handle(ctx, b)
		})
		r, _ := idle(t, leases, cfg)
		pause(3 * time.Minute)
		p.want(t, "before the redrive", "1 dead", "2 parked", "3 parked")
		h.heal(nil, "a1")
		p.redrive(t, leases)
		pause(20 * time.Second)
		source.items("a", "a4")
		source.items("b", "b1")
		pause(6 * time.Second) // b1 is handled, so the page has begun in which a4 waits behind the redrive
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		first := h.order()
		if doc := leases.doc("0"); len(first) < 2 || len(first) > 3 || doc.Properties["letters"] != "some" || doc.Continuation != "5" {
			t.Errorf("the first owner has handled %v; the lease is %+v", first, doc)
		}
		idle(t, leases, cfg)
		pause(3 * time.Minute)
		all := slices.DeleteFunc(append(first, h.order()...), func(lsn int64) bool { return lsn == 5 })
		wantOrder(t, "by both owners", all, 1, 2, 3, 4)
		p.want(t, "after the redrive")
	})
}

// A letter that was handled and cannot be deleted is not handed out again while its owner lives.
func TestHandledLetterIsDeletedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1")
		source.items("a", "a1", "a2")
		_, said := idle(t, leases, cfg)
		pause(time.Minute)
		h.heal(nil, "a1")
		h.mu.Lock()
		h.then = func() { p.breaks(errors.New("down")) }
		h.mu.Unlock()
		p.redrive(t, leases)
		pause(time.Minute)
		wantOrder(t, "while letters are down", h.order(), 1)
		if len(said.of(Failed)) == 0 {
			t.Error("nobody is told that the letter cannot be deleted")
		}
		h.mu.Lock()
		h.then = nil
		h.mu.Unlock()
		p.breaks(nil)
		pause(time.Minute)
		wantOrder(t, "afterwards", h.order(), 2)
		p.want(t, "afterwards")
	})
}

// A request that comes while letters are read, or handed out, is answered as well.
func TestRequestDuringARedriveIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1", "b1")
		source.items("a", "a1", "a2")
		source.items("b", "b1", "b2")
		cfg.Handler = HandlerFunc(func(ctx context.Context, b *Batch) error { time.Sleep(20 * time.Second); return h.Handle(ctx, b) })
		idle(t, leases, cfg)
		pause(5 * time.Minute)
		p.want(t, "before", "1 dead", "2 parked", "3 dead", "4 parked")
		h.heal(nil, "a1")
		p.redrive(t, leases) // which fails with b1 again
		pause(30 * time.Second)
		h.heal(nil, "b1")
		for range 20 { // b1 is dead again at one of them
			p.redrive(t, leases)
			pause(10 * time.Second)
		}
		pause(5 * time.Minute)
		p.want(t, "after")
		got := h.order()
		slices.Sort(got)
		wantOrder(t, "in the end", got, 1, 2, 3, 4)
	})
}

// What an operator changes before it sees the answer must be read, so the letters are read after the
// answer is stored.
func TestChangesBeforeTheAnswerAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1")
		source.items("a", "a1")
		idle(t, leases, cfg)
		pause(time.Minute)
		h.heal(nil, "a1")
		var answered bool
		leases.setBefore(func(w fakeWrite) error {
			if _, asks := protocol.AskedToRedrive(leases.doc("0")); asks && !answered {
				answered = true
				time.Sleep(5 * time.Second) // the request is still unanswered
				store, err := p.Container.Open(t.Context(), letters.Key{})
				if err != nil {
					return err
				}
				for _, l := range p.all(t) {
					l.State = letters.Redriving
					if _, err := store.Update(t.Context(), l); err != nil {
						return err
					}
				}
			}
			return nil
		})
		askToRedrive(leases)
		pause(time.Minute)
		wantOrder(t, "after the answer", h.order(), 1)
		if !answered {
			t.Error("the request was not answered")
		}
	})
}

// A letter that waits for its retry holds no position, so it refuses no checkpoint.
func TestRedriveThatFailsRefusesNoCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1")
		source.items("a", "a1")
		cfg.Concurrency, cfg.Failure.Attempts = 4, 0
		h.heal(Permanent(errors.New("no")), "a1")
		var failures []error
		cfg.Handler = HandlerFunc(func(ctx context.Context, b *Batch) error {
			if err := h.Handle(ctx, b); err != nil {
				return err
			}
			if id, _ := b.Changes[0].ID(); id == "slow" {
				sleep(ctx, 10*time.Second)
				return nil
			}
			if err := b.Checkpoint(ctx); err != nil {
				failures = append(failures, err)
			}
			return nil
		})
		idle(t, leases, cfg)
		pause(time.Minute)
		h.heal(errors.New("not yet"), "a1")
		p.redrive(t, leases)
		pause(time.Minute)
		source.items("c", "slow")
		pause(time.Second)
		source.items("b", "b1", "b2")
		pause(time.Minute)
		if len(failures) > 0 {
			t.Errorf("checkpoints beside a redrive that fails: %v", failures)
		}
		got := h.order()
		slices.Sort(got)
		wantOrder(t, "beside a redrive that fails", got, 2, 3, 4)
		h.heal(nil, "a1")
		pause(time.Minute)
		p.want(t, "after the redrive")
	})
}

// slowly delays each call of the handler by what the returned function sets.
func (h *picky) slowly(cfg *Config) (set func(time.Duration)) {
	var takes atomic.Int64
	cfg.Handler = HandlerFunc(func(ctx context.Context, b *Batch) error {
		sleep(ctx, time.Duration(takes.Load()))
		return h.Handle(ctx, b)
	})
	return func(d time.Duration) { takes.Store(int64(d)) }
}

// After a move, changes that precede the letters may come again. If the letters were handed out
// before those, the key would end at an old state.
func TestRedriveWaitsForChangesThatComeAgain(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { redriveBesideChangesThatComeAgain(t, early) })
	}
}

// early says that the letters wait for the handler before the next owner has read anything.
func redriveBesideChangesThatComeAgain(t *testing.T, early bool) {
	t.Helper()
	source, leases, p, h, cfg := parkingScene(t, ParkKey)
	cfg.Failure.Attempts = 0
	h.heal(errors.New("not yet"), "b1") // which holds the position
	h.heal(Permanent(errors.New("no")), "a2")
	slow := h.slowly(&cfg)
	source.items("b", "b1")
	source.items("a", "a1", "a2", "a3")
	source.items("c", "c1")
	r, _ := idle(t, leases, cfg)
	pause(time.Minute)
	p.want(t, "first", "3 dead", "4 parked")
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	h.order()
	h.heal(nil, "a2")
	slow(20 * time.Second)
	if early {
		p.redrive(t, leases)
	}
	idle(t, leases, cfg)
	if !early {
		p.redrive(t, leases)
	}
	pause(10 * time.Minute)
	got := slices.DeleteFunc(h.order(), func(lsn int64) bool { return lsn == 5 })
	wantOrder(t, "by the next owner", got, 2, 3, 4)
	p.want(t, "at the end")
}

// The user may keep a batch and checkpoint it after it was given up. The position must not pass a
// change before it that is not done.
func TestLateCheckpointOfWhatWasGivenUpPassesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey)
		cfg.Concurrency, cfg.Failure.Attempts, cfg.MaxItems = 8, 0, 1
		h.heal(errors.New("not yet"), "b1")
		h.heal(Permanent(errors.New("no")), "a2")
		source.items("b", "b1")
		source.items("a", "a2")
		kept := make(chan *Batch, 1)
		cfg.Handler = HandlerFunc(func(ctx context.Context, b *Batch) error {
			if b.Changes[0].LSN == 2 {
				kept <- b
			}
			return h.Handle(ctx, b)
		})
		idle(t, leases, cfg)
		pause(time.Minute)
		p.want(t, "at first", "2 dead")
		b, answer := <-kept, make(chan error, 1)
		go func() { answer <- b.Checkpoint(t.Context()) }()
		pause(time.Minute)
		if at := leases.doc("0").Continuation; at != "" {
			t.Errorf("the position is %s, and LSN 1 was not handled", at)
		}
		if err := <-answer; !errors.Is(err, ErrGap) {
			t.Errorf("the checkpoint returned %v", err)
		}
		h.heal(nil, "b1")
		pause(time.Minute)
		wantOrder(t, "in the end", h.order(), 1)
	})
}

// Letters that an operator has chosen are taken up by the next owner, also without parking.
func TestChosenLettersAreTakenUpByTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkNone, "x", "z")
		source.items("a", "x", "z")
		slow := h.slowly(&cfg)
		r, _ := idle(t, leases, cfg)
		pause(time.Minute)
		p.want(t, "at first", "1 dead", "2 dead")
		h.heal(nil, "x", "z")
		slow(20 * time.Second)
		p.redrive(t, leases)
		pause(15 * time.Second)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		idle(t, leases, cfg)
		pause(10 * time.Minute)
		wantOrder(t, "by both owners", h.order(), 1, 2)
		p.want(t, "at the end")
	})
}

// A letter with which the handler fails without end must hold up no other key's letters. When
// somebody drops it, it is not handed out again.
func TestLetterThatKeepsFailingHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey)
		cfg.Failure.Attempts, cfg.Concurrency = 0, 8
		h.heal(Permanent(errors.New("no")), "a1", "b1")
		source.items("a", "a1", "a2")
		source.items("b", "b1", "b2")
		idle(t, leases, cfg)
		pause(time.Minute)
		p.want(t, "at first", "1 dead", "2 parked", "3 dead", "4 parked")
		h.heal(errors.New("not yet"), "a1", "b1")
		p.redrive(t, leases)
		pause(time.Minute)
		h.heal(nil, "b1")
		pause(time.Minute)
		wantOrder(t, "beside a letter that fails", h.order(), 3, 4)
		h.heal(Permanent(errors.New("no")), "c1")
		source.items("c", "c1", "c2")
		pause(time.Minute)
		h.heal(nil, "c1")
		store, err := p.Container.Open(t.Context(), letters.Key{})
		if err != nil {
			t.Fatal(err)
		}
		l := p.all(t)[2]
		l.State = letters.Redriving
		if _, err := store.Update(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		askToRedrive(leases)
		pause(time.Minute)
		wantOrder(t, "of a request beside a letter that fails", h.order(), 5, 6)
		p.drop(t, leases, 1)
		pause(time.Minute)
		wantOrder(t, "after the drop", h.order(), 2)
		p.want(t, "at the end")
	})
}

// A change whose key cannot be read waits for everything before it, also for what waits behind a
// redrive.
func TestChangeWithoutAReadableKeyWaitsForWhatIsBehindARedrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkNone, "a1")
		source.items("a", "a1")
		slow := h.slowly(&cfg)
		idle(t, leases, cfg)
		pause(time.Minute)
		h.heal(nil, "a1")
		slow(time.Minute)
		source.items("b", "b2")
		pause(10 * time.Second)
		source.items("a", "a3")
		source.mu.Lock()
		source.logs["0"] = append(source.logs["0"], feed.Change{LSN: 4, Current: []byte(`{"id":"z","k":{"o":1}}`)})
		source.mu.Unlock()
		pause(8 * time.Second)
		p.redrive(t, leases)
		pause(10 * time.Minute)
		got := h.order()
		if slices.Index(got, 4) < slices.Index(got, 3) || len(got) != 4 {
			t.Errorf("%v were handled", got)
		}
	})
}
