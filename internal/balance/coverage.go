package balance

import (
	"cmp"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// coverage holds the shadowed leases of a listing, and the gaps that no lease covers. It
// depends only on the ranges, which only splits and merges change. So one coverage serves
// many listings. It is immutable.
type coverage struct {
	covered  feed.Range        // the part of the container that the processor covers
	leases   []leaseRange      // the ranges of the leases, in the listing's order
	shadowed map[string]string // by the ID of a shadowed lease: the ID of its widest ancestor
	gaps     []feed.Range
	overlaps []Overlap
}

// Overlap is a part of the keys that two leases cover, though neither covers the other. So
// two hosts may handle the same changes. Splits and merges never create such leases.
type Overlap struct {
	Left, Right string     // the IDs of the leases, in the order of their lower borders
	Keys        feed.Range // the keys that both cover
}

type leaseRange struct {
	id    string
	r     feed.Range
	whole bool // reports whether it is the range of a PK-range lease
}

// of returns the coverage of the given leases. If their ranges equal those of p, it
// returns p.
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

// compute visits the leases once, in the order of their lower borders. Wider leases come
// first, and PK-range leases come before EPK leases of the same range. So every ancestor
// comes before its descendants.
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
	p.shadowed = map[string]string{}
	reached := "" // the highest upper bound of the leases before this one
	widest := ""  // the ID of the lease with that bound
	end := p.covered.Min
	for i := 0; i < len(sorted); {
		first := sorted[i]
		if first.r.Min > end && end < p.covered.Max {
			p.gap(end, first.r.Min)
		}
		for ; i < len(sorted) && sorted[i].r == first.r && sorted[i].whole == first.whole; i++ {
			if reached >= first.r.Max {
				p.shadowed[sorted[i].id] = widest
			}
		}
		if reached < first.r.Max {
			if first.r.Min < reached {
				p.overlaps = append(p.overlaps, Overlap{widest, first.id, feed.Range{Min: first.r.Min, Max: reached}})
			}
			reached, widest = first.r.Max, first.id
		}
		end = max(end, first.r.Max)
	}
	if end < p.covered.Max {
		p.gap(end, p.covered.Max)
	}
	if unknown {
		p.gaps = nil // a lease of unknown range may cover any gap
	}
}

func (p *coverage) gap(from, to string) {
	g := feed.Range{Min: from, Max: to}.Intersect(p.covered)
	if !g.IsEmpty() {
		p.gaps = append(p.gaps, g)
	}
}

// placed returns the leases of a listing, including those that cannot be read. A lease
// that an unreadable one shadows must not run, because the owner of the unreadable lease
// may have a split to finish.
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
	// since is the time of the second listing in a row that showed the gap, by the
	// store's clock. It is zero after one listing, which a split may have torn.
	since time.Time
}

// gapsNow returns the gaps of p's listing. A part of a gap that m already has keeps its
// since. A new part has none. If the time between the two listings was long by either
// clock, no part keeps its since, because leases may have existed in that time.
func (m Memory) gapsNow(p *Plan) []gap {
	if len(p.coverage.gaps) == 0 {
		return nil
	}
	pause := 2 * p.host.Terms.Acquire
	known := m.listed && m.initialized == p.initialized() && p.mono-m.mono <= pause && p.now.Sub(m.now) <= pause
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

// Due reports whether a gap must be closed now, with a call of Missing.
func (p *Plan) Due() bool {
	if len(p.listing.Unreadable) > 0 {
		return false // the unreadable lease may cover the gap
	}
	for _, g := range p.gaps {
		if p.due(g) {
			return true
		}
	}
	return false
}

// due reports whether a gap must be closed now. A listing that shows leases may be torn. So
// a gap beside leases is due only when two listings in a row have shown it, and leases.
//
// After the bootstrap, the owner of a gap may put its lease back. So E + 1 s must have
// passed since the second of the listings. By then an owner that did not put its lease back
// trusts it no longer.
func (p *Plan) due(g gap) bool {
	if !p.initialized() {
		return len(p.listing.Leases) == 0 || !g.since.IsZero()
	}
	return !g.since.IsZero() && p.now.Sub(g.since) >= p.host.Terms.Takeover()
}

// Unsure reports whether the host must list the leases again at once: at bootstrap, no gap
// is due because only this listing has shown the gaps.
func (p *Plan) Unsure() bool {
	return !p.initialized() && len(p.gaps) > 0 && len(p.listing.Unreadable) == 0 && !p.Due()
}

// Complete reports whether the marker should be created. The listing has no marker, no
// gap, and no unreadable lease.
func (p *Plan) Complete() bool {
	return !p.initialized() && len(p.gaps) == 0 && len(p.listing.Unreadable) == 0
}

// initialized reports whether the listing shows the marker, so that the bootstrap is over.
func (p *Plan) initialized() bool { return !p.listing.Initialized.IsZero() }

// Missing returns the leases to create for the gaps that are due, cut at the borders of
// the partitions. A whole partition gets a PK-range lease (in [lease.JavaLatestVersion]
// an EPK lease of its range). A part of a partition gets an EPK lease. Each lease has its
// start: a continuation or [lease.PropertyStart].
//
// A lease that starts now has no start, so its Start(feed.Now()) is now. The caller
// stores a continuation in it. At bootstrap the caller read that continuation before it
// found the marker absent. For healing, which happens in all versions and deletes mode
// only, it reads a new one and notifies the user that versions were lost.
func (p *Plan) Missing(partitions []feed.Partition) []lease.Lease {
	host := p.host
	host.Start = p.start()
	var missing []lease.Lease
	for _, g := range p.gaps {
		if p.due(g) {
			missing = append(missing, host.leasesFor(g.Range, partitions)...)
		}
	}
	return missing
}

// Missing returns the leases to create for the keys of the host's range that none of the
// given leases covers. They have the form that [Plan.Missing] describes. The given leases
// must be complete: no later listing confirms a gap.
func (h Host) Missing(leases []lease.Lease, partitions []feed.Partition) []lease.Lease {
	var missing []lease.Lease
	for _, r := range Gaps(leases, h.Range.OrFull()) {
		missing = append(missing, h.leasesFor(r, partitions)...)
	}
	return missing
}

// Gaps returns the parts of r that none of the leases covers, in order. There are none if a
// lease has no range, because it may cover any key.
func Gaps(leases []lease.Lease, r feed.Range) []feed.Range {
	var none *coverage
	return none.of(leases, r).gaps
}

// leasesFor returns the leases for the keys of r, cut at the borders of the partitions.
func (h Host) leasesFor(r feed.Range, partitions []feed.Partition) []lease.Lease {
	var leases []lease.Lease
	over, _ := partitionsOver(r, partitions)
	for _, part := range over {
		l := lease.ForRange(part.Range.Intersect(r))
		if r.Contains(part.Range) && h.Dialect != lease.JavaLatestVersion {
			l = lease.ForPartition(part)
		}
		l.Mode = h.Mode
		leases = append(leases, protocol.StartingAt(l, h.Start))
	}
	return leases
}

// start returns the start of a missing lease. A healed lease may have been lost with
// undelivered changes since the marker was created. So it starts at the time of the
// marker and not at a new "now". A second is subtracted, because times are truncated to
// seconds.
func (p *Plan) start() feed.Start {
	if p.host.Start.Kind() != feed.StartNow || !p.initialized() || p.host.Mode == feed.AllVersionsAndDeletes {
		return p.host.Start
	}
	return feed.At(p.listing.Initialized.Add(-time.Second))
}
