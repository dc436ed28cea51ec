package lease

import (
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
)

// Rangeless reports whether some lease has no range: old SDKs wrote none.
// [Listing.WithRanges] fills them in, before the listing is judged.
func (l Listing) Rangeless() bool {
	for i := range l.Leases {
		if l.Leases[i].Range.IsZero() {
			return true
		}
	}
	return slices.ContainsFunc(l.Unreadable, func(u Unreadable) bool { return u.Range.IsZero() })
}

// WithRanges is l with the ranges of rangeless leases filled in from fresh
// partitions: the range of the partition of that id or, when it was split
// meanwhile, of its descendants together. The range gets into the document with
// the next write. A lease whose range can't be known stays without; it counts as
// covering everything when gaps are looked for.
func (l Listing) WithRanges(partitions []feed.Partition) Listing {
	live := make(map[string]feed.Range, len(partitions)) // most are; few have to be looked for
	for _, p := range partitions {
		live[p.ID] = p.Range
	}
	l.Leases = slices.Clone(l.Leases)
	for i := range l.Leases {
		lease := &l.Leases[i]
		if !lease.Range.IsZero() || lease.PartitionID == "" {
			continue
		}
		if r, ok := live[lease.PartitionID]; ok {
			lease.Range = r
		} else if r, ok := rangeOf(lease.PartitionID, partitions); ok {
			lease.Range = r
		}
	}
	l.Unreadable = slices.Clone(l.Unreadable)
	for i := range l.Unreadable {
		u := &l.Unreadable[i]
		if r, ok := rangeOf(u.Token, partitions); ok && u.Range.IsZero() {
			u.Range = r
		}
	}
	return l
}

// rangeOf finds the range of a partition, live or retired. That of a retired one
// is what its descendants cover, provided that none of them came out of a merge:
// it would reach beyond.
func rangeOf(id string, partitions []feed.Partition) (feed.Range, bool) {
	var heirs []feed.Partition
	for _, p := range partitions {
		if p.ID == id {
			return p.Range, true
		}
		if slices.Contains(p.Parents, id) {
			heirs = append(heirs, p)
		}
	}
	if len(heirs) == 0 || merged(heirs, partitions) {
		return feed.Range{}, false
	}
	slices.SortFunc(heirs, func(a, b feed.Partition) int { return strings.Compare(a.Range.Min, b.Range.Min) })
	hull := heirs[0].Range
	for _, p := range heirs[1:] {
		if p.Range.Min != hull.Max {
			return feed.Range{}, false
		}
		hull.Max = p.Range.Max
	}
	return hull, true
}

// merged reports whether a merge may have happened among the ancestors of heirs.
// Where there were only splits, every retired partition has two or more living
// descendants, and no two have the same ones. A merge breaks one or the other:
// its parents and its result have the same descendants, or a parent has only one.
func merged(heirs, partitions []feed.Partition) bool {
	descendants := map[string][]string{} // of each retired partition
	for _, p := range partitions {
		for _, parent := range p.Parents {
			descendants[parent] = append(descendants[parent], p.ID)
		}
	}
	whose := map[string]string{} // descendants to the partition that has them
	for _, heir := range heirs {
		for _, parent := range heir.Parents {
			living := descendants[parent]
			text := strings.Join(living, " ")
			if other, ok := whose[text]; ok && other != parent || len(living) < 2 {
				return true
			}
			whose[text] = parent
		}
	}
	return false
}
