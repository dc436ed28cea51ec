package lease

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
)

// Key identifies one processor's leases in a lease container.
type Key struct {
	// Processor is the processor's name, its deployment unit. Processors with different
	// names share a lease container without seeing each other's leases.
	Processor string
	// Identity identifies the monitored container.
	Identity feed.Identity
	// Mode is the change feed mode of new leases.
	Mode feed.Mode
	// Start is the configured start. [JavaLatestVersion] writes it into each document
	// beside its first position.
	Start feed.Start
}

// Container is a lease container, which several processors may share.
type Container interface {
	// Dialect returns the dialect of the lease documents.
	Dialect() Dialect
	// Open returns one processor's leases, or a *DialectError if the container cannot hold
	// leases. If the Store is a [feed.Identifier], the processor refuses it when it is in
	// the monitored container; without that, the check is not made.
	Open(ctx context.Context, k Key) (Store, error)
}

// Store holds one processor's leases. Because several hosts may have a Store with the
// same leases, every write is a compare-and-set. The methods take and return values and
// are safe for concurrent use.
//
// A write returns the lease as it is stored: the given lease with its ID, Modified and a
// new ETag. The store sets Modified. The ETag must never repeat for the same id, even
// after a delete. Properties and the other parts of the document are kept as they were
// read, but in the dialect [JavaHandleChanges] every write adds [PropertyContainer]. If
// the document contains no range, the returned lease, or the conflict's, has the given
// one's. [Codec.New], [Codec.Stamped] and [Lease.Conflict] do that.
//
// A write returns these errors:
//
//   - *ConflictError if the stored document is not the expected one. The error contains
//     the stored document. If the service does not return it, the adapter reads it. If that
//     read fails, the write returns feed.ErrNotFound or the error of the read.
//   - feed.ErrNotFound if there is no document.
//   - *feed.ThrottledError if the write was refused and not applied.
//
// After any other error nobody knows whether the write was applied. The caller then
// repeats it with the same ETag, and recognises its own earlier write in the conflict's
// Current.
//
// A Store may have two more methods. OtherHosts(ctx) ([]string, error) returns the account
// hosts other than the key's under which the container has leases of the same processor and
// monitored container; see [Codec.OtherHosts]. A processor calls it at its start and warns.
// Charged() float64 returns the total charge of the Store's requests in request units, which
// never falls. Metrics and estimators report it.
type Store interface {
	// List returns all leases in any order, and whether the store is initialised.
	List(ctx context.Context) (Listing, error)
	// SetInitialized creates the marker (.info) or deletes it. If that is already so, it
	// succeeds and changes nothing, not even the marker's time.
	SetInitialized(ctx context.Context, initialised bool) error
	// Create creates the document of the lease that l.Token names, and returns a
	// *ConflictError if it exists. l's ID, ETag and Modified are ignored.
	Create(ctx context.Context, l Lease) (Lease, error)
	// Update replaces the document if its ETag is still l.ETag.
	Update(ctx context.Context, l Lease) (Lease, error)
	// Delete deletes the document if its ETag is still l.ETag.
	Delete(ctx context.Context, l Lease) error
}
