package balance

import (
	"fmt"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/internal/race"
)

// balanced returns a world in which the given hosts share the given leases equally.
func balanced(t *testing.T, seed uint64, leases, hosts int) *world {
	t.Helper()
	w := newWorld(seed, leases)
	happens(t, w, starts(hosts)[0], 3)
	return w
}

// TestBalanceEveryHostReplaced is a rolling deployment: every 5 s a new host starts and
// an old one stops.
func TestBalanceEveryHostReplaced(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, so the race detector finds nothing")
	}
	for _, size := range []struct{ leases, hosts int }{{4, 3}, {10, 4}, {64, 8}, {33, 33}, {101, 40}} {
		w := balanced(t, 1, size.leases, size.hosts)
		happens(t, w, happening{"every host is replaced", func(w *world) time.Duration {
			for _, old := range w.living() {
				w.join(0, Host{})
				w.run(w.now + 5*time.Second)
				w.stop(old)
			}
			return w.now
		}}, 100)
	}
}

// A new host wants leases and dies, while the handlers of three leases take 30
// minutes. The leases that it wanted count as its own. The other leases must have
// owners meanwhile. When the handlers return, the world must come into balance.
func TestBalanceRequesterDies(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, so the race detector finds nothing")
	}
	for _, size := range []struct{ leases, hosts int }{{4, 2}, {10, 4}, {64, 8}, {100, 33}, {101, 40}} {
		for seed := range uint64(5) {
			w := balanced(t, seed, size.leases, size.hosts)
			slow := w.now + 30*time.Minute
			for i := range 3 {
				w.slow[i*size.leases/3] = slow
			}
			happens(t, w, happening{"requester dies", func(w *world) time.Duration {
				requester := w.join(0, Host{})
				w.run(w.now + 300*time.Millisecond) // the new host has listed and asked for at least one lease
				w.crash(requester)
				for w.now < slow {
					w.run(w.now + times.Acquire/2)
					if d := w.longestSilence(); d > 2*times.Acquire*11/10 {
						t.Fatalf("%dx%d, seed %d: a lease has had no owner for %v", size.leases, size.hosts, seed, d)
					}
				}
				return slow + renewInterval
			}}, 100)
		}
	}
}

// There are more hosts than leases. A host without a lease must write nothing, and take
// over when another host dies.
func TestBalanceStandbyTakesOver(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, so the race detector finds nothing")
	}
	w := balanced(t, 3, 4, 9)
	for range 4 {
		have, _ := w.have()
		var busy *host
		for _, h := range w.living() {
			if have[h] > 0 {
				busy = h
			}
		}
		happens(t, w, happening{"the owner of a lease crashes", func(w *world) time.Duration {
			w.crash(busy)
			return w.settleDead()
		}}, 100)
		if w.moves > 1 {
			t.Errorf("%d leases moved; want the dead host's", w.moves)
		}
	}
}

// The store has no clock, so each host judges the age of leases by its own listings. The
// world must come into balance all the same.
func TestBalanceAStoreWithoutClock(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, so the race detector finds nothing")
	}
	w := newWorld(5, 20)
	w.clockless = true
	// Allow more time, because a new host asks only for leases that it has seen renewed,
	// one interval later.
	slower := func(h happening, by time.Duration) happening {
		return happening{h.name, func(w *world) time.Duration { return h.do(w) + by }}
	}
	happens(t, w, starts(6)[0], 20)
	for _, h := range laters() {
		// Allow more time, because hosts notice a dead owner's last renewal one listing
		// later.
		happens(t, w, slower(h, 2*times.Acquire), 20)
	}
}

// TestBalanceWithBounds checks MinLeases and MaxLeases. The leases beyond one host's
// maximum must go to other hosts, in any distribution.
func TestBalanceWithBounds(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, so the race detector finds nothing")
	}
	for _, c := range []struct {
		name    string
		leases  int
		hosts   []Host
		want    []int // the least and the most leases of each host
		free    int
		already bool // the hosts start one after another
	}{
		{"one has a maximum", 20, []Host{{Max: 2}, {}, {}, {}, {}}, []int{2, 2, 4, 6, 4, 6, 4, 6, 4, 6}, 0, false},
		{"all have a maximum: the rest stays free", 20, []Host{{Max: 3}, {Max: 3}, {Max: 3}}, []int{3, 3, 3, 3, 3, 3}, 11, false},
		{"a new host stands by while others have their minimum", 20, []Host{{Min: 10}, {Min: 10}, {Min: 10}}, []int{10, 10, 10, 10, 0, 0}, 0, true},
		{"a new host takes the leases above it", 25, []Host{{Min: 10}, {Min: 10}, {Min: 10}}, []int{10, 10, 10, 10, 5, 5}, 0, true},
	} {
		for seed := range uint64(10) {
			w := newWorld(seed, c.leases)
			for i, h := range c.hosts {
				after := w.uniform(times.Acquire)
				if c.already {
					after = time.Duration(i) * 5 * times.Acquire
				}
				w.join(after, h)
			}
			w.run(time.Duration(len(c.hosts)) * 5 * times.Acquire)
			settled := w.lastMove
			w.run(w.now + 100*times.Acquire)
			if w.lastMove != settled {
				t.Errorf("%s, seed %d: something moved in still intervals", c.name, seed)
			}
			have, free := w.have()
			if free != c.free {
				t.Errorf("%s, seed %d: %d leases are free; want %d", c.name, seed, free, c.free)
			}
			for i, h := range w.hosts {
				if n := have[h]; n < c.want[2*i] || n > c.want[2*i+1] {
					t.Errorf("%s, seed %d: host %d has %d leases; want %d to %d", c.name, seed, i, n, c.want[2*i], c.want[2*i+1])
				}
			}
		}
	}
}

// Requests are writes, so they delay the expiry of a dead owner's lease. Such a lease
// must be free after twice the expiration at the latest.
func TestBalanceDeadOwnersLeaseLivesAtMostTwice(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, so the race detector finds nothing")
	}
	for seed := range uint64(30) {
		w := balanced(t, seed, 6, 2)
		dead := w.living()[0]
		w.crash(dead)
		died := w.now
		for i := range 8 { // these hosts lack leases and would ask for some
			w.join(time.Duration(i)*7*time.Second, Host{})
		}
		taken := w.settleDead() // panics if a lease lives longer than 2 E
		w.run(taken + 2*times.Acquire*11/10)
		for i := range w.leases {
			if w.leases[i].Owner == dead.Owner {
				t.Fatalf("seed %d: a lease of the host that died %v ago is not taken", seed, w.now-died)
			}
		}
	}
}

func ExampleInstance() {
	owner := protocol.NewOwner("billing-7", 0xc0ffee)
	fmt.Println(owner, protocol.Ours(owner), protocol.Instance(owner))
	fmt.Println(protocol.Instance("WORKER-7"), protocol.Ours("WORKER-7"))
	// Output:
	// billing-7/00c0ffee true billing-7
	// WORKER-7 false
}
