package lease

import "github.com/changefeed-go/changefeed/feed"

// Rangeless reports whether some lease has no range: old SDKs wrote none.
// [Listing.WithRanges] fills them in, before the listing is judged.
func (l Listing) Rangeless() bool {
	for i := range l.Leases {
		if l.Leases[i].Range.IsZero() {
			return true
		}
	}
	return false
}

// WithRanges is l with the ranges of rangeless leases filled in from fresh
// partitions. A lease whose range can't be known stays without; it counts as
// covering everything when gaps are looked for.
func (l Listing) WithRanges(partitions []feed.Partition) Listing { panic("to do") }
