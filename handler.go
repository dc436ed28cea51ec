package changefeed

import (
	"context"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Handler gets the changes. An error, a panic, or a call of [runtime.Goexit] (as in
// t.FailNow) means that the batch was not handled: the handler gets the same changes
// again, after a delay, until it returns nil.
//
// It is called for several leases at the same time, and for one lease never
// before the last call returned. ctx ends with cause [lease.ErrLost] the moment
// the host may no longer trust the lease: another host may work on the same
// changes from then on. It also ends when the drain timeout of a stop is over; it
// does not end when the stop begins. It carries the values of Run's context.
type Handler interface {
	Handle(ctx context.Context, b *Batch) error
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(ctx context.Context, b *Batch) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, b *Batch) error { return f(ctx, b) }

// Observer is a Handler of one lease that is told when work on it begins and
// ends. Its methods are called one at a time.
type Observer interface {
	// Open is called before the first batch; its error is retried like that of a
	// handler.
	Open(ctx context.Context, l lease.Lease) error
	Handler
	// Close is called once after the last batch, if Open returned nil, and before
	// the lease is released: a position made durable in it still counts. An error
	// is notified and changes nothing. It is not called while a call of Handle
	// never returns.
	Close(ctx context.Context, r Reason) error
}

// Batch is one page of changes of one lease. A handler may keep it.
type Batch struct {
	// Changes are in LSN order; never empty. They must not be written to.
	Changes []feed.Change
	// LeaseToken and Range name the lease.
	LeaseToken string
	Range      feed.Range
	// Mode is the processor's.
	Mode feed.Mode
	// Charge, SessionToken and Diagnostics are the page's.
	Charge       float64
	SessionToken string
	Diagnostics  feed.Diagnostics

	checkpoint func(ctx context.Context) error
}

// Checkpoint makes the position behind this batch durable, and returns when it
// is. With manual checkpoints it is the only way a position advances over
// delivered changes. It may be called from any goroutine, during the handler's
// call or after it. An older Checkpoint after a newer one does nothing and
// returns nil. After the loss of the lease it returns [lease.ErrLost]. When ctx
// ends first its error is returned, and the position is written nevertheless if
// that is still possible.
func (b *Batch) Checkpoint(ctx context.Context) error { return b.checkpoint(ctx) }

// plainObserver makes a Handler an Observer that needs not be told.
type plainObserver struct{ Handler }

func (plainObserver) Open(context.Context, lease.Lease) error { return nil }
func (plainObserver) Close(context.Context, Reason) error     { return nil }
