package protocol

import "github.com/changefeed-go/changefeed/lease"

// IsAncestor reports whether l, from the same listing, is an ancestor of x: its range strictly
// contains x's, or it is a PK-range lease and x an EPK lease with the same range. While an
// ancestor exists, x is neither acquired nor run, because the ancestor's holder has not
// finished its split. A lease with an unknown range has no ancestors and is none.
func IsAncestor(l, x lease.Lease) bool {
	switch {
	case l.Range.IsZero() || x.Range.IsZero():
		return false
	case l.Range == x.Range:
		return l.PartitionID != "" && x.PartitionID == ""
	}
	return l.Range.Contains(x.Range)
}
