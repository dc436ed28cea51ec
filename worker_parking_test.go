package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// heal lets the handler succeed with the given items, or fail if err is not nil.
func (h *picky) heal(err error, items ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range items {
		h.poison[id] = err
	}
}

// order returns the LSNs that were handled since the last call.
func (h *picky) order() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.handled
	h.handled = nil
	return all
}

// states returns the LSN and the state of each letter.
func (p *post) states(t *testing.T) (all []string) {
	t.Helper()
	for _, l := range p.all(t) {
		all = append(all, fmt.Sprintf("%d %s", l.LSN, l.State))
	}
	return all
}

// redrive does what an operator does: it marks the dead letters, and asks the owner of lease 0.
func (p *post) redrive(t *testing.T, leases *fakeStore) {
	t.Helper()
	store, err := p.Container.Open(t.Context(), letters.Key{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.all(t) {
		if l.State == letters.Dead {
			l.State = letters.Redriving
			if _, err := store.Update(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	askToRedrive(leases)
}

// drop deletes the letters with the given LSNs, and asks the owner of lease 0.
func (p *post) drop(t *testing.T, leases *fakeStore, lsns ...int64) {
	t.Helper()
	store, err := p.Container.Open(t.Context(), letters.Key{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.all(t) {
		if slices.Contains(lsns, l.LSN) {
			if err := store.Delete(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	askToRedrive(leases)
}

func askToRedrive(leases *fakeStore) {
	leases.edit("0", func(l *lease.Lease) { *l = protocol.AskToRedrive(*l, time.Now(), "token") })
}

func wantOrder(t *testing.T, what string, got []int64, want ...int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v were handled; want %v", what, got, want)
	}
}

func (p *post) want(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := p.states(t); !slices.Equal(got, want) {
		t.Errorf("%s: the letters are %q; want %q", what, got, want)
	}
}

// parkingScene runs a processor that parks, with a handler that fails with the items in poison.
func parkingScene(t *testing.T, park Park, poison ...string) (*fakeSource, *fakeStore, *post, *picky, Config) {
	t.Helper()
	source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
	h := &picky{poison: map[string]error{}}
	h.heal(errors.New("no"), poison...)
	cfg := withLetters(Config{Source: source, Handler: h}, p, 2)
	cfg.Failure.Park = park
	return source, leases, p, h, cfg
}

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

func TestItemOfALetterIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkItem, "x")
		source.items("a", "x", "y", "x", "y", "x")
		idle(t, leases, cfg)
		pause(time.Minute)
		p.want(t, "of the parked item", "1 dead", "3 parked", "5 parked")
		wantOrder(t, "of the other item", h.order(), 2, 4)
		h.heal(nil, "x")
		p.redrive(t, leases)
		pause(time.Minute)
		wantOrder(t, "after the redrive", h.order(), 1, 3, 5)
		source.items("a", "x")
		pause(time.Minute)
		wantOrder(t, "of the item that is parked no longer", h.order(), 6)
		p.want(t, "after the redrive")
	})
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

// A new owner must know what is parked before it hands anything out. It reads letters only if there
// may be some.
func TestNewOwnerKnowsWhatIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1")
		source.items("b", "b1")
		r, _ := idle(t, leases, cfg)
		pause(time.Minute)
		if err := r.end(); err != nil || p.reads != 1 {
			t.Fatalf("%v; %d reads of a new lease", err, p.reads)
		}
		r, _ = idle(t, leases, cfg)
		pause(time.Minute)
		source.items("a", "a1")
		pause(time.Minute)
		if err := r.end(); err != nil || p.reads != 1 {
			t.Fatalf("%v; %d reads of a lease that never parked", err, p.reads-1)
		}
		h.order()
		h.heal(nil, "a1")
		source.items("a", "a2")
		source.items("b", "b2")
		p.breaks(errors.New("down"))
		_, said := idle(t, leases, cfg)
		pause(time.Minute)
		if got := h.order(); len(got) > 0 || len(said.of(Failed)) == 0 {
			t.Errorf("%v were handled before the letters could be read; failures: %d", got, len(said.of(Failed)))
		}
		p.breaks(nil)
		pause(time.Minute)
		wantOrder(t, "by the new owner", h.order(), 4)
		p.want(t, "of the parked key", "2 dead", "3 parked")
		if p.reads < 3 || leases.doc("0").Properties["letters"] != "some" {
			t.Errorf("%d reads; the lease is %+v", p.reads, leases.doc("0"))
		}
	})
}

// A host that crashes between a letter and the position leaves the change to the next owner. If that
// one handled it, the letter would be redriven after later changes. So an owner that takes over from
// a dead host, or whose lease was written by a host that knows no letters, reads them.
func TestLetterOfACrashedHostIsKnown(t *testing.T) {
	for what, leave := range map[string]func(*lease.Lease){
		"dead":    func(l *lease.Lease) { l.Owner = "host/0000dead" },
		"unaware": func(l *lease.Lease) { l.Properties = nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			source, leases, p, h, cfg := parkingScene(t, ParkKey, "a2")
			source.items("a", "a1", "a2", "a3")
			r, _ := idle(t, leases, cfg)
			pause(time.Minute)
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			h.order()
			h.heal(nil, "a2")
			leases.edit("0", func(l *lease.Lease) {
				l.Continuation, l.Properties = "1", map[string]string{"letters": "none"}
				leave(l)
			})
			start(t, func() Config { cfg.Leases = leases; return cfg }())
			pause(3 * time.Minute)
			wantOrder(t, what, h.order())
			p.want(t, what, "2 dead", "3 parked")
			source.items("b", "b1")
			pause(time.Minute)
			wantOrder(t, what, h.order(), 4)
		})
	}
}

// A change before the letter that comes again after a crash goes to the handler, as it did before.
func TestChangeBeforeALetterIsNotParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a3")
		source.items("a", "a1", "a2", "a3", "a4")
		r, _ := idle(t, leases, cfg)
		pause(time.Minute)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		h.order()
		leases.edit("0", func(l *lease.Lease) { l.Continuation = "1" })
		idle(t, leases, cfg)
		pause(time.Minute)
		wantOrder(t, "after the position went back", h.order(), 2)
		p.want(t, "after the position went back", "3 dead", "4 parked")
	})
}

