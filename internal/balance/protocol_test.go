package balance

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Each test in this file shows why one rule of the protocol exists, by a sequence of
// listings that would go wrong without it. RowN in a test's name is the rule's number.

var (
	me    = protocol.NewOwner("me", 0x11111111)
	other = protocol.NewOwner("other", 0x22222222)
	third = protocol.NewOwner("third", 0x33333333)
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// with returns l with the property key set to value.
func with(l lease.Lease, key, value string) lease.Lease {
	properties := map[string]string{key: value}
	maps.Insert(properties, maps.All(l.Properties))
	properties[key] = value
	l.Properties = properties
	return l
}

// aged returns lease n. The leases divide the key space into equal ranges. owner wrote
// the lease age before the listing.
func aged(n int, owner string, age time.Duration) lease.Lease {
	border := string(rune('A' + n))
	return lease.Lease{
		ID: "id" + border, Token: border, PartitionID: border, ETag: "1", Owner: owner, Modified: noon.Add(-age),
		Range: feed.Range{Min: border, Max: string(rune('A' + n + 1))},
	}
}

func planFor(h Host, m Memory, regular bool, leases ...lease.Lease) *Plan {
	h.Terms = times
	if h.Owner == "" {
		h.Owner = me
	}
	return NewPlan(h, lease.Listing{Leases: leases, Initialized: noon.Add(-time.Hour), Now: noon}, m, time.Hour, regular, nil)
}

func wantMove(t *testing.T, what string, p *Plan, kind MoveKind, ids ...string) {
	t.Helper()
	m := p.Decide()
	ok := m.Kind == kind && len(ids) == 0
	for _, id := range ids {
		ok = ok || m.Kind == kind && m.Lease.ID == id
	}
	if !ok {
		t.Errorf("%s: %v of %q; want %v of one of %q", what, m.Kind, m.Lease.ID, kind, ids)
	}
}

func TestDecideTakesAnExpiredLeaseNotAMomentTooEarly(t *testing.T) {
	wantMove(t, "at E + 1 s", planFor(Host{}, Memory{}, true, aged(0, other, 61*time.Second)), MoveAcquire, "idA")
	wantMove(t, "just before", planFor(Host{}, Memory{}, true, aged(0, other, 61*time.Second-1)), MoveNone)
	wantMove(t, "my own old name", planFor(Host{}, Memory{}, true, aged(0, me, 60*time.Second)), MoveNone)
	wantMove(t, "my own, expired", planFor(Host{}, Memory{}, true, aged(0, me, 61*time.Second)), MoveAcquire, "idA")
	wantMove(t, "a foreign owner's", planFor(Host{}, Memory{}, true, aged(0, "WORKER-7", 61*time.Second)), MoveAcquire, "idA")
}

func TestDecideNeverTakesALiveLease(t *testing.T) {
	p := planFor(Host{}, Memory{}, true, aged(0, other, 0), aged(1, other, 0), aged(2, other, 0), aged(3, "WORKER-7", 0))
	for range 10 {
		m := p.Decide()
		if m.Kind == MoveAcquire {
			t.Fatalf("it takes %+v", m.Lease)
		}
		if m.Kind == MoveNone {
			return
		}
		if m.Lease.Owner != other {
			t.Fatalf("it asks %s", m.Lease.Owner)
		}
		p.Amend(protocol.Wanted(m.Lease, me))
	}
	t.Error("it asks forever")
}

func TestDecideNeverAcquiresALeaseThatTheHostRuns(t *testing.T) {
	l := lease.Listing{Leases: []lease.Lease{aged(0, "", 0), aged(1, other, time.Hour)}, Now: noon, Initialized: noon}
	p := NewPlan(Host{Owner: me, Terms: times}, l, Memory{}, 0, true, map[string]bool{"idA": true})
	wantMove(t, "one of two", p, MoveAcquire, "idB")
	p.Amend(aged(1, me, 0))
	wantMove(t, "the other is run", p, MoveNone)
}

// A lease that has an ancestor in the listing must not be acquired. The ancestor may be a
// late replacement of a lost lease, created after the owners of leases in its range had
// put them back.
func TestDecideRow18ShadowedLeasesAreNeitherTakenNorRun(t *testing.T) {
	whole := lease.Lease{ID: "id3", Token: "3", PartitionID: "3", Range: feed.Range{Min: "A", Max: "C"}, ETag: "1"}
	left, right := aged(0, me, 0), aged(1, "", 0)
	left.PartitionID, right.PartitionID = "", ""
	p := planFor(Host{}, Memory{}, true, left, whole, right)
	if !p.Shadowed("idA") || !p.Shadowed("idB") || p.Shadowed("id3") {
		t.Errorf("shadowed: %t, %t, and the ancestor %t", p.Shadowed("idA"), p.Shadowed("idB"), p.Shadowed("id3"))
	}
	wantMove(t, "only the ancestor is taken", p, MoveAcquire, "id3")
	p.Remove("id3")
	wantMove(t, "what it shadowed waits for the next listing", p, MoveNone)
}

// A host may have acquired a lease before it saw an ancestor of it, from a listing that was
// torn. It stops when a listing shows the ancestor. Until then no host may acquire the
// ancestor. Hosts of other implementations do not stop, so no host waits for them.
func TestDecideWaitsForTheOwnersOfShadowedLeases(t *testing.T) {
	whole := lease.Lease{ID: "id3", Token: "3", PartitionID: "3", Range: feed.Range{Min: "A", Max: "C"}, ETag: "1"}
	for name, c := range map[string]struct {
		owner   string
		age     time.Duration
		running bool
		want    MoveKind
	}{
		"another host uses it":        {owner: other, want: MoveNone},
		"its owner is dead":           {owner: other, age: time.Hour, want: MoveAcquire},
		"nobody uses it":              {want: MoveAcquire},
		"a worker of this host":       {owner: me, running: true, want: MoveNone},
		"it has expired for a worker": {owner: me, age: time.Hour, running: true, want: MoveNone},
		"this host has lost it":       {owner: me, want: MoveAcquire},
		"a foreign host":              {owner: worker7, want: MoveAcquire},
	} {
		left := aged(0, c.owner, c.age)
		left.PartitionID = ""
		l := lease.Listing{Leases: []lease.Lease{left, whole}, Initialized: noon.Add(-time.Hour), Now: noon}
		workers := map[string]bool{}
		if c.running {
			workers[left.ID] = true
		}
		p := NewPlan(Host{Owner: me, Terms: times}, l, Memory{}, time.Hour, true, workers)
		if m := p.Decide(); m.Kind != c.want {
			t.Errorf("%s: %v of %q; want %v", name, m.Kind, m.Lease.ID, c.want)
		}
	}
	free := aged(0, "", 0)
	free.PartitionID = ""
	p := planFor(Host{}, Memory{}, true, free, whole)
	p.Amend(protocol.Acquired(free, other))
	wantMove(t, "another host acquires it after the listing", p, MoveNone)
}

func TestDecideCountsUsableLeasesOnly(t *testing.T) {
	whole := lease.Lease{ID: "id3", Token: "3", PartitionID: "3", Range: feed.Range{Min: "A", Max: "C"}, ETag: "1", Modified: noon}
	leases := []lease.Lease{aged(0, "", 0), aged(1, "", 0), whole, aged(2, other, 0), aged(3, other, 0), aged(4, "", 0)}
	// The four leases without an ancestor count, so each of the two hosts should have
	// two.
	p := planFor(Host{}, Memory{}, true, leases...)
	for _, gone := range []string{"idA", "idA", "unknown"} {
		p.Remove(gone) // the ancestor is gone and no longer counts
	}
	for range 2 {
		m := p.Decide()
		if m.Kind != MoveAcquire {
			t.Fatalf("%v of %q; want 2 acquired", m.Kind, m.Lease.ID)
		}
		p.Amend(protocol.Acquired(m.Lease, me))
	}
	wantMove(t, "2 of 4", p, MoveNone)
	p.Remove("idC")
	wantMove(t, "2 of 3", p, MoveNone)
	p.Remove("idD")
	p.Amend(protocol.Released(*p.lease(p.index["id3"]), ""))
	wantMove(t, "all others are gone, and I have 1 of 2", p, MoveAcquire, "id3")
}

// Two hosts must prefer free leases in different orders. Otherwise all hosts would write
// the same lease.
func TestOrderDiffersBetweenHosts(t *testing.T) {
	const leases = 400
	first := map[int]int{}
	for n := range 200 {
		host := protocol.NewOwner("host", uint32(n))
		least := 0
		for i := range leases {
			if rank(host, fmt.Sprint("prefix..", i)) < rank(host, fmt.Sprint("prefix..", least)) {
				least = i
			}
		}
		first[least]++
	}
	for i, n := range first {
		if n > 6 { // a random order exceeds 6 of 200 in one run of 10,000
			t.Errorf("%d of 200 hosts begin with lease %d", n, i)
		}
	}
}

// A host must not want a lease that another one already wants. Otherwise hosts would write
// a dead owner's lease again and again.
func TestDecideRow21AWantedLeaseIsNotWantedAgain(t *testing.T) {
	wantMove(t, "not wanted", planFor(Host{}, Memory{}, true, aged(0, other, 0), aged(1, other, 0)), MoveWant)
	wantMove(t, "wanted by a third", planFor(Host{}, Memory{}, true, protocol.Wanted(aged(0, other, 0), third), protocol.Wanted(aged(1, other, 0), third)), MoveNone)
	wantMove(t, "wanted by me", planFor(Host{}, Memory{}, true, protocol.Wanted(aged(0, other, 0), me), protocol.Wanted(aged(1, other, 0), me)), MoveNone)
}

// A host may want a lease only during the first half of the expiration E after the owner's
// last write, because it says so by a write. Just before the end, that would keep a dead
// owner's lease for nearly 2 E.
func TestDecideRow22OnlyYoungLeasesAreWanted(t *testing.T) {
	for age := time.Duration(0); age < 61*time.Second; age += time.Second / 2 {
		kind := MoveNone
		if age < 30*time.Second {
			kind = MoveWant
		}
		wantMove(t, age.String(), planFor(Host{}, Memory{}, true, aged(0, other, age), aged(1, other, age)), kind)
	}
}

// After an acquire a lease must no longer be wanted. Otherwise the new owner would release it
// again.
func TestRow23AnAcquiredLeaseIsNoLongerWanted(t *testing.T) {
	wanted := with(protocol.Wanted(aged(0, other, time.Hour), third), "colour", "blue")
	m := planFor(Host{}, Memory{}, true, wanted).Decide()
	if m.Kind != MoveAcquire {
		t.Fatalf("%v", m.Kind)
	}
	got := protocol.Acquired(m.Lease, me)
	if got.Wanted() != "" || got.Owner != me || got.Properties["colour"] != "blue" || wanted.Wanted() != third {
		t.Errorf("acquired, it is %+v (before: %+v)", got, wanted)
	}
}

// conflictVerdict returns what it means for me that a write of l found current.
func conflictVerdict(current lease.Lease, acked, sent feed.Continuation) protocol.Verdict {
	v, _ := protocol.Judge(&lease.ConflictError{Current: current}, me, acked, sent)
	return v
}

// A third party may write a property just before a host releases a lease. The store then
// refuses the release, and the host must repeat it with the new ETag.
func TestRow24ARefusedReleaseIsRepeatedWhileMine(t *testing.T) {
	held := protocol.At(aged(0, me, 0), `"5"`)
	release := protocol.Released(held, `"6"`)
	current := with(held, "command", "0 1 pause")
	current.ETag = "2"
	if v := conflictVerdict(current, held.Continuation, release.Continuation); v != protocol.Mine {
		t.Fatalf("the conflict is judged as %v", v)
	}
	again := protocol.Released(current, release.Continuation)
	if again.ETag != "2" || again.Owner != "" || again.Continuation != `"6"` || again.Properties["command"] == "" {
		t.Errorf("sent again is %+v", again)
	}
	if v := conflictVerdict(aged(0, other, 0), `"5"`, `"6"`); v != protocol.Lost {
		t.Errorf("with another owner it is judged as %v", v)
	}
}

// Host A has released a lease because host B wants it. The lease must stay reserved
// for B. Otherwise host C could acquire it, although C has the smaller share of leases
// already, and B would still have too few.
func TestDecideRow25AReleasedLeaseStaysReserved(t *testing.T) {
	reserved := protocol.Wanted(aged(4, "", 0), third)
	leases := []lease.Lease{aged(0, me, 0), aged(1, other, 0), aged(2, third, 0), aged(3, other, 0), reserved}
	wantMove(t, "a host at floor", planFor(Host{}, Memory{}, true, leases...), MoveNone)
	wantMove(t, "the host that wants it", planFor(Host{Owner: third}, Memory{}, true, leases...), MoveAcquire, "idE")
}

// Host B wanted many leases while it was alone, and then other hosts came. Leases that
// are reserved for B and that B no longer takes must go to a host with too few.
func TestDecideRow26ReservationOfASatisfiedHostIsTaken(t *testing.T) {
	leases := []lease.Lease{aged(0, third, 0), aged(1, third, 0), aged(2, third, 0), aged(3, other, 0), protocol.Wanted(aged(4, "", 0), third), protocol.Wanted(aged(5, "", 0), third)}
	wantMove(t, "a host without leases", planFor(Host{}, Memory{}, true, leases...), MoveAcquire, "idE", "idF")
	wantMove(t, "the host that wants them, over ceil", planFor(Host{Owner: third}, Memory{}, true, leases...), MoveNone)
}

// The host that wants a lease has died. The other hosts are at ceil, because the dead
// one still counts. One of them must take the free lease all the same.
func TestDecideRow27LeftoverLeaseIsTakenByAnyHost(t *testing.T) {
	reserved := protocol.Wanted(aged(2, "", 0), third)
	leases := []lease.Lease{aged(0, me, 0), aged(1, other, 0), reserved}
	first := planFor(Host{}, Memory{}, true, leases...)
	wantMove(t, "just released", first, MoveNone)
	wantMove(t, "a quick cycle later", planFor(Host{}, first.Memory(), false, leases...), MoveNone)
	quick := planFor(Host{}, first.Memory(), false, leases...)
	wantMove(t, "an interval later", planFor(Host{}, quick.Memory(), true, leases...), MoveAcquire, "idC")
	wantMove(t, "an interval later, but I may have no more", planFor(Host{Max: 1}, first.Memory(), true, leases...), MoveNone)
	leases[2].ETag = "2"
	wantMove(t, "released anew meanwhile", planFor(Host{}, first.Memory(), true, leases...), MoveNone)
}

// When a lease is split, a host of .NET copies into the children who wants it. More leases may then
// be reserved for a host than its maximum. It holds fewer, so it must acquire some of them
// once they were left over. Otherwise the reserved leases and all others would stay free.
func TestDecideTakesLeftOverLeasesThoughMoreThanTheMaximumAreReserved(t *testing.T) {
	h := Host{Max: 3}
	leases := []lease.Lease{
		aged(0, me, 0), aged(1, me, 0), with(aged(2, "", 0), lease.PropertyWanted, me), with(aged(3, "", 0), lease.PropertyWanted, me), aged(4, "", 0),
	}
	first := planFor(h, Memory{}, true, leases...)
	p := planFor(h, first.Memory(), true, leases...)
	wantMove(t, "2 held of 3, and 2 reserved", p, MoveAcquire, "idC", "idD", "idE")
	p.Amend(protocol.Acquired(p.Decide().Lease, me))
	wantMove(t, "3 held of 3", p, MoveNone)
}

func TestDecideWantedLeasesOfForeignOwnersDoNotCount(t *testing.T) {
	// If it counted that the foreign owner's lease is wanted, this host would have 1 of 2
	// leases and take nothing.
	wantMove(t, "kept by a foreign owner", planFor(Host{}, Memory{}, true, protocol.Wanted(aged(0, "WORKER-7", 0), me), aged(1, "", 0)), MoveAcquire, "idB")
	wantMove(t, "on an expired lease", planFor(Host{}, Memory{}, true, protocol.Wanted(aged(0, other, time.Hour), third)), MoveAcquire, "idA")
}

// An owner stops when a listing shows an ancestor of its lease, and releases the lease while
// it is wanted. Nobody acquires the lease while the ancestor exists, so it stays wanted. If that
// counted, a dead host that wants it would keep a share of the leases.
func TestDecideWantedShadowedLeasesDoNotCount(t *testing.T) {
	whole := lease.Lease{ID: "id3", Token: "3", PartitionID: "3", Range: feed.Range{Min: "A", Max: "C"}, ETag: "1", Owner: me, Modified: noon}
	for name, owner := range map[string]string{"free": "", "live": other} {
		shadowed := protocol.Wanted(aged(0, owner, 0), third)
		shadowed.PartitionID = ""
		leases := []lease.Lease{whole, shadowed, aged(2, me, 0), aged(3, other, 0), aged(4, other, 0), aged(5, other, 0), aged(6, other, 0)}
		p := planFor(Host{}, Memory{}, true, leases...)
		wantMove(t, name, p, MoveWant, "idD", "idE", "idF", "idG") // with a third host, 2 of 6 leases would be enough
		if p.WantsOut() {
			t.Errorf("%s: this host wants a lease", name)
		}
		mine := protocol.Wanted(aged(0, owner, 0), me)
		mine.PartitionID = ""
		if planFor(Host{}, Memory{}, true, whole, mine).WantsOut() {
			t.Errorf("%s: the host waits for a lease that it cannot acquire", name)
		}
	}
}

func TestDecideAsksTheMostLoadedForTwoLessOrMore(t *testing.T) {
	leases := []lease.Lease{aged(0, me, 0), aged(1, other, 0), aged(2, other, 0), aged(3, third, 0), aged(4, third, 0), aged(5, third, 0)}
	wantMove(t, "1, 2, 3", planFor(Host{}, Memory{}, true, leases...), MoveWant, "idD", "idE", "idF")
	wantMove(t, "1, 2, 2", planFor(Host{}, Memory{}, true, leases[:5]...), MoveNone)
	if p := planFor(Host{}, Memory{}, true, leases...); p.WantsOut() {
		t.Error("the host wants a lease before the move")
	} else {
		p.Amend(protocol.Wanted(p.Decide().Lease, me))
		wantMove(t, "then 2, 2, 2", p, MoveNone)
		if !p.WantsOut() {
			t.Error("the host wants no lease after the move")
		}
	}
}

func TestDecideStoreWithoutClockCountsFromTheFirstSight(t *testing.T) {
	host := Host{Owner: me, Terms: times}
	leases := []lease.Lease{aged(0, other, time.Hour), aged(1, other, time.Hour)}
	plan := func(m Memory, at time.Duration) *Plan {
		return NewPlan(host, lease.Listing{Leases: leases, Initialized: noon}, m, at, true, nil)
	}
	p := plan(Memory{}, 0)
	wantMove(t, "seen for the first time: neither expired nor young", p, MoveNone)
	p = plan(p.Memory(), 61*time.Second-1)
	wantMove(t, "not yet", p, MoveNone)
	wantMove(t, "unchanged for E + 1 s", plan(p.Memory(), 61*time.Second), MoveAcquire)
	leases[0].ETag, leases[1].ETag = "2", "2"
	p = plan(p.Memory(), 61*time.Second)
	wantMove(t, "changed: its owner lives, and can be asked", p, MoveWant)
	wantMove(t, "no longer young", plan(p.Memory(), 91*time.Second), MoveNone)
	wantMove(t, "still young", plan(p.Memory(), 90*time.Second), MoveWant)
}

// In a store without a clock, a lease that was written after the listing has no known
// age. Its age must count from the next listing, or it would expire too early (seed 187
// of the simulation).
func TestDecideStoreWithoutClockCountsAnAmendedLeaseFromTheNextListing(t *testing.T) {
	host := Host{Owner: me, Terms: times}
	plan := func(l lease.Lease, m Memory, at time.Duration) *Plan {
		return NewPlan(host, lease.Listing{Leases: []lease.Lease{l}, Initialized: noon}, m, at, true, nil)
	}
	l := aged(0, other, time.Hour)
	p := plan(l, Memory{}, 0)
	memory := p.Memory()
	l.ETag = "2"
	p.Amend(l) // a conflict has returned this newer document
	p = plan(l, memory, 10*time.Second)
	p = plan(l, p.Memory(), 61*time.Second)
	wantMove(t, "61 s after the listing before the write", p, MoveNone)
	wantMove(t, "61 s after the one that shows it", plan(l, p.Memory(), 71*time.Second), MoveAcquire)
}

func TestOwnersOfOurImplementation(t *testing.T) {
	for text, ours := range map[string]bool{
		protocol.NewOwner("host", 0): true, protocol.NewOwner("", 0xffffffff): true, "a/b/0123cdef": true, "/01234567": true,
		"": false, "host": false, "host/0123456": false, "host/012345678": false, "host/0123456G": false, "host/0123CDEF": false,
		"host-01234567": false, "01234567": false,
	} {
		if protocol.Ours(text) != ours {
			t.Errorf("Ours(%q) is %t", text, !ours)
		}
		if want := text; !ours && protocol.Instance(text) != want {
			t.Errorf("Instance(%q) is %q", text, protocol.Instance(text))
		}
	}
}

// After a forward jump of the store's clock, the leases of the host look expired. They
// count as long as their workers trust them. Otherwise the host acquires more than its
// maximum, or ignores the requests of others.
func TestDecideCountsLeasesThatAWorkerTrusts(t *testing.T) {
	jumped := []lease.Lease{aged(0, me, time.Hour), aged(1, me, time.Hour), aged(2, "", 0)}
	plan := func(h Host, trusted bool, leases ...lease.Lease) *Plan {
		h.Owner, h.Terms = me, times
		l := lease.Listing{Leases: leases, Now: noon, Initialized: noon}
		return NewPlan(h, l, Memory{}, time.Hour, true, map[string]bool{"idA": trusted, "idB": trusted})
	}
	wantMove(t, "it holds its maximum", plan(Host{Max: 2}, true, jumped...), MoveNone)
	wantMove(t, "its workers have lost both", plan(Host{Max: 2}, false, jumped...), MoveAcquire, "idC")
	wantMove(t, "one is to be handed over", plan(Host{Max: 2}, true, protocol.Wanted(jumped[0], other), jumped[1], jumped[2]), MoveNone)
	wantMove(t, "another host has acquired one", plan(Host{Max: 2}, true, aged(0, other, 0), jumped[1], jumped[2]), MoveNone)
	wantMove(t, "somebody deleted one", plan(Host{Max: 2}, true, jumped[1:]...), MoveNone)
	wantMove(t, "it has its share of five", plan(Host{}, true, jumped[0], jumped[1], aged(2, other, 0), aged(3, other, 0), aged(4, other, 0)), MoveNone)
}
