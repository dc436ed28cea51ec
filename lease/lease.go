package lease

import (
	"maps"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Lease is one lease document: the right to read a range of the monitored container, and
// the position reached in it. Stores take and return it as a value.
type Lease struct {
	// ID is the document's id. Create ignores it; the Store makes it from its prefix and
	// Token.
	ID string
	// Token names the lease, by the partition's ID or, for an EPK lease, as "min-max".
	Token string
	// PartitionID is set on a PK-range lease, which is for one whole physical partition, and
	// empty on an EPK lease, which is for a range of keys.
	PartitionID string
	// Range holds the lease's keys. It is zero if the document has none, as old SDKs write
	// it.
	Range feed.Range
	// Owner is the owner text of the host that holds the lease, or empty if the lease is
	// free.
	Owner string
	// Continuation is the durable position. If empty, the lease starts from the start in
	// Properties, or else from the configured one.
	Continuation feed.Continuation
	// Mode is the lease's change feed mode. A position in one mode means nothing in the
	// other.
	Mode feed.Mode
	// Properties are kept as they were read. The protocol uses PropertyStart,
	// PropertyBound and PropertyWanted. A nil map is an empty one. The map is never
	// changed in place.
	Properties map[string]string
	// Timestamp is the wall clock of the host that wrote last. Only other implementations
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
	// PropertyStart is "beginning" or a time (RFC 3339, UTC, whole seconds), set on leases
	// created without a position.
	PropertyStart = "start"
	// PropertyBound is the time (RFC 3339, UTC, whole seconds) before which changes
	// are not delivered, because the source refuses it as a start.
	PropertyBound = "bound"
	// PropertyWanted is the owner text of the host that wants the lease.
	PropertyWanted = "wanted"
)

// Wanted returns the owner text of the host that wants the lease, or an empty text.
func (l Lease) Wanted() string { return l.Properties[PropertyWanted] }

// Child returns piece, a new lease, with what it inherits when it replaces l: the
// position, the start, the mode, and the properties except [PropertyWanted], because only
// l is wanted.
func (l Lease) Child(piece Lease) Lease {
	piece.Continuation = l.Continuation
	piece.Mode = l.Mode
	piece.Properties = maps.Clone(l.Properties)
	delete(piece.Properties, PropertyWanted)
	piece.document.state = l.document.state
	return piece
}

// ForPartition returns a new PK-range lease for a whole partition, without a position.
func ForPartition(p feed.Partition) Lease {
	return Lease{Token: p.ID, PartitionID: p.ID, Range: p.Range}
}

// ForRange returns a new EPK lease for a range of keys, without a position.
func ForRange(r feed.Range) Lease {
	return Lease{Token: r.String(), Range: r}
}
