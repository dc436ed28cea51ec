package lease

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Lease is one lease document: the right to read a range of the monitored
// container, and the position reached in it. It is a value; a [Store] takes and
// returns it.
type Lease struct {
	// ID is the document's id, made by the Store from its prefix and Token.
	// Empty in Create.
	ID string
	// Token names the lease: the partition's ID, or "min-max" of an EPK lease.
	Token string
	// PartitionID is set on a PK-range lease (one whole physical partition) and
	// empty on an EPK lease (a range of keys, wherever it lies).
	PartitionID string
	// Range holds the lease's keys. It is zero when the document has none: leases
	// written by old SDKs.
	Range feed.Range
	// Owner is the owner text of the host that holds the lease; empty: free.
	Owner string
	// Continuation is the durable position. Empty: the start in Properties
	// ("start"), else the configured one.
	Continuation feed.Continuation
	// Mode is the change feed mode that the lease was made for.
	Mode feed.Mode
	// Properties are kept as found; the protocol uses PropertyStart, PropertyBound and
	// PropertyWanted.
	// A nil map is an empty one. The map is never changed in place.
	Properties map[string]string
	// Timestamp is the caller's wall clock at its last write, for other
	// implementations. This one never reads it.
	Timestamp time.Time
	// Modified is the document's _ts, stamped by the store, in whole seconds.
	Modified time.Time
	// ETag is that of the last answer.
	ETag string

	// document is what the document has besides, so that it is written back.
	document document
}

// The properties that the protocol uses.
const (
	// PropertyStart is "beginning" or a time (RFC 3339, UTC, whole seconds) on
	// leases created without a position.
	PropertyStart = "start"
	// PropertyBound is the time (RFC 3339, UTC, whole seconds) of [Lease.Bound].
	PropertyBound = "bound"
	// PropertyWanted is the owner text of the host that asks for the lease.
	PropertyWanted = "wanted"
)

// Free reports whether nobody owns the lease.
func (l Lease) Free() bool { return l.Owner == "" }

// Wanted is the owner text of the host that asked for the lease; empty: nobody.
func (l Lease) Wanted() string { return l.Properties[PropertyWanted] }

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
