package estimator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// prepare sorts the leases by their ranges. It adds a Lag for each lease, with the facts
// that the listing contains.
func (m *measurement) prepare() {
	slices.SortFunc(m.leases, func(a, b lease.Lease) int {
		return cmp.Or(cmp.Compare(a.Range.Min, b.Range.Min), cmp.Compare(a.Range.Max, b.Range.Max), cmp.Compare(a.ID, b.ID))
	})
	for _, l := range m.leases {
		m.lags = append(m.lags, Lag{
			LeaseToken: l.Token, Range: l.Range, Partition: m.partitionOf(l), Owner: l.Owner,
			Continuation: l.Continuation, Start: l.Start(feed.Now()), Modified: l.Modified, LSNs: Unknown, Age: Unknown, Letters: Unknown, ParkedKeys: Unknown,
			Stopped:   protocol.StopOf(l).Reason,
			Splitting: slices.ContainsFunc(m.leases, func(x lease.Lease) bool { return protocol.IsAncestor(l, x) }),
			Shadowed:  slices.ContainsFunc(m.leases, func(a lease.Lease) bool { return protocol.IsAncestor(a, l) }),
		})
	}
}

// partitionOf returns the id of the partition that holds the whole range of l. It returns
// "" if there is none.
func (m *measurement) partitionOf(l lease.Lease) string {
	if l.PartitionID != "" {
		return l.PartitionID
	}
	for _, p := range m.partitions {
		if !l.Range.IsZero() && p.Range.Contains(l.Range) {
			return p.ID
		}
	}
	return ""
}

// read reads the first change after the position of l. It returns lag with the numbers
// that follow from it.
func (m *measurement) read(ctx context.Context, l lease.Lease, lag Lag) Lag {
	if err := protocol.Strange(l, m.cfg.Leases.Dialect(), m.store.identity.ContainerRID); err != nil {
		lag.Err = err // the position belongs to another container
		return lag
	}
	// A lease without a position starts at its stored start. If it has none, its start
	// depends on the processor's configuration, which the estimator does not know.
	from := lag.Start
	if from.Kind() == feed.StartNow {
		lag.Unstarted = true
		return lag
	}
	r := protocol.ReadOf(l, l.Mode, from)
	r.MaxItems = 1
	page, err := protocol.FirstPage(ctx, m.page, r)
	if _, gone := errors.AsType[*feed.GoneError](err); gone {
		lag.Splitting, lag.Partition = true, ""
		return lag
	}
	if err != nil {
		lag.Err = err
		return lag
	}
	lag.Splitting = false // the partition exists, so hosts use the lease itself
	return lag.measured(page, m.now.Add(time.Since(m.since)))
}

// page reads one page of the monitored container's feed.
func (m *measurement) page(ctx context.Context, r feed.Request) (feed.Page, error) {
	return request(ctx, m.Estimator, func(ctx context.Context) (feed.Page, error) { return m.cfg.Source.Read(ctx, r) })
}
