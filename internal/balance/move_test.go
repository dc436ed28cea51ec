package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// literal computes the result of Decide as the protocol states it, without the plan's
// bookkeeping. It counts everything again for each decision.
type literal struct {
	host    Host
	leases  []lease.Lease
	now     time.Time
	regular bool
	before  map[string]string // the leases that were free one interval ago: ID to ETag
	workers map[string]bool   // the leases that this host has a worker for, and whether it trusts them
	barred  map[string]bool   // the leases that have an ancestor in the listing, by ID
	skipped map[string]bool
	amended map[string]bool // the leases that were written since the listing, by ID
	stolen  int             // the number of leases that this host stole in this cycle
}

func (d *literal) live(l lease.Lease) bool {
	if l.Owner == d.host.Owner && d.workers[l.ID] {
		return true // whatever the store's clock shows
	}
	return l.Owner != "" && d.now.Sub(l.Modified) < d.host.Terms.Expiration+time.Second
}

// runs reports whether this host has a worker for the lease.
func (d *literal) runs(id string) bool {
	_, ok := d.workers[id]
	return ok
}

// inUse reports whether one of our hosts may still use a part of a lease's range, by
// another lease.
func (d *literal) inUse(l lease.Lease) bool {
	return slices.ContainsFunc(d.leases, func(x lease.Lease) bool {
		return protocol.IsAncestor(l, x) && (d.runs(x.ID) || d.live(x) && x.Owner != d.host.Owner && protocol.Ours(x.Owner))
	})
}

func (d *literal) wanted(l lease.Lease) bool {
	return l.Wanted() != "" && !d.barred[l.ID] && (l.Owner == "" || d.live(l) && protocol.Ours(l.Owner))
}

func (d *literal) counted(l lease.Lease) string {
	switch {
	case d.wanted(l):
		return l.Wanted()
	case d.live(l):
		return l.Owner
	}
	return ""
}

func (d *literal) decide() Move {
	me := d.host.Owner
	hosts := map[string]bool{me: true}
	have := map[string]int{}
	usable, held := 0, 0
	for _, l := range d.leases {
		if d.live(l) {
			hosts[l.Owner] = true
		}
		if d.wanted(l) {
			hosts[l.Wanted()] = true
		}
		if d.barred[l.ID] {
			continue
		}
		usable++
		if c := d.counted(l); c != "" {
			have[c]++
		}
		if d.live(l) && l.Owner == me || d.workers[l.ID] {
			held++ // also if it is to be handed over
		}
	}
	full := d.host.Max > 0 && held >= d.host.Max
	bound := func(n int) int {
		n = max(n, d.host.Min)
		if d.host.Max > 0 {
			n = min(n, d.host.Max)
		}
		return n
	}
	floor, ceil := bound(usable/len(hosts)), bound((usable+len(hosts)-1)/len(hosts))

	var take *lease.Lease
	for i := range d.leases {
		l := &d.leases[i]
		if d.barred[l.ID] || d.live(*l) || d.runs(l.ID) || d.skipped[l.ID] || d.inUse(*l) {
			continue
		}
		wanted := ""
		if d.wanted(*l) {
			wanted = l.Wanted()
		}
		etag, was := d.before[l.ID]
		ok := d.regular && was && etag == l.ETag
		ok = ok || wanted == me && have[me] <= ceil
		ok = ok || have[me] < ceil && (wanted == "" || have[wanted] > ceil)
		if ok && !full && (take == nil || rank(me, l.ID) < rank(me, take.ID)) {
			take = l
		}
	}
	if take != nil {
		return Move{Kind: MoveAcquire, Lease: *take}
	}
	if have[me] >= ceil {
		return Move{}
	}
	if l := d.mostLoaded(have, floor, ceil, func(l lease.Lease) bool {
		young := d.now.Sub(l.Modified) < d.host.Terms.Expiration/2
		return protocol.Ours(l.Owner) && young && l.Wanted() == ""
	}); l != nil {
		return Move{Kind: MoveWant, Lease: *l}
	}
	half := (ceil - have[me] + d.stolen + 1) / 2 // half of the deficit at the start of the cycle, rounded up
	if !d.regular || full || d.stolen >= half {
		return Move{}
	}
	if l := d.mostLoaded(have, floor, ceil, func(l lease.Lease) bool { return !protocol.Ours(l.Owner) && !d.amended[l.ID] }); l != nil {
		until := plannedAt + d.host.Terms.Expiration + time.Second - d.now.Sub(l.Modified)
		return Move{Kind: MoveSteal, Lease: *l, Until: until}
	}
	return Move{}
}

