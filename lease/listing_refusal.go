package lease

import "fmt"

// Refusal is a [*DialectError] when the listing of a store of dialect d shows that
// the store must not be used, else nil. A host looks at it when it starts:
//
//   - There are leases of another dialect. Both processors would process every
//     change; and where the ids are the same, each would destroy the other's leases.
//     A marker alone is no evidence: Java's second dialect makes the first's, too.
//   - There is a marker and no lease, in JavaHandleChanges. That is what an upgrade
//     to Java's second dialect leaves; or somebody deleted the leases. New ones
//     would process everything again, beside those hosts.
func (l Listing) Refusal(d Dialect) error {
	if len(l.Foreign) > 0 {
		return refusal(d, l.Foreign)
	}
	if l.upgraded(d) {
		return &DialectError{
			Found: "the lease container has this processor's marker (.info) and none of its leases, as an upgrade to " + JavaLatestVersion.String() +
				" leaves it when that processor's leases are elsewhere by now, or somebody who deletes leases",
			Remedy: "go on in that dialect; or, if the leases were deleted to start over, delete the marker as well (`changefeed leases delete --all`)",
		}
	}
	return nil
}

// upgraded reports whether a store of dialect d looks as after an upgrade by Java's
// handleLatestVersionChanges, or wiped: no lease may be created, nor put back.
func (l Listing) upgraded(d Dialect) bool {
	return d == JavaHandleChanges && !l.Initialized.IsZero() && len(l.Leases) == 0 && len(l.Unreadable) == 0
}

func refusal(d Dialect, found []Foreign) *DialectError {
	other := found[0].Dialect
	e := &DialectError{Found: fmt.Sprintf("lease %s is in %s, and the lease store is in %s", found[0].ID, other, d)}
	if len(found) > 1 {
		e.Found = fmt.Sprintf("%d leases, %s among them, are in %s, and the lease store is in %s", len(found), found[0].ID, other, d)
	}
	e.Remedy = fmt.Sprintf("to go on with them, use the dialect %q for the leases, or convert them to %q with `changefeed leases convert` "+
		"while no host runs; to leave them alone, use another processor name or another lease container", other.Name(), d.Name())
	return e
}

// PropertyContainer is the rid of the monitored container, on leases in the dialect
// [JavaHandleChanges] that a host of ours wrote last. Their ids have its name alone, so
// without this nobody could tell that their positions are those of a container which was
// deleted and made anew since. A host of Java drops it with its next write.
const PropertyContainer = "container"

// Strange is a [*DialectError] when the lease, of a store of dialect d, was written for another
// container of the same name than the one with that rid, else nil. To go on from its
// position would leave changes out.
func (l Lease) Strange(d Dialect, rid string) error {
	was := l.Properties[PropertyContainer]
	if d != JavaHandleChanges || was == "" || rid == "" || was == rid {
		return nil
	}
	return &DialectError{
		Found: fmt.Sprintf("the monitored container was deleted and made anew: lease %s has a position in %s, and the container is %s now",
			l.ID, was, rid),
		Remedy: "to process the new one from its start, delete the leases while no host runs (`changefeed leases delete --all`), or use another processor name",
	}
}
