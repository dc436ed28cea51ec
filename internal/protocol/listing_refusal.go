package protocol

import (
	"fmt"

	"github.com/changefeed-go/changefeed/lease"
)

// Refusal returns a [*lease.DialectError] if the listing shows that the store, which has
// dialect d, must not be used. Otherwise it returns nil. A host checks it when it starts.
// There are two reasons:
//
//   - There are leases of another dialect. Both processors would process every change. If
//     the ids are the same, each would destroy the other's leases. A marker alone proves
//     nothing, because a JavaLatestVersion host also creates the marker of
//     JavaHandleChanges.
//   - The dialect is JavaHandleChanges, and there is a marker but no lease. That is the
//     state after an upgrade to JavaLatestVersion, or after an operator deleted the
//     leases. New leases would process everything again, next to the upgraded hosts.
func Refusal(l lease.Listing, d lease.Dialect) error {
	if len(l.Foreign) > 0 {
		return refusal(d, l.Foreign)
	}
	if upgraded(l, d) {
		return &lease.DialectError{
			Found: "the lease container has this processor's marker (.info) and none of its leases; either an upgrade to " + lease.JavaLatestVersion.String() +
				" moved the leases, or they were deleted",
			Remedy: "use that dialect; if the leases were deleted to start over, delete the marker as well (`changefeed leases delete --all`)",
		}
	}
	return nil
}

// upgraded reports whether a store of dialect d is in the state after an upgrade by
// Java's handleLatestVersionChanges, or after a delete of all leases. Then no lease may
// be created or put back.
func upgraded(l lease.Listing, d lease.Dialect) bool {
	return d == lease.JavaHandleChanges && !l.Initialized.IsZero() && len(l.Leases) == 0 && len(l.Unreadable) == 0
}

func refusal(d lease.Dialect, found []lease.Foreign) *lease.DialectError {
	other := found[0].Dialect
	e := &lease.DialectError{Found: fmt.Sprintf("lease %s is in %s, and the lease store uses %s", found[0].ID, other, d)}
	if len(found) > 1 {
		e.Found = fmt.Sprintf("%d leases, %s among them, are in %s, and the lease store uses %s", len(found), found[0].ID, other, d)
	}
	e.Remedy = fmt.Sprintf("to continue with them, use the lease dialect %q, or convert them to %q with `changefeed leases convert` "+
		"while no host runs; to ignore them, use another processor name or another lease container", other.Name(), d.Name())
	return e
}

// Strange returns a [*lease.DialectError] if the lease, of a store of dialect d, was written
// for another container than the one with that rid. Otherwise it returns nil. The other
// container had the same name, and resuming from its position would skip changes.
func Strange(l lease.Lease, d lease.Dialect, rid string) error {
	was := l.Properties[lease.PropertyContainer]
	if d != lease.JavaHandleChanges || was == "" || rid == "" || was == rid {
		return nil
	}
	return &lease.DialectError{
		Found: fmt.Sprintf("the monitored container was deleted and recreated: lease %s has a position in %s, and the container is now %s",
			l.ID, was, rid),
		Remedy: "to process the new container from its start, delete the leases while no host runs (`changefeed leases delete --all`), or use another processor name",
	}
}