// plannedAt is the time at which the tests' listings were received, by the host's
// monotonic clock.
const plannedAt = 3 * time.Hour

// mostLoaded returns a lease of the host with the most leases. It considers hosts that
// have enough leases to give one, and a live lease for which fit returns true. It returns
// the last such lease of that host, in this host's order.
func (d *literal) mostLoaded(have map[string]int, floor, ceil int, fit func(lease.Lease) bool) *lease.Lease {
	me := d.host.Owner
	last := map[string]*lease.Lease{} // the last lease of each host that fit accepts
	for i := range d.leases {
		l := &d.leases[i]
		if d.barred[l.ID] || !d.live(*l) || !fit(*l) || l.Owner == me || d.skipped[l.ID] || d.runs(l.ID) {
			continue
		}
		if o := last[l.Owner]; o == nil || rank(me, l.ID) > rank(me, o.ID) {
			last[l.Owner] = l
		}
	}
	victim := ""
	for v := range last {
		if have[v] <= ceil && (have[me] >= floor || have[v] <= floor) {
			continue
		}
		if victim == "" || have[v] > have[victim] || have[v] == have[victim] && rank(me, v) < rank(me, victim) {
			victim = v
		}
	}
	return last[victim]
}

var times = protocol.Terms{Expiration: 60 * time.Second, Acquire: 17 * time.Second}

// TestDecideFollowsTheProtocol compares Plan.Decide with literal on random listings. The
// writes of each cycle succeed, fail, meet a conflict, or find no lease, at random.
func TestDecideFollowsTheProtocol(t *testing.T) {
	rounds := 4000
	if testing.Short() {
		rounds = 400
	}
	var acquired, asked, stolen, bounded int
	for seed := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 7))
		d := randomListing(rnd)
		if d.host.Min > 0 || d.host.Max > 0 {
			bounded++
		}
		p := NewPlan(d.host, lease.Listing{Leases: append([]lease.Lease(nil), d.leases...), Now: d.now},
			Memory{free: d.before}, plannedAt, d.regular, d.workers)
		for step := range 60 {
			got, want := p.Decide(), d.decide()
			if got.Kind != want.Kind || got.Lease.ID != want.Lease.ID || got.Lease.ETag != want.Lease.ETag || got.Until != want.Until {
				t.Fatalf("seed %d, step %d: %v of %q, want %v of %q", seed, step, got.Kind, got.Lease.ID, want.Kind, want.Lease.ID)
			}
			switch got.Kind {
			case MoveNone:
			case MoveAcquire:
				acquired++
			case MoveWant:
				asked++
			case MoveSteal:
				stolen++
			}
			if got.Kind == MoveNone {
				break
			}
			answer(rnd, p, d, got)
		}
	}
	if acquired < rounds || asked < rounds/8 || stolen < rounds/8 || bounded < rounds/10 {
		t.Errorf("too little happened: %d acquired, %d asked, %d stolen, %d with bounds", acquired, asked, stolen, bounded)
	}
}

// answer draws the result of the write m at random and applies it to the plan and to
// literal.
func answer(rnd *rand.Rand, p *Plan, d *literal, m Move) {
	at := 0
	for d.leases[at].ID != m.Lease.ID {
		at++
	}
	l := m.Lease
	l.ETag += "+"
	l.Modified = d.now.Add(time.Duration(rnd.IntN(3)) * time.Second)
	switch n := rnd.IntN(20); {
	case n == 0:
		p.Remove(l.ID)
		d.leases = append(d.leases[:at], d.leases[at+1:]...)
		return
	case n == 1:
		p.Skip(l.ID)
		d.skipped[l.ID] = true
		return
	case n < 7: // a conflict, because another host has written the lease
		l.Owner = randomOwner(rnd)
		l.Properties = nil
		if rnd.IntN(2) == 0 {
			l = protocol.Wanted(l, fmt.Sprintf("host%d/0000000%d", rnd.IntN(9), rnd.IntN(2)))
		}
	case m.Kind == MoveWant:
		l = protocol.Wanted(l, d.host.Owner)
	default:
		l = protocol.Acquired(l, d.host.Owner)
	}
	if m.Kind == MoveSteal && l.Owner == d.host.Owner {
		d.stolen++
	}
	p.Amend(l)
	d.leases[at] = l
	if d.amended == nil {
		d.amended = map[string]bool{}
	}
	d.amended[l.ID] = true
}

