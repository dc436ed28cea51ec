package balance

import (
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/lease"
)

// Children returns the leases that replace a gone lease, in the order of their ranges.
// partitions must be listed after the lease was found gone. The children start at the
// gone lease's durable position. They are free and not wanted. If the one child is the
// lease itself, same is true, and reads of the lease resume. It is an error if partitions
// do not cover the lease's range, because changes outside the children would be lost. The
// caller should retry then.
//
// The children have the names that the .NET library gives them, so that both create the
// same IDs:
//
//	gone      partitions over its range            children
//	PK-range  several, all inside                  PK-range lease of each
//	PK-range  one (merge, or split and merge)      EPK lease of the old range
//	PK-range  several, one reaches beyond          PK-range leases of those inside,
//	                                               EPK lease of the rest
//	EPK       several                              EPK leases, cut at the borders
//	EPK       one                                  the lease itself
//
// In the third row .NET creates a PK-range lease for the partition that reaches beyond.
// That lease would skip changes that the neighbour's lease has not delivered yet. So this
// function cuts it. Dialect [JavaHandleChanges] has no lease for a part of a partition.
// There the second and the third row are a [*DialectError], and no lease is created.
func Children(d lease.Dialect, gone lease.Lease, partitions []feed.Partition) (children []lease.Lease, same bool, err error) {
	if d == lease.JavaHandleChanges && wasMerged(gone, partitions) {
		return nil, false, &lease.DialectError{
			Found:  fmt.Sprintf("the partition of lease %s was merged with another, and %s supports only whole partitions", gone.Token, d),
			Remedy: mergedRemedy,
		}
	}
	if gone.Range.IsZero() {
		return nil, false, fmt.Errorf("split lease %s: its document has no range, and its range cannot be derived", gone.Token)
	}
	over, at := partitionsOver(gone.Range, partitions)
	if at != gone.Range.Max {
		return nil, false, fmt.Errorf("split lease %s: the %d partitions over range %s do not cover it", gone.Token, len(over), gone.Range)
	}
	single := len(over) == 1
	if single && (gone.PartitionID == "" || gone.PartitionID == over[0].ID) {
		return []lease.Lease{gone}, true, nil
	}
	for _, p := range over {
		child := lease.ForRange(p.Range.Intersect(gone.Range))
		if gone.PartitionID != "" && !single && gone.Range.Contains(p.Range) {
			child = lease.ForPartition(p)
		}
		children = append(children, gone.Child(child))
	}
	return children, false, nil
}

// mergedRemedy is the remedy in the error for a lease of JavaHandleChanges whose
// partition was merged.
const mergedRemedy = "its range is lost; process the container again from a time before its position, in the dialect \"dotnet\" or " +
	"\"java-latest-version\" and under another processor name; before merges, convert the leases (`changefeed leases convert`)"

// wasMerged reports whether the partition of a lease was merged with another. Then the
// partition that replaced it reaches beyond the lease's range, or has the same range and
// another ID. After a merge, the range of a lease without one can no longer be
// determined.
func wasMerged(gone lease.Lease, partitions []feed.Partition) bool {
	if !gone.Range.IsZero() {
		over, _ := partitionsOver(gone.Range, partitions)
		for _, p := range over {
			if !gone.Range.Contains(p.Range) || p.Range == gone.Range && p.ID != gone.PartitionID {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(partitions, func(p feed.Partition) bool { return slices.Contains(p.Parents, gone.PartitionID) })
}

// partitionsOver returns the partitions with keys in r, in the order of their ranges, and
// the key up to which they cover r.
func partitionsOver(r feed.Range, partitions []feed.Partition) (over []feed.Partition, at string) {
	return follow.Over(r, partitions, func(p feed.Partition) feed.Range { return p.Range })
}
