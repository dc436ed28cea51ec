package changefeed

import (
	"context"

	"github.com/changefeed-go/changefeed/lease"
)

// refuses ends Run if the lease container must not be used. It checks every listing at
// the start. In the dialect of Java's handleChanges it checks every listing, because
// there the leases of a running host vanish when another host upgrades them. It returns
// nil if the listing can be used. A listing that looks like an upgrade may be torn:
// another host may have created the first leases while it was read. So the first such
// listing only sets again, and Run ends if the next one looks the same.
func (c *cycle) refuses(listing lease.Listing) (again bool, err error) {
	for _, l := range listing.Leases {
		if err := l.Strange(c.dialect, c.container); err != nil {
			c.out.fatal = &LeaseStoreError{Op: "use the lease container", Err: err}
			return false, c.failed(c.out.fatal)
		}
	}
	err = listing.Refusal(c.dialect)
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

// create creates a lease. In the dialect of Java's handleChanges it refuses to put back a
// lease that another host deleted for an upgrade. The hosts of the upgraded leases
// continue its work. An upgrade creates its leases before it deletes the old ones, so a
// listing shows them.
func (s watchedStore) create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	if s.h.dialect == lease.JavaHandleChanges && !l.Free() {
		listing, err := s.Store.List(ctx)
		if err != nil {
			return lease.Lease{}, err
		}
		if listing.Refusal(s.h.dialect) != nil {
			return lease.Lease{}, &lease.ConflictError{Current: l.Released("")}
		}
	}
	return s.Store.Create(ctx, l)
}