// A change that the filter hides becomes no letter.
func TestHiddenChangeIsNotParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1")
		cfg.Filter = func(c feed.Change) bool { id, _ := c.ID(); return !strings.HasPrefix(id, "hidden") }
		source.items("a", "a1", "hidden1", "a2", "hidden2")
		idle(t, leases, cfg)
		pause(time.Minute)
		p.want(t, "of the parked key", "1 dead", "3 parked")
		source.items("a", "hidden3")
		pause(time.Minute)
		p.want(t, "of the parked key", "1 dead", "3 parked")
		if at := leases.doc("0").Continuation; at != "5" || len(h.order()) > 0 {
			t.Errorf("the position is %s", at)
		}
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

// A lease remembers at most so many parked keys. Then it waits, and says so.
func TestLeaseWithTooManyParkedKeysWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey)
		cfg.Failure.Attempts, cfg.Failure.Breaker.Letters = 1, -1
		cfg.Concurrency = 64
		_, said := idle(t, leases, cfg)
		for i := range maxParked + 2 {
			id := fmt.Sprintf("k%d", i)
			h.heal(errors.New("no"), id)
			source.items(id, id)
		}
		pause(5 * time.Minute)
		full := slices.ContainsFunc(said.of(Failed), func(n Notification) bool { return errors.Is(n.Err, errTooManyParked) })
		if n := len(p.all(t)); n != maxParked || !full {
			t.Errorf("%d letters, and the user knows why no more: %t", n, full)
		}
		p.drop(t, leases, 1, 2)
		pause(5 * time.Minute)
		if n := len(p.all(t)); n != maxParked {
			t.Errorf("%d letters after two were dropped; want two new ones", n)
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

// An owner that ends before it has read the letters must not say that there are none.
func TestLeaseThatMovesBeforeItsLettersAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a2")
		source.items("a", "a1", "a2", "a3")
		r, _ := idle(t, leases, cfg)
		pause(time.Minute)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		h.order()
		h.heal(nil, "a2")
		leases.edit("0", func(l *lease.Lease) { // as a host leaves it that crashes between the letter and the position
			l.Owner, l.Continuation, l.Properties = "host/0000dead", "1", map[string]string{"letters": "none"}
		})
		p.breaks(errors.New("down"))
		cfg.Leases = leases
		r = start(t, cfg)
		pause(2 * time.Minute)
		if err := r.end(); err != nil || leases.doc("0").Owner != "" {
			t.Fatalf("%v; the lease is %+v", err, leases.doc("0"))
		}
		p.breaks(nil)
		idle(t, leases, cfg)
		pause(time.Minute)
		wantOrder(t, "by the third owner", h.order())
		p.want(t, "at the end", "2 dead", "3 parked")
	})
}

// A lease may have so many letters that to read them takes longer than one request may.
func TestLettersThatTakeLongToReadAreReadInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1")
		p.takes = 35 * time.Second
		source.items("a", "a1", "a2")
		_, said := idle(t, leases, cfg)
		pause(3 * time.Minute)
		p.want(t, "after a read that takes long", "1 dead", "2 parked")
		h.heal(nil, "a1")
		p.redrive(t, leases)
		pause(5 * time.Minute)
		wantOrder(t, "after the redrive", h.order(), 1, 2)
		if n := len(said.of(Failed)); n == 0 || n > 8 {
			t.Errorf("%d failures", n)
		}
	})
}
