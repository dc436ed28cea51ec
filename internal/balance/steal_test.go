package balance

import (
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Each test in this file shows why one rule about steals from foreign owners exists, by
// listings that would go wrong without it.

const (
	worker7 = "WORKER-7"                             // .NET: a machine's name
	pod     = "pod-3b9f/0123456789abcdef"            // a Java host, with a suffix that is not ours
	guid    = "4f9d3a52-6a51-4b0e-9d3f-0123456789ab" // Azure Functions
)

func wantSteal(t *testing.T, what string, p *Plan, until time.Duration, ids ...string) lease.Lease {
	t.Helper()
	m := p.Decide()
	wantMove(t, what, p, MoveSteal, ids...)
	if m.Until != until {
		t.Errorf("%s: to be used from %s on; want %s", what, m.Until, until)
	}
	return m.Lease
}

func TestOwnerTextAloneIdentifiesAForeignOwner(t *testing.T) {
	for _, text := range []string{worker7, pod, guid, "host", "me-11111111", "me/1111111", "me/111111111", "ME/ABCDEF01"} {
		if protocol.Ours(text) {
			t.Errorf("%q is taken for a host that hands over a wanted lease", text)
		}
		wantSteal(t, text, planFor(Host{}, Memory{}, true, aged(0, text, 0), aged(1, text, 0)), time.Hour+61*time.Second, "idA", "idB")
	}
	// Owners of our own implementation must be asked, even if their instance name equals
	// this host's or a foreign owner's.
	for _, text := range []string{protocol.NewOwner("me", 0x22222222), protocol.NewOwner(worker7, 1), protocol.NewOwner(other, 2), protocol.NewOwner("", 3)} {
		wantMove(t, text, planFor(Host{}, Memory{}, true, aged(0, text, 0), aged(1, text, 0)), MoveWant)
	}
}

// A host that steals a lease must wait until the lease would have expired: E + 1 s after
// the victim's last write. The wait counts from the time at which the listing was
// received.
func TestStolenLeaseWaitsUntilThePreviousOwnersLastWriteHasExpired(t *testing.T) {
	for _, age := range []time.Duration{-3 * time.Second, 0, 13 * time.Second, 45 * time.Second, 60 * time.Second} {
		p := planFor(Host{}, Memory{}, true, aged(0, worker7, age), aged(1, worker7, age))
		wantSteal(t, "at age "+age.String(), p, time.Hour+61*time.Second-age, "idA", "idB")
	}
	wantMove(t, "expired, it is nobody's", planFor(Host{}, Memory{}, true, aged(0, worker7, 61*time.Second)), MoveAcquire, "idA")
}

// A Java host may write a lease with a null timestamp, which Java reads as "now", so that
// it never expires. Our hosts must judge such a lease by the store's timestamp (_ts).
func TestLeaseWithoutATimestampExpires(t *testing.T) {
	dead, live := aged(0, worker7, 61*time.Second), aged(1, worker7, 0)
	dead.Timestamp, live.Timestamp = time.Time{}, time.Time{}
	p := planFor(Host{}, Memory{}, true, dead, live)
	wantMove(t, "its owner died", p, MoveAcquire, "idA")
	taken := protocol.Acquired(dead, me)
	taken.Modified = noon
	p.Amend(taken)
	wantMove(t, "its owner lives, and has no more than I", p, MoveNone)
}

func TestStealComesAfterAllOtherMoves(t *testing.T) {
	stolen := []lease.Lease{aged(0, worker7, 0), aged(1, worker7, 0), aged(2, worker7, 0), aged(3, worker7, 0)}
	wantMove(t, "a free lease", planFor(Host{}, Memory{}, true, append(stolen, aged(4, "", 0))...), MoveAcquire, "idE")
	asked := append(stolen, aged(4, other, 0), aged(5, other, 0), aged(6, other, 0), aged(7, other, 0))
	p := planFor(Host{}, Memory{}, true, asked...)
	for range 2 { // 8 leases of three hosts: me 0, other 4, WORKER-7 4
		m := p.Decide()
		if m.Kind != MoveWant || m.Lease.Owner != other {
			t.Fatalf("%v of %q, whose owner is %q; want to ask %s first", m.Kind, m.Lease.ID, m.Lease.Owner, other)
		}
		p.Amend(protocol.Wanted(m.Lease, me))
	}
	wantSteal(t, "when who can be asked has no more than he should", p, time.Hour+61*time.Second, "idA", "idB", "idC", "idD")
	wantMove(t, "in a quick cycle", planFor(Host{}, Memory{}, false, stolen...), MoveNone)
}

func TestStealsOnlyTheSurplusOfAForeignOwner(t *testing.T) {
	row := func(owners ...string) []lease.Lease {
		var leases []lease.Lease
		for i, o := range owners {
			leases = append(leases, aged(i, o, 0))
		}
		return leases
	}
	for _, c := range []struct {
		what   string
		leases []lease.Lease
		kind   MoveKind
	}{
		{"one of one", row(worker7), MoveNone},
		{"one of two each", row(worker7, me), MoveNone},
		{"two of three, me one", row(worker7, worker7, me), MoveNone},
		{"two of two", row(worker7, worker7), MoveSteal},
		{"three of four, me one", row(worker7, worker7, worker7, me), MoveSteal},
		{"two and one of three, me none", row(worker7, worker7, guid), MoveSteal},
		{"one each of two, me none", row(worker7, guid), MoveNone},
	} {
		wantMove(t, c.what, planFor(Host{}, Memory{}, true, c.leases...), c.kind)
	}
	wantMove(t, "at my maximum", planFor(Host{Max: 1}, Memory{}, true, row(worker7, worker7, worker7, me)...), MoveNone)
	wantMove(t, "the larger of two", planFor(Host{}, Memory{}, true, row(guid, worker7, worker7, worker7, guid)...), MoveSteal, "idB", "idC", "idD")
}

// Each stolen lease is silent for a while, and hosts that start at the same time do not
// see each other yet. So a host steals half of its deficit, rounded up, and the rest in
// later cycles.
func TestStealsHalfOfItsDeficitInACycle(t *testing.T) {
	var leases []lease.Lease
	for i := range 12 {
		leases = append(leases, aged(i, worker7, 0))
	}
	for _, want := range []int{3, 2, 1, 0} {
		p := planFor(Host{}, Memory{}, true, leases...)
		n := 0
		for m := p.Decide(); m.Kind != MoveNone; m = p.Decide() {
			if m.Kind != MoveSteal {
				t.Fatalf("%v of %q", m.Kind, m.Lease.ID)
			}
			got := protocol.Acquired(m.Lease, me)
			got.ETag, got.Modified = "2", noon
			p.Amend(got)
			for i := range leases {
				if leases[i].ID == got.ID {
					leases[i] = got
				}
			}
			n++
		}
		if n != want {
			t.Errorf("it steals %d; want %d", n, want)
		}
	}
}

// A steal meets a conflict, which returns the present document. If the owner has renewed
// the lease, the wait must count from that renewal. The listing may be so old that the
// drift of the clocks exceeds the margin. So this host must leave the lease until the next
// listing. If another host has taken it, this host must leave it, too.
func TestRefusedStealIsDecidedAgain(t *testing.T) {
	leases := []lease.Lease{aged(0, worker7, 20*time.Second), aged(1, worker7, 20*time.Second)}
	p := planFor(Host{}, Memory{}, true, leases...)
	l := wantSteal(t, "at first", p, time.Hour+41*time.Second, "idA", "idB")
	l.ETag, l.Modified = "2", noon.Add(2*time.Second) // written 2 s after the listing
	p.Amend(l)
	if m := p.Decide(); m.Kind != MoveSteal || m.Lease.ID == l.ID {
		t.Errorf("%v of %q after %q was renewed", m.Kind, m.Lease.ID, l.ID)
	}
	for i := range leases {
		if leases[i].ID == l.ID {
			leases[i] = l
		}
	}
	next := lease.Listing{Leases: leases, Initialized: noon, Now: noon.Add(3 * time.Second)}
	p = NewPlan(Host{Owner: me, Terms: times}, next, p.Memory(), time.Hour+3*time.Second, true, nil)
	wantSteal(t, "in the next listing", p, time.Hour+63*time.Second, l.ID)
	l.ETag, l.Owner = "3", other
	p.Amend(l)
	wantMove(t, "taken by another of our hosts meanwhile: one each of two", p, MoveNone)
	if conflictVerdict(l, l.Continuation, l.Continuation) != protocol.Lost {
		t.Error("the conflict with another owner is not judged as lost")
	}
}

func TestStealNeverTakesAShadowedLeaseOrOneTheHostRuns(t *testing.T) {
	whole := lease.Lease{ID: "id9", Token: "9", PartitionID: "9", Range: aged(0, "", 0).Range, ETag: "1", Owner: me, Modified: noon}
	whole.Range.Max = "C"
	p := planFor(Host{Min: 9}, Memory{}, true, aged(0, worker7, 0), aged(1, worker7, 0), whole)
	wantMove(t, "an ancestor is there", p, MoveNone)
	l := lease.Listing{Leases: []lease.Lease{aged(0, worker7, 0), aged(1, worker7, 0)}, Now: noon, Initialized: noon}
	p = NewPlan(Host{Owner: me, Terms: times}, l, Memory{}, time.Hour, true, map[string]bool{"idA": true, "idB": true})
	wantMove(t, "this host has workers for both", p, MoveNone)
	p = planFor(Host{}, Memory{}, true, aged(0, worker7, 0), aged(1, worker7, 0))
	p.Skip("idA")
	p.Skip("idB")
	wantMove(t, "writes of both have failed", p, MoveNone)
}

// A foreign host's lease may stay wanted. That must not count, and the steal must end it.
func TestForeignOwnersWantedLeaseIsNoLongerWantedAfterTheSteal(t *testing.T) {
	leases := []lease.Lease{protocol.Wanted(aged(0, worker7, 0), third), protocol.Wanted(aged(1, worker7, 0), third)}
	l := wantSteal(t, "wanted by a third", planFor(Host{}, Memory{}, true, leases...), time.Hour+61*time.Second, "idA", "idB")
	if got := protocol.Acquired(l, me); got.Wanted() != "" || got.Owner != me {
		t.Errorf("stolen, it is %+v", got)
	}
}

// In a store without a clock, the wait after a steal counts from the listing that first
// showed the lease's ETag. A lease that was written after the listing must not be stolen,
// because the time of that write is unknown.
func TestStealFromAStoreWithoutClock(t *testing.T) {
	leases := []lease.Lease{aged(0, worker7, time.Hour), aged(1, worker7, time.Hour)}
	plan := func(m Memory, at time.Duration) *Plan {
		return NewPlan(Host{Owner: me, Terms: times}, lease.Listing{Leases: leases, Initialized: noon}, m, at, true, nil)
	}
	p := plan(Memory{}, 10*time.Second)
	wantSteal(t, "seen for the first time", p, 71*time.Second)
	p = plan(p.Memory(), 30*time.Second)
	l := wantSteal(t, "seen 20 s ago", p, 71*time.Second)
	l.ETag = "2"
	p.Amend(l) // the owner wrote meanwhile
	if m := p.Decide(); m.Lease.ID == l.ID {
		t.Errorf("%v of a lease that was written at an unknown time", m.Kind)
	}
}
