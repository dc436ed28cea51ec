package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// part is one lease as the lease container and the feed show it.
type part struct {
	token string
	rng   feed.Range
	// host has the lease; empty: nobody.
	host string
	// position is the LSN up to which the lease is checkpointed, end the last one
	// of its partition; -1: not known.
	position, end int64
	// behind tells that there are changes after the position.
	behind bool
}

// progress looks at leases and feed from outside, as an estimator does.
type progress struct {
	source feed.Source
	leases lease.Store
}

func newProgress(ctx context.Context, at places) (*progress, error) {
	source := at.source.source()
	identity, err := source.Identity(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := at.leaseContainer().Open(ctx, lease.Key{Processor: processorName, Identity: identity})
	if err != nil {
		return nil, err
	}
	return &progress{source: source, leases: leases}, nil
}

// look returns the leases in the order of their ranges, and whether the copy has
// caught up: the leases cover all keys, and none has a change behind its position.
func (p *progress) look(ctx context.Context) (parts []part, caughtUp bool, err error) {
	listing, err := p.leases.List(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("list the leases: %w", err)
	}
	caughtUp = true
	for _, l := range listing.Leases {
		seen, err := p.part(ctx, l)
		if err != nil {
			return nil, false, err
		}
		caughtUp = caughtUp && !seen.behind
		parts = append(parts, seen)
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.rng.Min, b.rng.Min) })
	return parts, caughtUp && covers(parts), nil
}

// lastLSN returns the last LSN of a container: one count goes through all of its partitions.
func lastLSN(ctx context.Context, source feed.Source) (int64, error) {
	partitions, err := source.Partitions(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the partitions: %w", err)
	}
	last := int64(0)
	for _, p := range partitions {
		page, err := source.Read(ctx, feed.Request{Range: p.Range, From: feed.Now()})
		if err != nil {
			return 0, fmt.Errorf("find the end of partition %s: %w", p.ID, err)
		}
		last = max(last, page.End)
	}
	return last, nil
}

// part reads one change behind l's position, to see whether there is any.
func (p *progress) part(ctx context.Context, l lease.Lease) (part, error) {
	host, _, _ := strings.Cut(l.Owner, "/") // the random suffix of its run goes
	seen := part{token: l.Token, rng: l.Range, host: host, position: -1, end: -1, behind: true}
	from := feed.After(l.Continuation)
	if l.Continuation == "" {
		from = feed.Beginning() // where the demo's processors start
	}
	// The embedded store's continuation is an LSN in quotes.
	if n, err := strconv.ParseInt(strings.Trim(string(l.Continuation), `"`), 10, 64); err == nil {
		seen.position = n
	}
	request := feed.Request{From: from, MaxItems: 1}
	if request.Partition.ID = l.PartitionID; l.PartitionID == "" {
		request.Range = l.Range
	}
	page, err := p.source.Read(ctx, request)
	var gone *feed.GoneError
	switch {
	case errors.As(err, &gone): // its host will put the children in its place
		return seen, nil
	case err != nil:
		return seen, fmt.Errorf("read behind lease %s: %w", l.Token, err)
	}
	seen.end, seen.behind = page.End, len(page.Changes) > 0
	return seen, nil
}

// covers reports whether parts, sorted by Min, leave no gap.
func covers(parts []part) bool {
	reached := feed.MinEPK
	for _, p := range parts {
		if p.rng.Min > reached {
			return false
		}
		reached = max(reached, p.rng.Max)
	}
	return reached == feed.MaxEPK
}
