package balance

import (
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Memory is the state that a host keeps from one listing to the next. It records since
// when each lease has shown its ETag, for stores without a clock. It also holds the
// leases that the last regular cycle found free, and the gaps. The zero Memory is empty.
// It is an immutable value.
type Memory struct {
	listed      bool          // reports whether the host has listed the leases before
	mono        time.Duration // the time of the last listing by the host's monotonic clock
	now         time.Time     // the time of the last listing by the store's clock
	initialized bool          // reports whether that listing showed the marker
	gaps        []gap
	free        map[string]string // the leases that the last regular cycle found free: ID to ETag
	seen        map[string]sighting
	coverage    *coverage
	ranges      map[string]feed.Range // the ranges of leases without one, by partition ID
}

// sighting records when a host first listed a lease with its present ETag. changed
// reports whether the host has listed the lease with another ETag before.
type sighting struct {
	etag    string
	since   time.Duration
	changed bool
}

// Memory returns the state for the next listing. It reflects the listing of p and not the
// writes since.
func (p *Plan) Memory() Memory {
	m := Memory{listed: true, mono: p.mono, now: p.now, initialized: p.initialized(), free: p.before.free, seen: p.seen, coverage: p.coverage, ranges: p.ranges()}
	if p.regular {
		m.free = p.freeNow
	}
	if p.initialized() || len(p.listing.Leases) > 0 {
		m.gaps = p.gaps
	}
	return m
}

// ranges returns the ranges of partitions whose leases have none. The range of a
// partition never changes, so the partitions are listed only once.
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

// WithRanges returns l. Leases without a range get the range that the memory has for
// their partition.
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

// remember adds l to the map free if l is free, and returns the map.
func remember(free map[string]string, l *lease.Lease) map[string]string {
	if free == nil {
		free = map[string]string{}
	}
	free[l.ID] = l.ETag
	return free
}

// sightings returns the sightings after a new listing. A lease whose ETag has not changed
// keeps its sighting; the others get a new one.
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
