package balance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

var errDamaged = errors.New("version: 7 is unknown")

// damaged returns an unreadable lease document with the token, as a listing reports it.
func damaged(token string) lease.Unreadable {
	u := lease.Unreadable{ID: "prefix.." + token, Token: token, Err: errDamaged}
	if lower, upper, ok := strings.Cut(token, "-"); ok {
		u.Range = feed.Range{Min: lower, Max: upper}
	}
	return u
}

// withDamage returns the plan of a listing that contains the given leases and one
// unreadable document with the token.
func withDamage(token string, partitions []feed.Partition, initialized time.Time, leases ...lease.Lease) *Plan {
	l := lease.Listing{Leases: leases, Initialized: initialized, Now: noon, Unreadable: []lease.Unreadable{damaged(token)}}
	if protocol.Rangeless(l) {
		l = protocol.WithRanges(l, partitions)
	}
	return NewPlan(Host{Owner: me, Terms: times, Range: feed.Range{Min: "A", Max: "D"}}, l, Memory{}, time.Hour, true, nil)
}

func TestUnreadableLeaseHasNoOwnerAndTheOthersAreTaken(t *testing.T) {
	partitions := []feed.Partition{{ID: "A", Range: feed.Range{Min: "A", Max: "B"}}, {ID: "B", Range: feed.Range{Min: "B", Max: "C"}}, {ID: "C", Range: feed.Range{Min: "C", Max: "D"}}}
	for _, token := range []string{"B", "B-C", "no token of ours"} {
		p := withDamage(token, partitions, noon, aged(0, "", 0), aged(2, "", 0))
		taken := 0
		for m := p.Decide(); m.Kind != MoveNone; m = p.Decide() {
			if m.Kind != MoveAcquire || m.Lease.Token == token {
				t.Fatalf("%s: %v of %s", token, m.Kind, m.Lease.Token)
			}
			got := protocol.Acquired(m.Lease, me)
			got.Modified = noon
			p.Amend(got)
			taken++
		}
		if taken != 2 || p.Due() || p.Complete() {
			t.Errorf("%s: %d leases taken, due %t, complete %t", token, taken, p.Due(), p.Complete())
		}
	}
}

// An unreadable lease may cover any range. While there is one, no missing lease and no
// marker may be created.
func TestUnreadableLeaseKeepsGapsOpen(t *testing.T) {
	for _, initialized := range []time.Time{{}, noon.Add(-time.Hour)} {
		p := withDamage("lost", nil, initialized, aged(0, me, 0))
		memory := p.Memory()
		for range 10 {
			l := lease.Listing{
				Leases: []lease.Lease{aged(0, me, 0)}, Initialized: initialized, Now: noon.Add(time.Hour),
				Unreadable: []lease.Unreadable{damaged("lost")},
			}
			p = NewPlan(p.host, l, memory, 2*time.Hour, true, nil)
			memory = p.Memory()
			if p.Due() || p.Complete() {
				t.Fatalf("marker at %v: due %t, complete %t", initialized, p.Due(), p.Complete())
			}
		}
	}
}

// An unreadable lease may be an ancestor whose owner can read it and has not finished its
// split. Leases inside its range must not run.
func TestUnreadableAncestorShadows(t *testing.T) {
	left, right := aged(0, "", 0), aged(1, "", 0)
	for _, c := range []struct {
		token      string
		partitions []feed.Partition
	}{
		{"A-C", nil},
		// Partition 9 was split, so its range is the union of its children's ranges.
		{"9", []feed.Partition{
			{ID: "A", Range: left.Range, Parents: []string{"9"}}, {ID: "B", Range: right.Range, Parents: []string{"9"}},
		}},
	} {
		p := withDamage(c.token, c.partitions, noon, left, right, aged(2, "", 0))
		if !p.Shadowed("idA") || !p.Shadowed("idB") || p.Shadowed("idC") {
			t.Errorf("%s shadows %t, %t, %t; want the first two", c.token, p.Shadowed("idA"), p.Shadowed("idB"), p.Shadowed("idC"))
		}
		wantMove(t, "what it doesn't shadow", p, MoveAcquire, "idC")
	}
}
