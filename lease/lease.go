package lease

import (
	"maps"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Lease is one lease document: the right to read a range of the monitored container, and
// the position reached in it. It is a value; a [Store] takes and returns it.
type Lease struct {
	// ID is the document's id. Create ignores it; the Store makes it from its prefix and
	// Token.
	ID string
	// Token names the lease. It is the partition's ID, or "min-max" for an EPK lease.
	Token string
	// PartitionID is set on a PK-range lease, which is for one whole physical partition.
	// It is empty on an EPK lease, which is for a range of keys.
	PartitionID string
	// Range is the range of the lease's keys. It is zero if the document has none, as in
	// leases of old SDKs.
	Range feed.Range
	// Owner is the owner text of the host that holds the lease. It is empty if the lease
	// is free.
	Owner string
	// Continuation is the durable position. If it is empty, the lease starts from the
	// start in Properties, or else from the configured start.
	Continuation feed.Continuation
	// Mode is the change feed mode of the lease. A position of one mode is meaningless in
	// the other.
	Mode feed.Mode
	// Properties are kept as they were read. The protocol uses PropertyStart,
	// PropertyBound and PropertyWanted. A nil map is an empty one. The map is never
	// changed in place.
	Properties map[string]string
	// Timestamp is the caller's wall clock at its last write. Only other implementations
	// read it.
	Timestamp time.Time
	// Modified is the document's _ts. The store sets it, in whole seconds.
	Modified time.Time
	// ETag is the ETag of the last response.
	ETag string

	// document holds the parts of the lease document that have no field here. They are
	// written back unchanged.
	document document
}

// These are the keys of Properties that the protocol uses.
const (
	// PropertyStart is "beginning" or a time (RFC 3339, UTC, whole seconds). It is set on
	// leases created without a position.
	PropertyStart = "start"
	// PropertyBound is the time (RFC 3339, UTC, whole seconds) before which changes
	// are not delivered, because the source refuses it as a start.
	PropertyBound = "bound"
	// PropertyWanted is the owner text of the host that wants the lease.
	PropertyWanted = "wanted"
)

// Wanted returns the owner text of the host that wants the lease. It is empty if none
// did.
func (l Lease) Wanted() string { return l.Properties[PropertyWanted] }

// AncestorOf reports whether l, another document of the same listing, is an ancestor of
// x. It returns true if l's range strictly contains x's, or if l is a PK-range lease and
// x an EPK lease of the same range. While an ancestor exists, x is neither acquired nor
// run, because the ancestor's holder has not finished its split. A lease with an unknown
// range has no ancestors and is not an ancestor.
func (l Lease) AncestorOf(x Lease) bool {
	switch {
	case l.Range.IsZero() || x.Range.IsZero():
		return false
	case l.Range == x.Range:
		return l.PartitionID != "" && x.PartitionID == ""
	}
	return l.Range.Contains(x.Range)
}

// Child returns piece, a new lease, with the values that it inherits from l: the
// position, its start, the mode, and the properties except [PropertyWanted], because only l
// is wanted.
func (l Lease) Child(piece Lease) Lease {
	piece.Continuation = l.Continuation
	piece.Mode = l.Mode
	piece.Properties = maps.Clone(l.Properties)
	delete(piece.Properties, PropertyWanted)
	piece.document.state = l.document.state
	return piece
}

// ForPartition returns a new PK-range lease of a whole partition, without a position.
func ForPartition(p feed.Partition) Lease {
	return Lease{Token: p.ID, PartitionID: p.ID, Range: p.Range}
}

// ForRange returns a new EPK lease of a range of keys, without a position.
func ForRange(r feed.Range) Lease {
	return Lease{Token: r.String(), Range: r}
}
