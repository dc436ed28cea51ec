package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// measurement is the progress of a processor, over all of its hosts.
type measurement struct {
	at time.Time
	// leases is the number of leases, and owned is the number of those with a live owner.
	leases, owned int
	// behind is the total lag of the leases, in LSNs. part is the share of the feed that
	// has been copied, from 0 to 1.
	behind int64
	part   float64
	// caughtUp reports whether a checkpoint covers every change that was written before
	// the previous measurement.
	caughtUp bool
}

// lag measures the progress of a processor from its leases and from the next change of
// each lease. It is not safe for concurrent use.
type lag struct {
	source feed.Source
	store  lease.Store
	mode   feed.Mode
	start  feed.Start
	// expiration is the leases' expiration interval.
	expiration time.Duration

	// ends contains the last LSN of each partition at the previous measurement.
	ends []end
}

// errNoLeases reports that no host has created the leases yet.
var errNoLeases = errors.New("the leases do not exist yet")

// measure measures the progress now, and keeps the partitions' last LSNs for the next
// measurement.
func (l *lag) measure(ctx context.Context) (measurement, error) {
	s := measurement{at: time.Now(), caughtUp: true}
	listing, err := l.store.List(ctx)
	if err != nil {
		return s, fmt.Errorf("list the leases: %w", err)
	}
	if listing.Initialized.IsZero() || len(listing.Leases) == 0 {
		return s, errNoLeases
	}
	partitions, err := l.source.Partitions(ctx)
	if err != nil {
		return s, fmt.Errorf("list the partitions: %w", err)
	}
	var covered []feed.Range
	var ends []end
	for _, x := range listing.Leases {
		s.leases++
		if l.live(x, listing.Now) {
			s.owned++
		}
		rng := rangeOf(x, partitions)
		page, err := l.source.Read(ctx, feed.Request{
			Partition: feed.Partition{ID: x.PartitionID}, Range: x.Range, From: x.Start(l.start), Mode: l.mode, MaxItems: 1,
		})
		if _, ok := errors.AsType[*feed.GoneError](err); ok { // the owner is about to split the lease
			s.caughtUp = false
			continue
		}
		if err != nil {
			return s, fmt.Errorf("read the feed of lease %s: %w", x.Token, err)
		}
		covered = append(covered, rng)
		if page.End > 0 {
			ends = append(ends, end{rng, page.End})
		}
		if len(page.Changes) == 0 {
			s.part++
			continue
		}
		first := page.Changes[0].LSN
		s.behind += max(page.End-first+1-page.Unused, 1)
		s.part += float64(first-1) / float64(max(page.End, first))
		s.caughtUp = s.caughtUp && l.passed(rng, first)
	}
	s.part /= float64(s.leases)
	s.caughtUp = s.caughtUp && tile(covered)
	l.ends = ends
	return s, nil
}

// passed reports whether a lease has read all changes that its range had at the previous
// measurement. first is the LSN of the lease's first unread change.
func (l *lag) passed(rng feed.Range, first int64) bool {
	known := false
	for _, e := range l.ends {
		if e.Overlaps(rng) {
			known = true
			if first <= e.lsn {
				return false
			}
		}
	}
	return known
}

// live reports whether a lease has a live owner.
func (l *lag) live(x lease.Lease, now time.Time) bool {
	return x.Owner != "" && (now.IsZero() || now.Sub(x.Modified) < l.expiration+time.Second)
}

// idle reports whether all of the processor's leases are free or expired.
func (l *lag) idle(ctx context.Context) (bool, error) {
	listing, err := l.store.List(ctx)
	if err != nil {
		return false, fmt.Errorf("list the leases: %w", err)
	}
	return !slices.ContainsFunc(listing.Leases, func(x lease.Lease) bool { return l.live(x, listing.Now) }), nil
}

// made reports whether the processor's hosts have created its leases.
func (l *lag) made(ctx context.Context) (bool, error) {
	listing, err := l.store.List(ctx)
	if err != nil {
		return false, fmt.Errorf("list the leases: %w", err)
	}
	return !listing.Initialized.IsZero(), nil
}

// rangeOf returns the range of a lease or of its partition. It returns an empty range if
// the partition does not exist.
func rangeOf(x lease.Lease, partitions []feed.Partition) feed.Range {
	if !x.Range.IsZero() {
		return x.Range
	}
	for _, p := range partitions {
		if p.ID == x.PartitionID {
			return p.Range
		}
	}
	return feed.Range{Min: feed.MaxEPK, Max: feed.MaxEPK}
}

// tile reports whether the ranges together cover all keys.
func tile(ranges []feed.Range) bool {
	slices.SortFunc(ranges, func(a, b feed.Range) int { return strings.Compare(a.Min, b.Min) })
	covered := feed.MinEPK
	for _, r := range ranges {
		if r.Min > covered {
			return false
		}
		covered = max(covered, r.Max)
	}
	return covered == feed.MaxEPK
}
