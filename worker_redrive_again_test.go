package changefeed

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/letters"
)

// An operator who drops the first letter of a parked key while the handler has it for the last time
// must still release the rest.
func TestLetterDroppedDuringItsLastAttemptReleasesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1")
		slow := h.slowly(&cfg)
		source.items("a", "a1", "a2", "a3")
		idle(t, leases, cfg)
		pause(3 * time.Minute)
		p.want(t, "before", "1 dead", "2 parked", "3 parked")
		slow(30 * time.Second)
		h.heal(Permanent(errors.New("no")), "a1")
		p.redrive(t, leases)
		pause(20 * time.Second)
		p.drop(t, leases, 1)
		pause(20 * time.Minute)
		wantOrder(t, "after the drop", h.order(), 2, 3)
		p.want(t, "after the drop")
	})
}

// What an operator asks for while letters of the same key are handed out must not be forgotten: a
// second letter that is chosen or dropped meanwhile.
func TestRequestForAKeyThatIsRedrivenIsAnswered(t *testing.T) {
	for what, request := range map[string]func(p *post, t *testing.T, leases *fakeStore){
		"chosen":  func(p *post, t *testing.T, leases *fakeStore) { t.Helper(); p.redrive(t, leases) },
		"dropped": func(p *post, t *testing.T, leases *fakeStore) { t.Helper(); p.drop(t, leases, 2) },
	} {
		synctest.Test(t, func(t *testing.T) {
			source, leases, p, h, cfg := parkingScene(t, ParkNone, "a1", "a2")
			source.items("a", "a1", "a2", "a3")
			r, _ := idle(t, leases, cfg)
			pause(3 * time.Minute)
			p.want(t, "before", "1 dead", "2 dead")
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
			cfg.Failure.Park = ParkKey // so both letters are of a parked key
			h.slowly(&cfg)(30 * time.Second)
			h.heal(nil, "a1", "a2")
			idle(t, leases, cfg)
			pause(3 * time.Minute)
			store, err := p.Container.Open(t.Context(), letters.Key{})
			if err != nil {
				t.Fatal(err)
			}
			l := p.all(t)[0]
			l.State = letters.Redriving
			if _, err := store.Update(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			askToRedrive(leases)
			pause(20 * time.Second)
			request(p, t, leases)
			pause(20 * time.Minute)
			p.want(t, what)
			source.items("a", "a4")
			pause(20 * time.Minute)
			p.want(t, what+", after a new change")
		})
	}
}

// A letter that is repeated without end must leave room for the letters of other keys, also with one
// call of the handler at a time.
func TestLetterThatIsRepeatedLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey)
		cfg.Failure.Attempts = 0
		h.heal(Permanent(errors.New("no")), "a1", "b1")
		source.items("a", "a1")
		source.items("b", "b1")
		idle(t, leases, cfg)
		pause(time.Minute)
		h.heal(errors.New("not yet"), "a1")
		h.heal(nil, "b1")
		p.redrive(t, leases)
		pause(time.Hour)
		p.want(t, "beside a letter that is repeated", "1 redriving")
	})
}

// countingPost is a container whose Get fails as long as down is set, and counts its calls.
type countingPost struct {
	*post
	down atomic.Bool
	gets atomic.Int64
}

func (p *countingPost) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	s, err := p.post.Open(ctx, k)
	return countingStore{s, p}, err
}

type countingStore struct {
	letters.Store
	p *countingPost
}

func (s countingStore) Get(ctx context.Context, group, id string) (letters.Letter, error) {
	s.p.gets.Add(1)
	if s.p.down.Load() {
		return letters.Letter{}, errors.New("down")
	}
	return s.Store.Get(ctx, group, id)
}

// While the container is down, a redrive must not gather work for the time afterwards.
func TestOutageDuringARedriveLeavesNoWorkBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey, "a1")
		counting := &countingPost{post: p}
		cfg.Failure.Letters, cfg.Failure.Attempts = counting, 1_000_000
		h.heal(Permanent(errors.New("no")), "a1")
		source.items("a", "a1", "a2", "a3")
		idle(t, leases, cfg)
		pause(time.Minute)
		h.heal(errors.New("not yet"), "a1")
		p.redrive(t, leases)
		pause(time.Minute)
		counting.down.Store(true)
		pause(time.Hour)
		counting.down.Store(false)
		counting.gets.Store(0)
		h.heal(nil, "a1")
		pause(10 * time.Minute)
		p.want(t, "after the outage")
		if n := counting.gets.Load(); n > 5 {
			t.Errorf("%d reads for three letters", n)
		}
	})
}
