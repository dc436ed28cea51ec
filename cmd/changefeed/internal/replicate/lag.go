package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/internal/protocol"
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
	// terms are the intervals of the hosts.
	terms protocol.Terms

	// ends contains the last LSN of each partition at the previous measurement.
	ends []protocol.End
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
	var ends []protocol.End
	listing = protocol.WithRanges(listing, partitions)
	for _, x := range listing.Leases {
		s.leases++
		if l.terms.Live(x.Owner, x.Modified, listing.Now) {
			s.owned++
		}
		r := protocol.ReadOf(x, l.mode, x.Start(l.start))
		r.MaxItems = 1
		page, err := protocol.FirstPage(ctx, l.source.Read, r)
		if _, ok := errors.AsType[*feed.GoneError](err); ok { // the owner is about to split the lease
			s.caughtUp = false
			continue
		}
		if err != nil {
			return s, fmt.Errorf("read the feed of lease %s: %w", x.Token, err)
		}
		if page.End > 0 {
			ends = append(ends, protocol.End{Range: x.Range, LSN: page.End})
		}
		if len(page.Changes) == 0 {
			s.part++
			continue
		}
		first := page.Changes[0].LSN
		s.behind += max(page.End-first+1-page.Unused, 1)
		s.part += float64(first-1) / float64(max(page.End, first))
		s.caughtUp = s.caughtUp && l.passed(x.Range, first)
	}
	s.part /= float64(s.leases)
	s.caughtUp = s.caughtUp && !protocol.Rangeless(listing) && len(balance.Gaps(listing.Leases, feed.Full())) == 0
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
			if first <= e.LSN {
				return false
			}
		}
	}
	return known
}

// idle reports whether all of the processor's leases are free or expired.
func (l *lag) idle(ctx context.Context) (bool, error) {
	listing, err := l.store.List(ctx)
	if err != nil {
		return false, fmt.Errorf("list the leases: %w", err)
	}
	return !slices.ContainsFunc(listing.Leases, func(x lease.Lease) bool { return l.terms.Live(x.Owner, x.Modified, listing.Now) }), nil
}

// made reports whether the processor's hosts have created its leases.
func (l *lag) made(ctx context.Context) (bool, error) {
	listing, err := l.store.List(ctx)
	if err != nil {
		return false, fmt.Errorf("list the leases: %w", err)
	}
	return !listing.Initialized.IsZero(), nil
}
