package lease

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
)

// Key tells which leases of a lease container a processor uses.
type Key struct {
	// Processor is the processor's name (deployment unit). Processors of
	// different names share a lease container without seeing each other.
	Processor string
	// Identity is the monitored container's.
	Identity feed.Identity
	// Mode is the change feed mode of new leases.
	Mode feed.Mode
	// Start is the configured start, which [JavaLatestVersion] writes into each
	// document beside its first position.
	Start feed.Start
}

// Container is a lease container. Several processors may share one.
type Container interface {
	// Dialect returns the dialect of the lease documents.
	Dialect() Dialect
	// Open returns the leases of one processor. It returns a *DialectError if the container
	// cannot hold leases. A Store that is a [feed.Identifier] too is refused if it is in the
	// monitored container; one that is not is never compared with it.
	Open(ctx context.Context, k Key) (Store, error)
}

// Store holds the leases of one processor. Values go in and come out; every
// write is compare-and-set. Its methods may be called concurrently, and several
// hosts hold a Store of the same leases.
//
// The answer to a write is the lease as it is stored: what was given, with ID, a
// new ETag (that the document, or an earlier one of its id, never had) and
// Modified, which the store stamps. Properties, and whatever else a document
// has, are kept as they were found; a store of [JavaHandleChanges] adds
// [PropertyContainer] to every lease it writes. Where a document keeps no range, the answer
// to a write, and the document in a conflict, have that of the lease that was given.
// [Codec.New], [Codec.Stamped] and [Lease.Conflict] do that.
//
// Errors of the writes: *ConflictError when another document is there than the
// one expected, and here it is (an adapter whose service doesn't send the
// document reads it, and answers feed.ErrNotFound, or the read's error, when that
// fails); feed.ErrNotFound when there is none; *feed.ThrottledError when the write
// was refused and not applied. After any other error the outcome is unknown: the
// caller writes the same again with the same ETag and recognises its own earlier
// write in Current.
type Store interface {
	// List returns all leases in any order, and whether the store is initialised.
	List(ctx context.Context) (Listing, error)
	// Mark makes the marker (.info) or removes it. That it is so already is fine,
	// and leaves the marker as it is, its time included.
	Mark(ctx context.Context, initialised bool) error
	// Create makes a lease document; *ConflictError if it exists. l's ID, ETag and
	// Modified don't matter: Token names the lease.
	Create(ctx context.Context, l Lease) (Lease, error)
	// Update replaces the document if its ETag still is l.ETag.
	Update(ctx context.Context, l Lease) (Lease, error)
	// Delete deletes the document if its ETag still is l.ETag.
	Delete(ctx context.Context, l Lease) error
	// Charged returns the request units that the requests of this Store have cost since it
	// was opened. It never falls. It is zero in a store without request units.
	Charged() float64
}
