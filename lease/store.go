package lease

import (
	"context"
	"time"

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
}

// Container is a lease container. Several processors may share one.
type Container interface {
	// Open checks that the container can hold leases and returns those of one
	// processor. *DialectError tells what to do when it can't.
	Open(ctx context.Context, k Key) (Store, error)
}

// Store holds the leases of one processor. Values go in and come out; every
// write is compare-and-set. Its methods may be called concurrently.
//
// Errors of the writes: *ConflictError when another document is there than the
// one expected, and here it is (an adapter whose service doesn't send the document reads it, and
// answers feed.ErrNotFound, or the read's error, when that fails);
// feed.ErrNotFound when there is none; *feed.ThrottledError when the write was
// refused and not applied. After any other error the outcome is unknown: the caller writes the
// same again with the same ETag and recognises its own earlier write in Current.
type Store interface {
	// List returns all leases, and whether the store is initialised.
	List(ctx context.Context) (Listing, error)
	// Mark makes the marker (.info) or removes it. That it is so already is fine.
	Mark(ctx context.Context, initialised bool) error
	// Create makes a lease document; *ConflictError if it exists. The result
	// carries ID, ETag and Modified, as that of Update does.
	Create(ctx context.Context, l Lease) (Lease, error)
	// Update replaces the document if its ETag still is l.ETag.
	Update(ctx context.Context, l Lease) (Lease, error)
	// Delete deletes the document if its ETag still is l.ETag.
	Delete(ctx context.Context, l Lease) error
}

// Listing is what a Store holds at one moment.
type Listing struct {
	Leases []Lease
	// Initialized is the marker's time (_ts); zero: there is no marker.
	Initialized time.Time
	// Now is the store's clock; zero: it has none.
	Now time.Time
}
