package changefeed

import (
	"context"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// refuses checks whether the listing shows that the lease container must not be used. It
// returns the error that must end Run, or nil. It checks every listing at the start. In
// the dialect JavaHandleChanges it checks later ones too, because an upgrade by a Java
// host deletes the leases.
//
// A listing that looks like an upgrade may be torn: another host may have created the
// first leases while it was read. So the first such listing only sets again, and the
// leases are listed once more. Run ends if that listing looks the same.
func (c *cycle) refuses(listing lease.Listing) (again bool, err error) {
	for _, l := range listing.Leases {
		if err := protocol.Strange(l, c.dialect, c.container); err != nil {
			c.out.fatal = &LeaseStoreError{Op: "use the lease container", Err: err}
			return false, c.failed(c.out.fatal)
		}
	}
	err = protocol.Refusal(listing, c.dialect)
	if err == nil || !c.first && c.dialect != lease.JavaHandleChanges {
		c.suspect = false
		return false, nil
	}
	if len(listing.Foreign) == 0 && !c.suspect {
		c.suspect = true
		return true, nil
	}
	c.out.fatal = &LeaseStoreError{Op: "use the lease container", Err: err}
	return false, c.failed(c.out.fatal)
}

// upgradableStore is a store in the dialect [lease.JavaHandleChanges], whose leases an upgrade
// by a Java host deletes. The hosts of the upgraded leases continue their work, so a host of
// ours must not put the deleted ones back.
type upgradableStore struct{ lease.Store }

// Create implements [lease.Store]. A lease with an owner is one that its host puts back after a
// deletion. Create lists the leases first. An upgrade creates its leases before it deletes the
// old ones, so the listing shows them.
func (s upgradableStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	if l.Owner != "" {
		listing, err := s.List(ctx)
		if err != nil {
			return lease.Lease{}, err
		}
		if protocol.Refusal(listing, lease.JavaHandleChanges) != nil {
			return lease.Lease{}, &lease.ConflictError{Current: protocol.Released(l, "")}
		}
	}
	return s.Store.Create(ctx, l)
}
