package changefeed

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Handler handles a batch of changes. If it returns an error, panics, or calls
// [runtime.Goexit] (as t.FailNow does), the batch was not handled, and the handler gets
// the same changes again after a delay (Config.Failure), until it returns nil. Two errors
// mean something else: a [BatchError] names the changes that failed, so that only these are
// delivered again, and after [Stop] the lease waits for an operator.
//
// Handle is called concurrently for several leases, but one call at a time for each lease, or
// with [Config.Concurrency] for each partition key. When the host may no longer trust the lease,
// so that another may process the same changes, ctx ends with cause [lease.ErrLost]. ctx also
// ends when a stop's drain timeout is over, but not when the stop begins. Its values are those of
// Run's context.
type Handler interface {
	Handle(ctx context.Context, b *Batch) error
}

// HandlerFunc is a function that implements Handler.
type HandlerFunc func(ctx context.Context, b *Batch) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, b *Batch) error { return f(ctx, b) }

// Observer is a [Handler] for one lease that is also called when work on the lease begins
// and ends. Reach for it when you keep something per lease, such as a file or a buffer to
// flush. Its methods are called one at a time.
type Observer interface {
	// Open is called before the first batch and, if it returns an error, again after a
	// delay, like a handler.
	Open(ctx context.Context, l lease.Lease) error
	Handler
	// Close is called once after the last batch, if Open returned nil, but never while a
	// call of Handle has not returned. Because it is called before the lease is released, a
	// checkpoint in it still counts, except with the reasons [Lost] and [Gone], when it
	// returns [lease.ErrLost]. An error is notified and has no other effect.
	Close(ctx context.Context, r Reason) error
}

// Batch holds the changes that the handler gets in one call, all from one lease: a page,
// or several pages that have waited for the handler. A handler may keep it.
type Batch struct {
	// Changes are never empty, and must not be modified. Those of one partition key are in
	// LSN order, as in a [feed.Page].
	Changes []feed.Change
	// LeaseToken and Range identify the lease whose feed contains the changes.
	LeaseToken string
	Range      feed.Range
	// Mode is the processor's mode.
	Mode feed.Mode
	// Attempt counts how often this host has delivered the batch, from 1. If it is greater,
	// the handler has failed with the batch before, and Changes are those that are not
	// handled yet; see [BatchError]. A batch that was divided because of [Failure.Attempts]
	// counts from 1 again.
	Attempt int
	// Charge, SessionToken and Diagnostics describe the read that returned the changes (see
	// [feed.Page]) or, if there were several, the last one, with Charge for all. If a page is
	// delivered in several batches, the first one has its charge.
	Charge       float64
	SessionToken string
	Diagnostics  feed.Diagnostics

	checkpoint func(ctx context.Context) error
}

// Checkpoint writes the position after this batch to the lease and returns when it is
// stored. Call it if checkpoints are manual, because then nothing else moves the position
// past delivered changes. Any goroutine may call it, while the handler runs and later.
//
// If a later batch's position is already stored, Checkpoint does nothing and returns nil.
// With [Config.Concurrency] above 1, Checkpoint acknowledges its own batch's changes, and returns
// when the position covers them. If an earlier batch has failed and waits for its retry,
// it returns [ErrGap] at once. Checkpoint every batch then, since one that never is holds the
// position.
//
// Once the lease is lost, it returns [lease.ErrLost], and also once the leases that
// replace it after a split or merge are being created, because they start at the stored
// position. If ctx ends first, Checkpoint returns the context's error, but the position
// may still be written.
//
// A batch that a test has made belongs to no lease, so Checkpoint does nothing and
// returns the context's error, if there is one. Package changefeedtest makes batches that
// record it.
func (b *Batch) Checkpoint(ctx context.Context) error {
	if b.checkpoint == nil {
		return ctx.Err()
	}
	return b.checkpoint(ctx)
}

// plainObserver makes an Observer of a Handler. Its Open and Close do nothing.
type plainObserver struct{ Handler }

func (plainObserver) Open(context.Context, lease.Lease) error { return nil }
func (plainObserver) Close(context.Context, Reason) error     { return nil }
