package balance

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

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
