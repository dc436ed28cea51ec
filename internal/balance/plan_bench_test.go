package balance

import (
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// balancedListing returns 10,000 leases that 200 hosts share equally, as host 0 lists
// them.
func balancedListing(b *testing.B) (Host, lease.Listing, Memory) {
	b.Helper()
	w := newWorld(1, 10_000)
	for range 200 {
		w.join(0, Host{})
	}
	for i := range w.leases {
		w.leases[i].Owner = w.hosts[i%200].Owner
	}
	h := w.hosts[0].Host
	p := NewPlan(h, w.list(), Memory{}, 0, true, nil)
	return h, w.list(), p.Memory()
}

// BenchmarkPlanAtRest measures one cycle of a host among 200 that share 10,000 leases
// equally. The cycle has no move.
func BenchmarkPlanAtRest(b *testing.B) {
	h, l, m := balancedListing(b)
	b.ReportAllocs()
	for b.Loop() {
		if NewPlan(h, l, m, time.Second, true, nil).Decide().Kind != MoveNone {
			b.Fatal("there is a move")
		}
	}
}

// BenchmarkPlanFirstListing measures the cycle of BenchmarkPlanAtRest without a memory,
// so that the coverage must be computed.
func BenchmarkPlanFirstListing(b *testing.B) {
	h, l, _ := balancedListing(b)
	b.ReportAllocs()
	for b.Loop() {
		NewPlan(h, l, Memory{}, time.Second, true, nil).Decide()
	}
}

// BenchmarkPlanJoins measures the first cycle of a new host, which wants its share of
// 50 leases.
func BenchmarkPlanJoins(b *testing.B) {
	h, l, m := balancedListing(b)
	h.Owner = protocol.NewOwner("newcomer", 1)
	b.ReportAllocs()
	for b.Loop() {
		p := NewPlan(h, l, m, time.Second, true, nil)
		wanted := 0
		for move := p.Decide(); move.Kind == MoveWant; move = p.Decide() {
			p.Amend(protocol.Wanted(move.Lease, h.Owner))
			wanted++
		}
		if wanted < 49 || wanted > 50 {
			b.Fatalf("it wants %d leases", wanted)
		}
	}
}

// BenchmarkPlanStartsAlone measures the first cycle of the first host, which acquires all
// 10,000 leases.
func BenchmarkPlanStartsAlone(b *testing.B) {
	h, l, m := balancedListing(b)
	free := lease.Listing{Now: l.Now, Initialized: l.Initialized, Leases: append([]lease.Lease(nil), l.Leases...)}
	for i := range free.Leases {
		free.Leases[i].Owner = ""
	}
	b.ReportAllocs()
	for b.Loop() {
		p := NewPlan(h, free, m, time.Second, true, nil)
		for move := p.Decide(); move.Kind == MoveAcquire; move = p.Decide() {
			p.Amend(protocol.Acquired(move.Lease, h.Owner))
		}
	}
}
