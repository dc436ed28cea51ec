package balance

import (
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Memory is what a host remembers from one listing to the next: since when each
// lease has shown its ETag (for stores without a clock), which leases the last
// regular cycle showed free, and which gaps were seen. The zero Memory
// remembers nothing. It is a value, never changed once made.
type Memory struct {
	listed   bool          // there was a listing
	mono     time.Duration // when, by the host's monotonic clock
	now      time.Time     // and by the store's
	gaps     []gap
	free     map[string]string // of the last regular cycle: ID to ETag
	seen     map[string]sighting
	coverage *coverage
	ranges   map[string]feed.Range // of partitions whose leases have none, by ID
}

// sighting is since when a host has seen a lease with this ETag, and whether it
// had seen another ETag before.
type sighting struct {
	etag    string
	since   time.Duration
	changed bool
}

// Memory returns what to remember for the next listing: what this listing showed,
// not what was written since.
func (p *Plan) Memory() Memory {
	m := Memory{listed: true, mono: p.mono, now: p.now, free: p.before.free, seen: p.seen, coverage: p.coverage, ranges: p.ranges()}
	if p.regular {
		m.free = p.freeNow
	}
	if !p.listing.Initialized.IsZero() {
		m.gaps = p.gaps // before the marker exists no gap counts
	}
	return m
}

// ranges are those of the partitions whose leases keep none: a partition's never
// changes, so it needs to be asked for once.
func (p *Plan) ranges() map[string]feed.Range {
	if p.host.Dialect != lease.JavaHandleChanges {
		return nil
	}
	known := make(map[string]feed.Range, len(p.listing.Leases))
	for i := range p.listing.Leases {
		if l := &p.listing.Leases[i]; !l.Range.IsZero() {
			known[l.PartitionID] = l.Range
		}
	}
	return known
}

// WithRanges is l with the ranges that are remembered of leases without one.
func (m Memory) WithRanges(l lease.Listing) lease.Listing {
	if len(m.ranges) == 0 {
		return l
	}
	l.Leases = slices.Clone(l.Leases)
	for i := range l.Leases {
		if lease := &l.Leases[i]; lease.Range.IsZero() {
			lease.Range = m.ranges[lease.PartitionID]
		}
	}
	return l
}

// remember notes that a listing shows the lease free.
func remember(free map[string]string, l *lease.Lease) map[string]string {
	if free == nil {
		free = map[string]string{}
	}
	free[l.ID] = l.ETag
	return free
}

// sightings carries what was seen over to a new listing.
func (m Memory) sightings(leases []lease.Lease, mono time.Duration) map[string]sighting {
	seen := make(map[string]sighting, len(leases))
	for i := range leases {
		l := &leases[i]
		s, known := m.seen[l.ID]
		if !known || s.etag != l.ETag {
			s = sighting{etag: l.ETag, since: mono, changed: known}
		}
		seen[l.ID] = s
	}
	return seen
}
