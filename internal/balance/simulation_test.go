package balance

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/race"
)

// This simulation measures the convergence of Decide over values in memory and virtual
// time. P leases over W hosts settle at floor/ceil within three and a half acquire
// intervals of the last join or leave. After a death the time counts from the expiry.
// After that no lease moves.

var (
	balanceFull   = flag.Bool("balance.full", false, "ten times the seeds, every start, every event and 100 still intervals for every size: half an hour")
	balanceReport = flag.Bool("balance.report", false, "print what the convergence simulation measured")
)

// sizes are the sizes of the simulated worlds, and the number of random seeds for each.
// still is the number of intervals without a move that the test waits for after the first
// start. later is that number after each later event.
//
// A host's cycle depends on the listing and on the free leases of the cycle before. So if
// no host has written for three cycles, no host ever will. That is why the larger worlds
// wait for less than a hundred intervals.
var sizes = []struct{ leases, hosts, seeds, still, later int }{
	{1, 1, 20, 100, 100},
	{1, 3, 20, 100, 100},
	{2, 2, 20, 100, 100},
	{3, 2, 20, 100, 100},
	{5, 3, 20, 100, 100},
	{7, 10, 20, 100, 100},
	{10, 4, 20, 100, 100},
	{16, 16, 5, 100, 100},
	{17, 16, 5, 100, 100},
	{64, 8, 10, 100, 100},
	{100, 33, 2, 100, 20},
	{101, 100, 1, 100, 10},
	{200, 200, 1, 100, 4},
	{1001, 200, 1, 50, 3},
	{10_000, 200, 1, 10, 3},
}

const bound = 3.5 // acquire intervals

// happening is an event that brings a world out of balance. do causes the event and
// returns the time from which the balance is timed.
type happening struct {
	name string
	do   func(w *world) time.Duration
}

func intervals(d time.Duration) float64 { return float64(d) / float64(times.Acquire) }

// starts returns the ways in which the first n hosts start, for instance all at once.
func starts(n int) []happening {
	come := func(after func(w *world, i int) time.Duration) func(w *world) time.Duration {
		return func(w *world) time.Duration {
			var last time.Duration
			for i := range n {
				d := after(w, i)
				last = max(last, d)
				w.join(d, Host{})
			}
			return w.now + last
		}
	}
	return []happening{
		{"all within an interval", come(func(w *world, _ int) time.Duration { return w.uniform(times.Acquire) })},
		{"all at the same moment", come(func(*world, int) time.Duration { return 0 })},
		{"one after another", come(func(_ *world, i int) time.Duration { return time.Duration(i) * 5 * time.Second })},
	}
}

// mostMoves is the name of the event that moves most leases.
const mostMoves = "half of them stop"

// laters returns the events that are tried in a balanced world.
func laters() []happening {
	return []happening{
		{"one comes", func(w *world) time.Duration {
			w.join(0, Host{})
			return w.now
		}},
		{"one stops", func(w *world) time.Duration {
			all := w.living()
			if len(all) > 1 {
				w.stop(all[w.rnd.IntN(len(all))])
			}
			return w.now
		}},
		{mostMoves, func(w *world) time.Duration {
			all := w.living()
			for _, h := range all[:len(all)/2] {
				w.stop(h)
			}
			return w.now
		}},
		{"as many again at once", func(w *world) time.Duration {
			for range w.living() {
				w.join(0, Host{})
			}
			return w.now
		}},
		{"one crashes", func(w *world) time.Duration {
			all := w.living()
			if len(all) > 1 {
				w.crash(all[w.rnd.IntN(len(all))])
			}
			return w.settleDead()
		}},
		{"one crashes and another comes", func(w *world) time.Duration {
			all := w.living()
			w.crash(all[w.rnd.IntN(len(all))])
			w.join(w.uniform(times.Expiration), Host{})
			joined := w.now + times.Expiration
			return max(w.settleDead(), joined)
		}},
	}
}

