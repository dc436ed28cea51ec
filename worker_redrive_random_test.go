package changefeed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// Whatever happens (failures, moves, crashes, redrives), nothing is lost, no letter stays, and the
// last change of each key that was handled is its newest one.
func TestEveryKeyEndsAtItsNewestChange(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			draw := rand.New(rand.NewPCG(seed, 1))
			source, leases, p, h, cfg := parkingScene(t, []Park{ParkKey, ParkKey, ParkItem}[draw.IntN(3)], "z")
			cfg.Failure.Attempts, cfg.Failure.Breaker.Letters = 0, -1
			cfg.Concurrency = []int{1, 2, 8, 64}[draw.IntN(4)]
			h.each = draw.IntN(2) == 0
			slow := h.slowly(&cfg)
			source.items("z", "z") // which holds the position
			newest, n := map[string]int64{}, int64(1)
			unit := func(key, id string) string {
				if cfg.Failure.Park == ParkKey {
					return key
				}
				return id
			}
			ask := func() {
				if _, asks := protocol.AskedToRedrive(leases.doc("0")); !asks {
					p.redrive(t, leases)
				}
			}
			key := func() (key, id string) {
				key = string(rune('a' + draw.IntN(3)))
				return key, key + strconv.Itoa(draw.IntN(3))
			}
			run, _ := idle(t, leases, cfg)
			for range 40 {
				switch draw.IntN(6) {
				case 0, 1:
					for range draw.IntN(5) {
						n++
						key, id := key()
						source.items(key, id)
						newest[unit(key, id)] = n
					}
				case 2:
					_, id := key()
					h.heal([]error{nil, Permanent(errors.New("no"))}[draw.IntN(2)], id)
				case 3:
					ask()
				case 4:
					if err := run.end(); err != nil {
						t.Fatal(err)
					}
					if draw.IntN(2) == 0 {
						leases.edit("0", func(l *lease.Lease) { l.Owner = "host/0000dead" })
					}
					cfg.Leases = leases
					run = start(t, cfg)
				}
				slow(time.Duration(draw.IntN(2000)) * time.Millisecond)
				pause(time.Duration(draw.IntN(10_000)) * time.Millisecond)
			}
			for id := range h.poison {
				h.heal(nil, id)
			}
			for range 8 {
				pause(3 * time.Minute)
				ask()
			}
			pause(3 * time.Minute)
			last, all := map[string]int64{}, h.order()
			for _, lsn := range all {
				if id, _ := source.logs["0"][lsn-1].ID(); id != "z" {
					last[unit(id[:1], id)] = lsn
				}
			}
			if !maps.Equal(last, newest) {
				t.Errorf("seed %d: the keys end at %v; want %v", seed, last, newest)
			}
			slices.Sort(all)
			if seen := slices.Compact(all); len(seen) != int(n) {
				t.Errorf("seed %d: %d of %d changes were handled", seed, len(seen), n)
			}
			if left := p.states(t); len(left) > 0 {
				t.Errorf("seed %d: letters are left: %v", seed, left)
			}
		})
	}
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
