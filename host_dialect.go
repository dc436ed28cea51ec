package changefeed

import (
	"context"

	"github.com/changefeed-go/changefeed/lease"
)

// refuses ends Run when the lease container must not be used: at the start, and in
// the dialect of Java's handleChanges at any time, because there the leases of a
// running host go away when another one upgrades them. It returns nil when the
// listing is fine. One that looks as after an upgrade may be torn, made while the
// first leases were; it counts when the next one shows the same.
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

// create creates a lease. In the dialect of Java's handleChanges it doesn't put a lease back
// that was deleted because another host upgraded the leases: the hosts of the upgraded leases
// go on with it. The upgrade creates its leases before it deletes the old ones, so a listing
// shows them.
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
