package lease

// AncestorOf reports whether l, another document of the same listing, is an
// ancestor of x: its range strictly contains x's, or it is the PK-range lease of
// the same range and x is an EPK lease. While an ancestor exists, x is neither
// acquired nor run: the ancestor's holder has yet to finish its split. A lease
// whose range is unknown is nobody's ancestor and has none.
func (l Lease) AncestorOf(x Lease) bool {
	switch {
	case l.Range.IsZero() || x.Range.IsZero():
		return false
	case l.Range == x.Range:
		return l.PartitionID != "" && x.PartitionID == ""
	}
	return l.Range.Contains(x.Range)
}
