package changefeed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// tokens is a container for letters with session tokens. It was recreated, so that it knows those
// of its rid only.
type tokens struct {
	*post
	mu     sync.Mutex // guards the field below
	joined []string
}

func (p *tokens) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	s, err := p.post.Open(ctx, k)
	return tokenStore{s, p}, err
}

type tokenStore struct {
	letters.Store
	p *tokens
}

func (s tokenStore) ContainerID(context.Context) (feed.ContainerID, error) {
	return feed.ContainerID{Account: "a", RID: "new="}, nil
}

func (s tokenStore) Session(token string) string {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if token != "" {
		s.p.joined = append(s.p.joined, token)
	}
	return "0:1#7"
}

// The session token of a container that was deleted cannot be read in, so a lease that has one would
// stand still without end.
func TestTokenOfARecreatedContainerIsIgnored(t *testing.T) {
	for token, joins := range map[string]bool{"0:1#5@old=": false, "0:1#5@new=": true, "0:1#5": true} {
		synctest.Test(t, func(t *testing.T) {
			source, leases, p, _, cfg := parkingScene(t, ParkKey)
			known := &tokens{post: p}
			cfg.Failure.Letters = known
			source.items("a", "a1")
			r, _ := idle(t, leases, cfg)
			pause(time.Minute)
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			leases.edit("0", func(l *lease.Lease) { *l = protocol.WithParked(*l, protocol.ParkedSome, token) })
			known.joined = nil
			idle(t, leases, cfg)
			pause(time.Minute)
			if joined := slices.Contains(known.joined, "0:1#5"); joined != joins {
				t.Errorf("%s: joined %v", token, known.joined)
			}
			if said := leases.doc("0").Properties["letters"]; said != "none" {
				t.Errorf("the lease says %q", said)
			}
		})
	}
}
