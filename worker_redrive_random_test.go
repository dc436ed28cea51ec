package changefeed

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
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
