package lease

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
)

// Key identifies the leases of one processor in a lease container.
type Key struct {
	// Processor is the processor's name, its deployment unit. Processors with different
	// names share a lease container without seeing each other's leases.
	Processor string
	// Identity is the identity of the monitored container.
	Identity feed.Identity
	// Mode is the change feed mode of new leases.
	Mode feed.Mode
	// Start is the configured start. [JavaLatestVersion] writes it into each document
	// beside its first position.
	Start feed.Start
}

// Container is a lease container. Several processors may share one.
type Container interface {
	// Dialect returns the dialect of the lease documents.
	Dialect() Dialect
	// Open returns the leases of one processor. It returns a *DialectError if the
	// container cannot hold leases. A processor refuses a Store that is a
	// [feed.Identifier] if it is in the monitored container. It does not check other
	// Stores.
	Open(ctx context.Context, k Key) (Store, error)
}

// Store holds the leases of one processor. It takes and returns values, and every write
// is a compare-and-set. Its methods are safe for concurrent use. Several hosts may have a
// Store of the same leases.
//
// A write returns the lease as it is stored: the given lease with its ID, Modified and a
// new ETag. The store sets Modified. The ETag must never repeat for the same id, even
// after a delete. Properties and the other parts of the document are kept as they were
// read. A store of [JavaHandleChanges] adds [PropertyContainer] to every lease that it
// writes. If the document contains no range, the returned lease, or the lease of the
// conflict, has the range of the given lease. [Codec.New], [Codec.Stamped] and
// [Lease.Conflict] do that.
//
// A write returns these errors:
//
//   - *ConflictError if the stored document is not the expected one. The error contains
//     the stored document. If the service does not return it, the adapter reads it. If that
//     read fails, the write returns feed.ErrNotFound or the error of the read.
//   - feed.ErrNotFound if there is no document.
//   - *feed.ThrottledError if the write was refused and not applied.
//
// After any other error the result is unknown. The caller then repeats the same write
// with the same ETag, and recognises its own earlier write in the conflict's Current.
//
// A Store may have two more methods. OtherHosts(ctx) ([]string, error) returns the account
// hosts other than the key's under which the container has leases of the same processor and
// monitored container; see [Codec.OtherHosts]. A processor calls it at its start and warns.
// Charged() float64 returns the total charge of the Store's requests in request units, which
// never falls. Metrics and estimators report it.
type Store interface {
	// List returns all leases in any order, and whether the store is initialised.
	List(ctx context.Context) (Listing, error)
	// SetInitialized creates the marker (.info) or deletes it. If the marker is already in that
	// state, SetInitialized succeeds and changes nothing, not even the marker's time.
	SetInitialized(ctx context.Context, initialised bool) error
	// Create creates a lease document. It returns a *ConflictError if the document
	// exists. It ignores l's ID, ETag and Modified. Token names the lease.
	Create(ctx context.Context, l Lease) (Lease, error)
	// Update replaces the document if its ETag is still l.ETag.
	Update(ctx context.Context, l Lease) (Lease, error)
	// Delete deletes the document if its ETag is still l.ETag.
	Delete(ctx context.Context, l Lease) error
}
