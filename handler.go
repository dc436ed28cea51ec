package changefeed

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Handler gets the changes. An error, or a panic, means that the batch was not
// handled: it gets the same batch again, after a pause, until it returns nil.
//
// It is called for several leases at the same time, and for one lease never
// before the last call returned. ctx ends with cause [lease.ErrLost] the moment the host
// may no longer trust the lease, and when the drain timeout of a stop is over.
type Handler interface {
	Handle(ctx context.Context, b *Batch) error
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(ctx context.Context, b *Batch) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, b *Batch) error { return f(ctx, b) }

// Observer is a Handler of one lease that is told when work on it begins and ends.
type Observer interface {
	// Open is called before the first batch; its error is retried like that of a handler.
	Open(ctx context.Context, l lease.Lease) error
	Handler
	// Close is called once after the last batch, if Open was.
	Close(ctx context.Context, r Reason) error
}

// Batch is one page of changes of one lease.
type Batch struct {
	// Changes are in LSN order; never empty.
	Changes []feed.Change
	// LeaseToken and Range name the lease.
	LeaseToken string
	Range      feed.Range
	Mode       feed.Mode
	// Charge, SessionToken and Diagnostics are the page's.
	Charge       float64
	SessionToken string
	Diagnostics  feed.Diagnostics

	checkpoint func(ctx context.Context) error
}

// Checkpoint makes the position behind this batch durable. With manual
// checkpoints it is the only way a position advances over delivered changes. An older Checkpoint
// after a newer one does nothing. After the loss of the lease it returns [lease.ErrLost].
func (b *Batch) Checkpoint(ctx context.Context) error { return b.checkpoint(ctx) }