// settleDead runs the world until the leases of dead hosts have expired. Requests delay
// the expiry, but never beyond twice the expiration.
func (w *world) settleDead() time.Duration {
	died := w.now
	expiry := max(died, w.expiry())
	for {
		w.run(expiry)
		next := w.expiry()
		if next <= expiry {
			break
		}
		expiry = next
	}
	if limit := died + 2*times.Takeover(); expiry > limit {
		panic(fmt.Sprintf("the leases of a dead host expire %v after its death", expiry-died))
	}
	return expiry
}

// TestBalanceWithinThreeAndAHalfIntervalsAndNoMovesAfter checks the convergence that is
// promised above, for worlds of all sizes.
func TestBalanceWithinThreeAndAHalfIntervalsAndNoMovesAfter(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, so the race detector finds nothing")
	}
	for _, size := range sizes {
		if testing.Short() && size.leases > 100 {
			continue
		}
		if *balanceFull {
			size.seeds, size.still, size.later = 10*size.seeds, 100, 100
		}
		t.Run(fmt.Sprintf("%dx%d", size.leases, size.hosts), func(t *testing.T) {
			t.Parallel()
			for seed := range size.seeds {
				for i, start := range starts(size.hosts) {
					// The largest size takes as long as all others together. So it runs
					// one start and the event that moves most leases.
					short := size.leases > 1001 && !*balanceFull
					if short && i > 0 {
						continue
					}
					w := newWorld(uint64(seed), size.leases)
					if i > 0 {
						happens(t, w, start, size.later)
						continue
					}
					happens(t, w, start, size.still)
					for _, later := range laters() {
						if short && later.name != mostMoves {
							continue
						}
						happens(t, w, later, size.later)
					}
				}
			}
		})
	}
}

// happens causes the event h in w. It checks that w comes into balance in time, and that
// no lease moves in the next still intervals.
func happens(t *testing.T, w *world, h happening, still int) {
	t.Helper()
	began := w.now
	w.moves, w.writes, w.conflicts, w.silent = 0, 0, 0, 0
	from := h.do(w)
	limit := from + time.Duration(bound*float64(times.Acquire))
	w.run(limit)
	took := intervals(max(0, w.lastMove-from))
	checkBalanced(t, w, h.name)
	moves, writes, conflicts, silent := w.moves, w.writes, w.conflicts, w.silent
	w.freshness = 10 * time.Second // no lease moves, so one listing may serve many hosts
	w.run(limit + time.Duration(still)*times.Acquire)
	w.freshness = 100 * time.Millisecond
	if w.lastMove > limit {
		t.Fatalf("%s: a lease moved or was wanted %.1f intervals after it; want no move after %.1f", h.name, intervals(w.lastMove-from), bound)
	}
	if *balanceReport {
		t.Logf("%-30s balanced after %.1f intervals (it took %.1f), %d moves, %d writes, %d conflicts, a lease silent for up to %.0f s",
			h.name, took, intervals(from-began), moves, writes, conflicts, silent.Seconds())
	}
}

// checkBalanced checks that every lease has a live owner and that each host has floor or
// ceil of the leases.
func checkBalanced(t *testing.T, w *world, what string) {
	t.Helper()
	have, orphans := w.have()
	if orphans > 0 {
		t.Fatalf("%s: %d leases have no living owner", what, orphans)
	}
	hosts := len(w.living())
	floor, ceil := len(w.leases)/hosts, (len(w.leases)+hosts-1)/hosts
	var wrong []string
	for _, h := range w.living() {
		if n := have[h]; n < floor || n > ceil {
			wrong = append(wrong, fmt.Sprint(n))
		}
	}
	if len(wrong) > 0 {
		t.Fatalf("%s: hosts have %s leases; want %d to %d", what, strings.Join(wrong, ", "), floor, ceil)
	}
	for i := range w.leases {
		if m := w.leases[i].Wanted(); m != "" {
			t.Fatalf("%s: %s still wants lease %d of %s", what, m, i, w.leases[i].Owner)
		}
	}
}
