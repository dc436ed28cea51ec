package balance

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Children returns the leases that take over from a gone lease, given fresh
// partitions, each at the gone lease's durable position, free and without a mark,
// in the order of their ranges. same reports that the one child is the lease
// itself: read on. Partitions that don't cover the lease's range are an error, to
// be retried: what no child covered would be lost.
//
// The children are named as the .NET library names them, so that both create the
// same ids:
//
//	gone      partitions over its range            children
//	PK-range  several, all inside                  PK-range lease of each
//	PK-range  one (merge, or split and merge)      EPK lease of the old range
//	PK-range  several, one reaches beyond          PK-range leases of those inside, EPK lease of the rest
//	EPK       several                              EPK leases, cut at the borders
//	EPK       one                                  itself
//
// In the third row .NET gives the one that reaches beyond a PK-range lease. It
// would skip what the neighbour's lease had not delivered yet; so it is cut here.
// d has no lease for a part of a partition when it is [JavaHandleChanges]: there the
// second row and the third are a [*DialectError], and nothing is created.
func Children(d lease.Dialect, gone lease.Lease, partitions []feed.Partition) (children []lease.Lease, same bool, err error) {
	if d == lease.JavaHandleChanges && wasMerged(gone, partitions) {
		return nil, false, &lease.DialectError{
			Found:  fmt.Sprintf("the partition of lease %s was merged with another, and %s has leases for whole partitions alone", gone.Token, d),
			Remedy: mergedRemedy,
		}
	}
	if gone.Range.IsZero() {
		return nil, false, fmt.Errorf("split lease %s: its document has no range, and none can be derived", gone.Token)
	}
	over := overlapping(partitions, gone.Range)
	if !tiles(over, gone.Range) {
		return nil, false, fmt.Errorf("split lease %s: the %d partitions over range %s don't cover it", gone.Token, len(over), gone.Range)
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

// mergedRemedy is the way out when it is too late for that.
const mergedRemedy = "its range can't be told any more: process the container again from a time before its position, in the dialect \"dotnet\" or " +
	"\"java-latest-version\" and under another processor name; before merges, convert the leases (`changefeed leases convert`)"

// wasMerged reports whether what took a partition's place reaches beyond it, or is
// one partition of another id. The range of a lease that has none isn't known any
// more after a merge.
func wasMerged(gone lease.Lease, partitions []feed.Partition) bool {
	if !gone.Range.IsZero() {
		for _, p := range overlapping(partitions, gone.Range) {
			if !gone.Range.Contains(p.Range) || p.Range == gone.Range && p.ID != gone.PartitionID {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(partitions, func(p feed.Partition) bool { return slices.Contains(p.Parents, gone.PartitionID) })
}

// overlapping are the partitions with keys in r, in the order of their ranges.
func overlapping(partitions []feed.Partition, r feed.Range) []feed.Partition {
	var over []feed.Partition
	for _, p := range partitions {
		if p.Range.Overlaps(r) {
			over = append(over, p)
		}
	}
	slices.SortFunc(over, func(a, b feed.Partition) int { return cmp.Compare(a.Range.Min, b.Range.Min) })
	return over
}

// tiles reports whether sorted partitions cover r without gap and overlap.
func tiles(sorted []feed.Partition, r feed.Range) bool {
	if len(sorted) == 0 || sorted[0].Range.Min > r.Min || sorted[len(sorted)-1].Range.Max < r.Max {
		return false
	}
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Range.Min != sorted[i-1].Range.Max {
			return false
		}
	}
	return true
}
