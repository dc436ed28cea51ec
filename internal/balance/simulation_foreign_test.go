package balance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/internal/race"
	"github.com/changefeed-go/changefeed/lease"
)

// These are hosts of other implementations in the world of simulation_world_test.go. They
// act as the .NET and Java libraries do (EqualPartitionsBalancingStrategy, every 13 s).
// They aim at the ceiling of leases per owner. They take free leases, and otherwise steal
// one lease from the most loaded owner. They ignore that a lease is wanted, and Java drops that.

const foreignInterval = 13 * time.Second

// foreigner starts a foreign host.
func (w *world) foreigner(after time.Duration, java bool) *host {
	name := fmt.Sprintf("WORKER-%d", len(w.hosts))
	if java {
		name = fmt.Sprintf("pod-%d", len(w.hosts))
	}
	h := &host{Host: Host{Owner: name, Terms: times}, alive: true}
	w.hosts = append(w.hosts, h)
	w.byText[h.Owner] = h
	w.after(after, func() { w.equalPartitions(h, java) })
	return h
}

// equalPartitions runs one cycle of the foreign host h, as the .NET or Java library does,
// and schedules the next one.
func (w *world) equalPartitions(h *host, java bool) {
	if !h.alive {
		return
	}
	defer w.after(foreignInterval, func() { w.equalPartitions(h, java) })
	listing := w.list()
	count := map[string]int{h.Owner: 0}
	var free []lease.Lease
	for _, l := range listing.Leases {
		if l.Owner == "" || listing.Now.Sub(l.Modified) >= times.Expiration {
			free = append(free, l)
			continue
		}
		count[l.Owner]++
	}
	target := 1
	if n := len(listing.Leases); n > len(count) {
		target = (n + len(count) - 1) / len(count)
	}
	need := target - count[h.Owner]
	switch {
	case len(free) > 0 && java:
		// The host steals one lease in a cycle. It does so even if it already has its
		// share.
		if need = max(need, 1); need > 1 && len(count) > 1 {
			need = 1
		}
		w.rnd.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	case len(free) == 0 && need > 0:
		free = w.mostLoadedOf(listing, count, target, need)
		need = 1
	}
	for _, l := range free[:min(max(need, 0), len(free))] {
		l.Owner = h.Owner
		if java {
			l.Properties = nil
		}
		w.update(l)
	}
}

// mostLoadedOf returns the lease that a foreign host steals from the most loaded owner,
// or no lease.
func (w *world) mostLoadedOf(listing lease.Listing, count map[string]int, target, need int) []lease.Lease {
	victim := ""
	for _, l := range listing.Leases { // in the listing's order, because a map has no order
		if count[l.Owner] > count[victim] {
			victim = l.Owner
		}
	}
	if need > 1 {
		target--
	}
	if count[victim] <= target {
		return nil
	}
	i := slices.IndexFunc(listing.Leases, func(l lease.Lease) bool { return l.Owner == victim })
	return listing.Leases[i : i+1]
}

// robbed informs the owner of a lease, at one of its next renewals, that a foreign host
// has the lease.
func (w *world) robbed(l lease.Lease) {
	victim := w.byText[l.Owner]
	if victim == nil || victim.running == nil {
		return
	}
	w.after(w.uniform(renewInterval), func() {
		if w.current(w.indexes[l.ID]).Owner != victim.Owner {
			delete(victim.running, l.ID)
		}
	})
}

// TestBalanceBesideForeignHosts replaces the hosts of another implementation by ours, one
// by one, and then back. After each step every host must have floor or ceil of the
// leases, and no lease may move any more.
func TestBalanceBesideForeignHosts(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, so the race detector finds nothing")
	}
	sizes := []struct{ leases, foreign, ours int }{{1, 1, 1}, {4, 1, 1}, {7, 2, 1}, {8, 1, 2}, {10, 2, 2}, {30, 2, 3}, {64, 3, 3}, {100, 1, 4}}
	for _, size := range sizes {
		for _, java := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d leases, %d foreign, %d ours, Java %t", size.leases, size.foreign, size.ours, java), func(t *testing.T) {
				for seed := range uint64(8) {
					foreignFleet(t, newWorld(seed, size.leases), size.foreign, size.ours, java)
				}
			})
		}
	}
}

func foreignFleet(t *testing.T, w *world, foreign, ours int, java bool) {
	t.Helper()
	rests := func(what string) {
		t.Helper()
		// Allow more time. A foreign host steals one lease in 13 s. Ours steals half of its
		// deficit in 17 s. A handover waits for the end of a claim.
		from := w.now
		limit := from + 3*times.Takeover() + time.Duration(len(w.leases))*foreignInterval
		w.run(limit)
		took := w.lastMove - from
		checkBalanced(t, w, what)
		w.run(limit + 20*times.Acquire)
		if w.lastMove > limit {
			t.Fatalf("%s: a lease moved or was wanted %.1f intervals after it", what, intervals(w.lastMove-from))
		}
		if *balanceReport {
			t.Logf("%-28s balanced after %.1f intervals, %d moves, %d steals", what, intervals(took), w.moves, w.steals)
		}
		w.moves, w.steals = 0, 0
	}
	for range foreign {
		w.foreigner(w.uniform(foreignInterval), java)
	}
	rests("foreign hosts alone")
	for i := range ours {
		w.join(w.uniform(times.Acquire), Host{})
		if i == 0 {
			rests("the first of our hosts joins")
			if len(w.leases) > foreign && w.have1(w.hosts[foreign]) == 0 {
				t.Fatal("it has no lease")
			}
		}
	}
	rests("the others of our hosts join")
	for i := range foreign {
		if i%2 == 0 {
			w.stop(w.hosts[i])
		} else {
			w.crash(w.hosts[i])
		}
	}
	rests("the foreign hosts go")
	w.foreigner(w.uniform(foreignInterval), java)
	rests("a foreign host comes")
	for _, h := range w.living() {
		if protocol.Ours(h.Owner) {
			w.stop(h)
		}
	}
	rests("ours go")
}

func (w *world) have1(h *host) int {
	have, _ := w.have()
	return have[h]
}
