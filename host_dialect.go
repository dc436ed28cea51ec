package changefeed

import (
	"context"
	"errors"

	"github.com/changefeed-go/changefeed/lease"
)

// refuses ends Run when the lease container must not be used: at the start, and in
// the dialect of Java's handleChanges at any time, because there the leases of a
// running host go away when another one upgrades them. It returns nil when the
// listing is fine. One that looks as after an upgrade may be torn, made while the
// first leases were; it counts when the next one shows the same.
func (c *cycle) refuses(listing lease.Listing) (again bool, err error) {
	if err := listing.Strange(c.dialect, c.container); err != nil {
		c.out.fatal = &LeaseStoreError{Op: "use the lease container", Err: err}
		return false, c.failed(c.out.fatal)
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

// dialectStore is a store whose documents keep less than a lease has: in the dialect of
// Java's handleChanges, and where an old SDK wrote them, no range.
type dialectStore struct {
	lease.Store
	dialect lease.Dialect
	// container is the rid of the monitored container.
	container string
}

// Create puts no lease back that went away because the leases were upgraded: the
// hosts that have them now go on. Their leases are made before the old ones are
// deleted, so a listing tells.
func (s dialectStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	if s.dialect == lease.JavaHandleChanges && !l.Free() {
		listing, err := s.List(ctx)
		if err != nil {
			return lease.Lease{}, err
		}
		if listing.Refusal(s.dialect) != nil {
			return lease.Lease{}, &lease.ConflictError{Current: l.Released("")}
		}
	}
	answer, err := s.Store.Create(ctx, l.Stamped(s.dialect, s.container))
	if err != nil {
		return answer, ranged(l, err)
	}
	return rangedAs(answer, l), nil
}

// Update implements [lease.Store].
func (s dialectStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	answer, err := s.Store.Update(ctx, l.Stamped(s.dialect, s.container))
	if err != nil {
		return answer, ranged(l, err)
	}
	return rangedAs(answer, l), nil
}

// Delete implements [lease.Store].
func (s dialectStore) Delete(ctx context.Context, l lease.Lease) error {
	return ranged(l, s.Store.Delete(ctx, l))
}

// ranged gives the document in a conflict the range that is known of it.
func ranged(known lease.Lease, err error) error {
	if conflict, ok := errors.AsType[*lease.ConflictError](err); ok {
		return &lease.ConflictError{Current: rangedAs(conflict.Current, known)}
	}
	return err
}

func rangedAs(l, known lease.Lease) lease.Lease {
	if l.Range.IsZero() && l.Token == known.Token {
		l.Range = known.Range
	}
	return l
}
