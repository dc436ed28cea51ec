package balance

import (
	"cmp"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// places is what follows from the ranges of a listing's leases alone: which are
// shadowed, and what none of them covers. It is made once for many listings,
// because ranges change with splits and merges only, and never changed.
type places struct {
	covered  feed.Range // what the processor covers
	leases   []place    // in the listing's order
	shadowed map[string]struct{}
	gaps     []feed.Range
}

type place struct {
	id    string
	r     feed.Range
	whole bool // a PK-range lease
}

// of returns p when it still describes the leases, else a new one.
func (p *places) of(leases []lease.Lease, covered feed.Range) *places {
	if p.describes(leases, covered) {
		return p
	}
	fresh := &places{covered: covered, leases: make([]place, len(leases))}
	for i := range leases {
		l := &leases[i]
		fresh.leases[i] = place{id: l.ID, r: l.Range, whole: l.PartitionID != ""}
	}
	fresh.survey()
	return fresh
}

func (p *places) describes(leases []lease.Lease, covered feed.Range) bool {
	if p == nil || p.covered != covered || len(p.leases) != len(leases) {
		return false
	}
	for i := range leases {
		l, at := &leases[i], &p.leases[i]
		if l.ID != at.id || l.Range != at.r || (l.PartitionID != "") != at.whole {
			return false
		}
	}
	return true
}

// survey sweeps once over the leases, in the order of their lower borders, wider
// ones first and PK-range leases before EPK leases of the same range, so that
// every ancestor comes before what it shadows.
func (p *places) survey() {
	unknown := slices.ContainsFunc(p.leases, func(l place) bool { return l.r.IsZero() })
	sorted := slices.DeleteFunc(slices.Clone(p.leases), func(l place) bool { return l.r.IsEmpty() })
	slices.SortFunc(sorted, func(a, b place) int {
		if c := cmp.Or(cmp.Compare(a.r.Min, b.r.Min), cmp.Compare(b.r.Max, a.r.Max)); c != 0 || a.whole == b.whole {
			return c
		}
		if a.whole {
			return -1
		}
		return 1
	})
	p.shadowed = map[string]struct{}{}
	reached := "" // the upper border of all leases of an earlier kind of place
	end := p.covered.Min
	for i := 0; i < len(sorted); {
		first := sorted[i]
		if first.r.Min > end && end < p.covered.Max {
			p.gap(end, first.r.Min)
		}
		for ; i < len(sorted) && sorted[i].r == first.r && sorted[i].whole == first.whole; i++ {
			if reached >= first.r.Max {
				p.shadowed[sorted[i].id] = struct{}{}
			}
		}
		reached = max(reached, first.r.Max)
		end = max(end, first.r.Max)
	}
	if end < p.covered.Max {
		p.gap(end, p.covered.Max)
	}
	if unknown {
		p.gaps = nil // a lease of unknown range counts as covering everything
	}
}

func (p *places) gap(from, to string) {
	g := feed.Range{Min: from, Max: to}.Intersect(p.covered)
	if !g.IsEmpty() {
		p.gaps = append(p.gaps, g)
	}
}

// placed returns the leases of a listing with those that can't be read: what one of them
// shadows is not run, because its owner may have a split to finish.
func placed(l lease.Listing) []lease.Lease {
	if len(l.Unreadable) == 0 {
		return l.Leases
	}
	all := make([]lease.Lease, 0, len(l.Leases)+len(l.Unreadable))
	all = append(all, l.Leases...)
	for _, u := range l.Unreadable {
		unreadable := lease.Lease{ID: u.ID, Token: u.Token, Range: u.Range}
		if u.Token != u.Range.String() {
			unreadable.PartitionID = u.Token
		}
		all = append(all, unreadable)
	}
	return all
}
