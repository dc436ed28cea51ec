package balance

import (
	"cmp"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// coverage holds the leases of a listing that are shadowed, and the gaps that no lease
// covers. It depends on the ranges alone, which change with splits and merges only, so it is
// computed once for many listings. It is never changed.
type coverage struct {
	covered  feed.Range   // what the processor covers
	leases   []leaseRange // in the listing's order
	shadowed map[string]struct{}
	gaps     []feed.Range
}

type leaseRange struct {
	id    string
	r     feed.Range
	whole bool // a PK-range lease
}

// of returns the coverage of leases: p if they have not changed, else a new one.
func (p *coverage) of(leases []lease.Lease, covered feed.Range) *coverage {
	if p.matches(leases, covered) {
		return p
	}
	fresh := &coverage{covered: covered, leases: make([]leaseRange, len(leases))}
	for i := range leases {
		l := &leases[i]
		fresh.leases[i] = leaseRange{id: l.ID, r: l.Range, whole: l.PartitionID != ""}
	}
	fresh.compute()
	return fresh
}

func (p *coverage) matches(leases []lease.Lease, covered feed.Range) bool {
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

// compute goes once over the leases, in the order of their lower borders, wider
// ones first and PK-range leases before EPK leases of the same range, so that
// every ancestor comes before what it shadows.
func (p *coverage) compute() {
	unknown := slices.ContainsFunc(p.leases, func(l leaseRange) bool { return l.r.IsZero() })
	sorted := slices.DeleteFunc(slices.Clone(p.leases), func(l leaseRange) bool { return l.r.IsEmpty() })
	slices.SortFunc(sorted, func(a, b leaseRange) int {
		if c := cmp.Or(cmp.Compare(a.r.Min, b.r.Min), cmp.Compare(b.r.Max, a.r.Max)); c != 0 || a.whole == b.whole {
			return c
		}
		if a.whole {
			return -1
		}
		return 1
	})
	p.shadowed = map[string]struct{}{}
	reached := "" // the upper border of all leases before this range and kind
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

func (p *coverage) gap(from, to string) {
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

// gap is a part of the processor's range that no lease of a listing covers.
type gap struct {
	feed.Range
	// since is when it was seen the second time in a row, by the store's clock;
	// zero: it was seen once. The first listing may be torn by a split under way.
	since time.Time
}

// gapsNow are the gaps of p's listing with what is remembered of them. A part of
// a gap that is new starts anew. Nothing counts from before a pause between two
// listings, by either clock: who knows what was there meanwhile.
func (m Memory) gapsNow(p *Plan) []gap {
	if len(p.coverage.gaps) == 0 {
		return nil
	}
	pause := 2 * p.host.Terms.Acquire
	known := m.listed && p.mono-m.mono <= pause && p.now.Sub(m.now) <= pause
	var gaps []gap
	for _, r := range p.coverage.gaps {
		rest := r
		for _, old := range m.gaps {
			if !known || !old.Overlaps(rest) {
				continue
			}
			both := old.Intersect(rest)
			if rest.Min < both.Min {
				gaps = append(gaps, gap{Range: feed.Range{Min: rest.Min, Max: both.Min}})
			}
			since := old.since
			if since.IsZero() {
				since = p.now
			}
			gaps = append(gaps, gap{Range: both, since: since})
			rest.Min = both.Max
		}
		if !rest.IsEmpty() {
			gaps = append(gaps, gap{Range: rest})
		}
	}
	return gaps
}

// Due reports whether there is a gap to be closed now, so that Missing, and the
// partitions it needs, are worth asking for: at bootstrap (the listing has no
// marker) any gap, afterwards one that was seen for long enough (healing).
func (p *Plan) Due() bool {
	if len(p.listing.Unreadable) > 0 {
		return false // it may be what the gap is missing
	}
	for _, g := range p.gaps {
		if p.due(g) {
			return true
		}
	}
	return false
}

// due: a gap after the bootstrap may be one that its owner will put back, or a
// torn listing; it counts when it was in two listings in a row and for E + 1 s
// after the second, so that an owner that didn't put it back has stopped trusting it.
func (p *Plan) due(g gap) bool {
	if p.listing.Initialized.IsZero() {
		return true
	}
	return !g.since.IsZero() && p.now.Sub(g.since) >= p.host.Terms.Takeover()
}

// Complete reports whether the marker should be made: the listing has none, and
// no gap and nothing that can't be read.
func (p *Plan) Complete() bool {
	return p.listing.Initialized.IsZero() && len(p.gaps) == 0 && len(p.listing.Unreadable) == 0
}

// Missing returns the leases to create for the gaps that are due, cut at the
// borders of the partitions: a PK-range lease for a whole partition (in
// [JavaLatestVersion] an EPK lease of its range), an EPK lease for a part of one. Each carries its start (continuation or [PropertyStart]),
// except one that starts now: its Start(feed.Now()) is now, and the caller stores
// a continuation in it: that of a read made before the marker was found absent or,
// when it heals (all versions and deletes only), of a new one, and tells the user
// that versions were lost.
func (p *Plan) Missing(partitions []feed.Partition) []lease.Lease {
	var missing []lease.Lease
	for _, g := range p.gaps {
		if !p.due(g) {
			continue
		}
		for _, part := range overlapping(partitions, g.Range) {
			l := lease.ForRange(part.Range.Intersect(g.Range))
			if g.Contains(part.Range) && p.host.Dialect != lease.JavaLatestVersion {
				l = lease.ForPartition(part)
			}
			l.Mode = p.host.Mode
			missing = append(missing, l.StartingAt(p.start()))
		}
	}
	return missing
}

// start is where a missing lease starts. One that is healed may have been lost
// with changes undelivered since the marker was made, so it starts there and not
// at today's now; less a second, because times are cut to seconds.
func (p *Plan) start() feed.Start {
	marker := p.listing.Initialized
	if p.host.Start.Kind() != feed.StartNow || marker.IsZero() || p.host.Mode == feed.AllVersionsAndDeletes {
		return p.host.Start
	}
	return feed.At(marker.Add(-time.Second))
}
