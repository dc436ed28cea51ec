package simulation

import (
	"context"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// dialectContainer is a lease container in a dialect. The engine in memory keeps all
// fields of a lease. A host receives only those that the dialect's documents have.
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

// List implements [lease.Store]. It removes the fields that the dialect's documents do
// not have.
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
