package protocol

import (
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Rangeless reports whether a lease has no range, as in documents of old SDKs.
// [WithRanges] adds the ranges before the listing is used.
func Rangeless(l lease.Listing) bool {
	for i := range l.Leases {
		if l.Leases[i].Range.IsZero() {
			return true
		}
	}
	return slices.ContainsFunc(l.Unreadable, func(u lease.Unreadable) bool { return u.Range.IsZero() })
}

// WithRanges returns l with the ranges of its rangeless leases, from fresh partitions.
// It uses the range of the partition with that id. If the partition was split, it uses
// the range of its descendants. The next write stores it in the document. A lease whose
// range cannot be found stays without one. In a search for gaps it counts as covering
// everything.
func WithRanges(l lease.Listing, partitions []feed.Partition) lease.Listing {
	live := make(map[string]feed.Range, len(partitions)) // most leases need no search, because their partition is live
	for _, p := range partitions {
		live[p.ID] = p.Range
	}
	l.Leases = slices.Clone(l.Leases)
	for i := range l.Leases {
		rangeless := &l.Leases[i]
		if !rangeless.Range.IsZero() || rangeless.PartitionID == "" {
			continue
		}
		if r, ok := live[rangeless.PartitionID]; ok {
			rangeless.Range = r
		} else if r, ok := rangeOf(rangeless.PartitionID, partitions); ok {
			rangeless.Range = r
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

// rangeOf returns the range of a partition by its id. The partition may be live or
// retired. The range of a retired one is the union of the ranges of its live descendants.
// If a descendant came from a merge, that union is too large, and rangeOf returns false.
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

// merged reports whether one of the retired ancestors of heirs may have been merged. If
// there were only splits, every retired partition has at least two live descendants, and
// no two have the same ones. After a merge, a merged partition has only one live
// descendant, or the same ones as the merge's result.
func merged(heirs, partitions []feed.Partition) bool {
	descendants := map[string][]string{} // maps a retired partition to its live descendants
	for _, p := range partitions {
		for _, parent := range p.Parents {
			descendants[parent] = append(descendants[parent], p.ID)
		}
	}
	whose := map[string]string{} // maps a list of live descendants to the retired partition
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
