package changefeedtest

import (
	"context"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// drawDialect draws the dialect of a scenario's leases, where no foreign host keeps
// them in .NET's, and leaves out what the dialect doesn't have: handleChanges knows
// neither merges nor all versions and deletes; and when its only lease is deleted by
// hand it takes that for an upgrade, and stops.
func (s *scenario) drawDialect() {
	d := newDraw(s.seed, 0, "dialect")
	p := d.float()
	if len(s.foreign) > 0 || p >= dialectShare {
		return
	}
	s.dialect = lease.JavaLatestVersion
	if p >= dialectShare/2 || s.seed%storeEvery == 0 {
		return // what the checker looks at on the store are documents, and these have no ranges in handleChanges
	}
	s.dialect, s.mode = lease.JavaHandleChanges, feed.LatestVersion
	s.events = slices.DeleteFunc(s.events, func(e event) bool { return e.kind == eventMerge || e.kind == eventDeleteLease })
}

// dialectShare is the share of the seeds without foreign hosts in which the leases are
// in one of Java's dialects.
const dialectShare = 0.3

// dialectContainer is a lease container in a dialect, as a host sees it: what keeps
// the leases in memory keeps all of them, and the host gets no more of it than the
// dialect's documents have.
type dialectContainer struct {
	inner   lease.Container
	dialect lease.Dialect
}

// Dialect implements [lease.Container].
func (c dialectContainer) Dialect() lease.Dialect { return c.dialect }

// Open implements [lease.Container].
func (c dialectContainer) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	codec, err := lease.NewCodec(c.dialect, k, false)
	if err != nil {
		return nil, err
	}
	inner, err := c.inner.Open(ctx, k)
	return dialectStore{Store: inner, codec: codec}, err
}

type dialectStore struct {
	lease.Store
	codec lease.Codec
}

// List implements [lease.Store]. It leaves out what the documents of the dialect do not have.
func (s dialectStore) List(ctx context.Context) (lease.Listing, error) {
	l, err := s.Store.List(ctx)
	if s.codec.Dialect() == lease.JavaHandleChanges {
		l.Leases = slices.Clone(l.Leases)
		for i := range l.Leases {
			l.Leases[i].Range = feed.Range{}
		}
	}
	return l, err
}

// Create implements [lease.Store].
func (s dialectStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	if _, err := s.codec.New(l); err != nil {
		return lease.Lease{}, err
	}
	return s.Store.Create(ctx, s.codec.Stamped(l))
}

// Update implements [lease.Store].
func (s dialectStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return s.Store.Update(ctx, s.codec.Stamped(l))
}
