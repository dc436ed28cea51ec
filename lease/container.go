package lease

import "fmt"

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
