package changefeed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/letters"
)

// silent is a letters container that never answers a write.
type silent struct{ *post }

func (s silent) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	store, err := s.post.Open(ctx, k)
	return silentStore{store}, err
}

type silentStore struct{ letters.Store }

func (silentStore) Put(ctx context.Context, _ letters.Letter) error {
	<-ctx.Done()
	return ctx.Err()
}

// Letters that are not answered take no call from the other keys.
func TestSilentContainerForLettersDelaysNoOtherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := newFakeSource("0"), newFakeStore()
		h := &picky{poison: map[string]error{}}
		for i := range 10 {
			source.items(fmt.Sprint("bad", i), fmt.Sprint("bad", i))
			h.poison[fmt.Sprint("bad", i)] = errors.New("no")
		}
		source.writeKeys("0", keys(100, 100)...)
		cfg := withLetters(Config{Source: source, Handler: h}, newPost(), 1)
		cfg.Failure.Letters = silent{newPost()}
		idle(t, leases, cfg)
		pause(time.Minute)
		if len(h.handled) != 100 || leases.doc("0").Continuation != "" {
			t.Errorf("%d changes were handled; the position is %s", len(h.handled), leases.doc("0").Continuation)
		}
	})
}

// slowPost is a container whose writes take long. most is how many were under way at a time.
type slowPost struct {
	*post
	mu        sync.Mutex // guards the fields below
	now, most int
}

func (p *slowPost) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	s, err := p.post.Open(ctx, k)
	return slowStore{s, p}, err
}

func (p *slowPost) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now += n
	p.most = max(p.most, p.now)
}

type slowStore struct {
	letters.Store
	p *slowPost
}

func (s slowStore) Put(ctx context.Context, l letters.Letter) error {
	s.p.count(1)
	defer s.p.count(-1)
	sleep(ctx, 5*time.Second)
	return s.Store.Put(ctx, l)
}

// However slow the container for letters is, a limited number of batches wait for it.
func TestSlowContainerForLettersGetsFewWritesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p, h, cfg := parkingScene(t, ParkKey)
		cfg.Failure.Attempts, cfg.Failure.Breaker.Letters = 1, -1
		slow := &slowPost{post: p}
		cfg.Failure.Letters = slow
		for i := range 300 {
			id := fmt.Sprintf("k%d", i)
			h.heal(errors.New("no"), id)
			source.items(id, id)
		}
		idle(t, leases, cfg)
		pause(5 * time.Minute)
		if n := len(p.all(t)); n != 300 || slow.most != maxWriting {
			t.Errorf("%d letters, %d at a time", n, slow.most)
		}
	})
}
