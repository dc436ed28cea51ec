package lease

import "fmt"

// PropertyContainer is the rid of the monitored container, on leases in the dialect
// [JavaHandleChanges] that a host of ours wrote last. Their ids have its name alone, so
// without this nobody could tell that their positions are those of a container which was
// deleted and made anew since. A host of Java drops it with its next write.
const PropertyContainer = "container"

// Stamped is l with the rid of its container, in the dialect that needs it.
func (l Lease) Stamped(d Dialect, rid string) Lease {
	if d != JavaHandleChanges || rid == "" || l.Properties[PropertyContainer] == rid {
		return l
	}
	return l.with(PropertyContainer, rid)
}

// strange reports whether the lease is known to be of another container than rid.
func (l Lease) strange(d Dialect, rid string) bool {
	was := l.Properties[PropertyContainer]
	return d == JavaHandleChanges && was != "" && rid != "" && was != rid
}

// Strange is a [*DialectError] when the lease, of a store of dialect d, was written for another
// container of the same name than the one with that rid, else nil. To go on from its
// position would leave changes out.
func (l Lease) Strange(d Dialect, rid string) error {
	if !l.strange(d, rid) {
		return nil
	}
	return &DialectError{
		Found: fmt.Sprintf("the monitored container was deleted and made anew: lease %s has a position in %s, and the container is %s now",
			l.ID, l.Properties[PropertyContainer], rid),
		Remedy: "to process the new one from its start, delete the leases while no host runs (`changefeed leases delete --all`), or use another processor name",
	}
}

// Strange is that of the first lease of the listing that is of another container, else nil.
func (l Listing) Strange(d Dialect, rid string) error {
	for i := range l.Leases {
		if err := l.Leases[i].Strange(d, rid); err != nil {
			return err
		}
	}
	return nil
}
