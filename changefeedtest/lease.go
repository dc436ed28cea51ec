package changefeedtest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/hook"
	"github.com/changefeed-go/changefeed/lease"
)

// Lease is a lease without a processor, for unit tests of a handler. It makes batches
// from a test's documents and records what the handler checkpoints. Reach for [Simulate]
// when crashes, redeliveries and several hosts matter. A Lease is safe for concurrent
// use.
type Lease struct {
	t   testing.TB
	ctx context.Context //nolint:containedctx // it is the context of handlers, which ends when the lease is lost
	end context.CancelCauseFunc

	mu    sync.Mutex // guards the fields below
	lsn   int64      // of the last change
	until int64      // the LSN of the last checkpoint
	lost  bool
}

// NewLease returns a lease that is held until the test ends or calls [Lease.Lose].
func NewLease(t testing.TB) *Lease {
	l := &Lease{t: t}
	l.ctx, l.end = context.WithCancelCause(t.Context())
	t.Cleanup(func() { l.end(nil) })
	return l
}

// Batch returns a batch with a change for each document, in this order. A document is a
// [feed.Change], JSON as a [json.RawMessage] or []byte, or a value that is encoded as
// JSON. A change without LSN and time gets the next LSN and the present time. If a
// document cannot be encoded, the test ends.
func (l *Lease) Batch(documents ...any) *changefeed.Batch {
	l.t.Helper()
	b := &changefeed.Batch{LeaseToken: "0", Range: feed.Full(), Attempt: 1}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range documents {
		c, is := d.(feed.Change)
		if !is {
			body, err := encoded(d)
			if err != nil {
				l.t.Fatalf("the document %v cannot be encoded: %v", d, err)
			}
			c = feed.Change{Op: feed.Upsert, Current: body}
		}
		if c.LSN == 0 {
			c.LSN = l.lsn + 1
		}
		if c.Time.IsZero() {
			c.Time = time.Now().UTC().Truncate(time.Second)
		}
		l.lsn = c.LSN
		b.Changes = append(b.Changes, c)
	}
	lsn := l.lsn
	hook.SetCheckpoint(b, func(ctx context.Context) error { return l.checkpoint(ctx, lsn) })
	return b
}

func encoded(document any) (json.RawMessage, error) {
	switch d := document.(type) {
	case json.RawMessage:
		return d, nil
	case []byte:
		return d, nil
	}
	return json.Marshal(document)
}

// Handle calls the handler with the documents as a batch (see [Lease.Batch]) and returns
// what the handler returns. Its context ends when the lease is lost, and a panic is not
// recovered. As with manual checkpoints, the position moves only if the handler
// checkpoints.
func (l *Lease) Handle(h changefeed.Handler, documents ...any) error {
	l.t.Helper()
	return h.Handle(l.ctx, l.Batch(documents...))
}

// checkpoint moves the position to lsn.
func (l *Lease) checkpoint(ctx context.Context, lsn int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost:
		return lease.ErrLost
	case ctx.Err() != nil:
		return ctx.Err()
	}
	l.until = max(l.until, lsn)
	return nil
}

// Position returns the last checkpointed change's LSN, or 0.
func (l *Lease) Position() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Lose takes the lease away, as if another host owned it: the contexts of handlers end with
// the cause [lease.ErrLost], which later checkpoints return.
func (l *Lease) Lose() {
	l.mu.Lock()
	l.lost = true
	l.mu.Unlock()
	l.end(lease.ErrLost)
}