func randomOwner(rnd *rand.Rand) string {
	switch rnd.IntN(8) {
	case 0:
		return ""
	case 1, 2:
		return "foreign" + fmt.Sprint(rnd.IntN(2))
	}
	return protocol.NewOwner("host"+fmt.Sprint(rnd.IntN(6)), 0)
}

func randomListing(rnd *rand.Rand) *literal {
	d := &literal{
		host: Host{Owner: protocol.NewOwner("host0", 0), Terms: times}, now: time.Unix(1_800_000_000, 0), regular: rnd.IntN(2) == 0,
		before: map[string]string{}, workers: map[string]bool{}, barred: map[string]bool{}, skipped: map[string]bool{},
	}
	if rnd.IntN(4) == 0 {
		d.host.Min = rnd.IntN(10)
	}
	if rnd.IntN(4) == 0 {
		d.host.Max = d.host.Min + 1 + rnd.IntN(10)
	}
	idle := rnd.IntN(3)                  // the share of free leases
	busy := rnd.IntN(2) == 0             // no lease is free, and few hosts own all
	owners := 1 + rnd.IntN(5)            // number of owners in a busy listing
	foreign := 4 * max(0, rnd.IntN(4)-1) // number of foreign owners in eight
	for i := range 1 + rnd.IntN(60) {
		border := func(n int) string { return fmt.Sprintf("%04X", n*256) }
		l := lease.Lease{ID: fmt.Sprint("lease", i), ETag: fmt.Sprint(i), Range: feed.Range{Min: border(i), Max: border(i + 1)}, PartitionID: fmt.Sprint(i)}
		if rnd.IntN(15) == 0 {
			l.Range.Max = border(i + 2) // shadows the next lease if that stays within this one
		}
		l.Owner = randomOwner(rnd)
		if rnd.IntN(4) < idle {
			l.Owner = ""
		}
		l.Modified = d.now.Add(-time.Duration(rnd.IntN(20)) * time.Second)
		switch {
		case busy:
			l.Owner = protocol.NewOwner(fmt.Sprint("host", rnd.IntN(owners+1)), 0)
			if rnd.IntN(8) < foreign {
				l.Owner = fmt.Sprint("foreign", rnd.IntN(2))
			}
			l.Modified = d.now.Add(-time.Duration(rnd.IntN(35)) * time.Second)
		case rnd.IntN(6) == 0:
			l.Modified = d.now.Add(-time.Duration(rnd.IntN(90)) * time.Second)
		}
		if rnd.IntN(4) == 0 && (!busy || rnd.IntN(4) == 0) {
			l = protocol.Wanted(l, randomOwner(rnd))
		}
		if rnd.IntN(6) == 0 {
			d.workers[l.ID] = rnd.IntN(2) == 0
		}
		if rnd.IntN(3) == 0 {
			d.before[l.ID] = l.ETag
		} else if rnd.IntN(3) == 0 {
			d.before[l.ID] = "other"
		}
		d.leases = append(d.leases, l)
	}
	for _, x := range d.leases {
		for _, a := range d.leases {
			if protocol.IsAncestor(a, x) {
				d.barred[x.ID] = true
			}
		}
	}
	return d
}

// A host with its maximum of leases must not acquire another one while it hands one over.
// The lease that is to be handed over counts as the requester's share, but the host holds
// it until its batch is finished.
func TestDecideCountsALeaseThatIsHandedOverForTheMaximum(t *testing.T) {
	now := time.Now()
	at := func(id, from, to string) lease.Lease {
		return lease.Lease{ID: id, Token: id, ETag: "1", PartitionID: id, Range: feed.Range{Min: from, Max: to}, Modified: now}
	}
	leases := []lease.Lease{protocol.Acquired(at("0", "", "33"), me), protocol.Wanted(protocol.Acquired(at("1", "33", "66"), me), other), at("2", "66", "FF")}
	h := Host{Owner: me, Max: 2, Terms: protocol.Terms{Expiration: time.Minute, Acquire: 17 * time.Second}}
	decide := func() Move {
		l := lease.Listing{Leases: leases, Now: now, Initialized: now}
		return NewPlan(h, l, Memory{}, time.Hour, true, nil).Decide()
	}
	if m := decide(); m.Kind != MoveNone {
		t.Errorf("the host holds two leases and decides to %s lease %s; want none", m.Kind, m.Lease.ID)
	}
	leases[1] = protocol.Released(leases[1], "")
	if m := decide(); m.Kind != MoveAcquire || m.Lease.ID != "2" {
		t.Errorf("the host holds one lease and decides to %s lease %s; want acquire 2", m.Kind, m.Lease.ID)
	}
}
