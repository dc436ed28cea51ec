package changefeed

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Handler handles the changes of a batch. If it returns an error, panics, or calls
// [runtime.Goexit] (as t.FailNow does), the batch was not handled. Then the handler gets
// the same changes again after a delay ([Config.Failure]), until it returns nil. Two errors
// mean something else: a [BatchError] names the changes that failed, and only these are
// delivered again; after [Stop] the lease waits for an operator.
//
// Handle is called concurrently for several leases, and one call at a time for each
// lease. ctx ends with cause [lease.ErrLost] when the host may no longer trust the lease.
// From then on another host may process the same changes. ctx also ends when the drain
// timeout of a stop is over, but not when the stop begins. It carries the values of Run's
// context.
type Handler interface {
	Handle(ctx context.Context, b *Batch) error
}

// HandlerFunc is a function that implements Handler.
type HandlerFunc func(ctx context.Context, b *Batch) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, b *Batch) error { return f(ctx, b) }

// Observer is a Handler of one lease that is also called when work on the lease begins
// and ends. Its methods are called one at a time.
type Observer interface {
	// Open is called before the first batch. If it returns an error, it is called again
	// after a delay, like a handler.
	Open(ctx context.Context, l lease.Lease) error
	Handler
	// Close is called once after the last batch, if Open returned nil. It is called
	// before the lease is released, so a checkpoint in it still counts. With the reasons
	// [Lost] and [Gone] it is too late for a checkpoint, which returns [lease.ErrLost].
	// An error is notified and has no other effect. Close is not called while a call of
	// Handle has not returned.
	Close(ctx context.Context, r Reason) error
}

// Batch holds the changes of one lease that the handler gets in one call: those of one page,
// or of several pages that have waited for the handler. A handler may keep it.
type Batch struct {
	// Changes are never empty, and must not be modified. Those of one partition key are in
	// LSN order, as in a [feed.Page].
	Changes []feed.Change
	// LeaseToken and Range identify the lease whose feed contains the changes.
	LeaseToken string
	Range      feed.Range
	// Mode is the mode of the processor.
	Mode feed.Mode
	// Attempt counts the deliveries of this batch by this host, from 1. It is greater if the
	// handler failed with the batch before. Then Changes are those that are not handled yet;
	// see [BatchError].
	Attempt int
	// Charge, SessionToken and Diagnostics describe the read that returned the changes;
	// see [feed.Page]. If there were several reads, Charge is their sum, and the others
	// describe the last one.
	Charge       float64
	SessionToken string
	Diagnostics  feed.Diagnostics

	checkpoint func(ctx context.Context) error
}

// Checkpoint writes the position after this batch to the lease and returns when it is
// stored. With manual checkpoints, only Checkpoint moves the position past delivered
// changes. It is safe for concurrent use. It may be called while the handler runs or
// later.
//
// If the position of a later batch is already stored, Checkpoint does nothing and returns
// nil. After the loss of the lease it returns [lease.ErrLost]. It also does so when the
// leases of the partitions that replace a split or merged one are being created, because
// they start at the stored position. If ctx ends first, Checkpoint returns the context's
// error, but the position may still be written.
//
// A batch that a test has made belongs to no lease. Then Checkpoint does nothing and returns
// the context's error, if there is one. Package changefeedtest makes batches that record it.
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
