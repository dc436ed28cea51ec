package changefeed

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Change is a change with documents decoded into T, as [Each] and [Batches] pass it on.
type Change[T any] struct {
	// Current is the item after the change. It is nil for a delete.
	Current *T
	// Previous is the item before the change. It is nil in latest version mode, and if the
	// engine does not keep it.
	Previous *T
	// Op is the operation, always feed.Upsert in latest version mode.
	Op feed.Op
	// ID is the id of the item that changed.
	ID string
	// LSN is the position of the transaction that made the change. Store it with your
	// results to recognise a redelivery.
	LSN int64
	// Time is when the item was written, in whole seconds.
	Time time.Time
	// Raw is the undecoded change, with both documents' JSON, a delete's partition key, and
	// whether the time to live made the change.
	Raw feed.Change
}

// DecodeError reports that a change could not be decoded. It comes inside a
// [HandlerError] and, like any handler's error, stops the lease at the batch until the
// handler returns nil. To skip documents that cannot be decoded, take raw batches instead
// ([HandlerFunc]).
type DecodeError struct {
	// ID is the item's ID, or empty if the change has no readable one.
	ID string
	// Change is the undecoded change.
	Change feed.Change
	// Err is the decoder's error.
	Err error
}

// Error returns the item's ID, the LSN and the error.
func (e *DecodeError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("cannot decode the change at LSN %d: %v", e.Change.LSN, e.Err)
	}
	return fmt.Sprintf("cannot decode item %q at LSN %d: %v", e.ID, e.Change.LSN, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// Each returns a [Handler] that calls handle with one change at a time, decoded by
// encoding/json. If handle returns an error or a change cannot be decoded
// ([DecodeError]), the whole batch is handled again from its first change. Errors and
// panics name the change's item. If ctx ends, the remaining changes are not handled.
func Each[T any](handle func(ctx context.Context, c Change[T]) error) Handler {
	return HandlerFunc(func(ctx context.Context, b *Batch) error {
		for i := range b.Changes {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			c, err := decode[T](b.Changes[i])
			if err != nil {
				return err
			}
			if err := handleOne(ctx, handle, c); err != nil {
				return fmt.Errorf("item %q at LSN %d: %w", c.ID, c.LSN, err)
			}
		}
		return nil
	})
}

// handleOne calls handle with c. If handle panics, handleOne adds the ID of c's item to
// the panic.
func handleOne[T any](ctx context.Context, handle func(context.Context, Change[T]) error, c Change[T]) error {
	defer namePanic(&c.Raw)
	return handle(ctx, c)
}

// namePanic is a deferred call. It recovers a panic and panics again with an error that
// contains the ID of the changed item. The stack still shows where the first panic began.
func namePanic(change *feed.Change) {
	v := recover()
	if v == nil {
		return
	}
	item := fmt.Sprintf("the change at LSN %d", change.LSN)
	if id, err := change.ID(); err == nil {
		item = fmt.Sprintf("item %q at LSN %d", id, change.LSN)
	}
	if cause, ok := v.(error); ok {
		panic(fmt.Errorf("%s: %w", item, cause))
	}
	panic(fmt.Errorf("%s: %v", item, v))
}

// Batches returns a [Handler] that calls handle once for each batch, with its changes
// decoded by encoding/json and the batch itself. Reach for it rather than [Each] when
// several changes are cheaper together, as in a bulk write, or to call
// [Batch.Checkpoint]. If a change cannot be decoded ([DecodeError]), handle is not
// called.
func Batches[T any](handle func(ctx context.Context, changes []Change[T], b *Batch) error) Handler {
	return HandlerFunc(func(ctx context.Context, b *Batch) error {
		changes := make([]Change[T], len(b.Changes))
		for i := range b.Changes {
			var err error
			if changes[i], err = decode[T](b.Changes[i]); err != nil {
				return err
			}
		}
		return handle(ctx, changes, b)
	})
}

// decode returns raw with its documents decoded into T. If an UnmarshalJSON method of T
// panics, decode adds the item's ID to the panic.
func decode[T any](raw feed.Change) (Change[T], error) {
	defer namePanic(&raw)
	c := Change[T]{Op: raw.Op, LSN: raw.LSN, Time: raw.Time, Raw: raw}
	id, err := raw.ID()
	if err != nil {
		return c, &DecodeError{Change: raw, Err: err}
	}
	c.ID = id
	if c.Current, err = decodeItem[T](raw.Current); err == nil {
		c.Previous, err = decodeItem[T](raw.Previous)
	}
	if err != nil {
		return c, &DecodeError{ID: id, Change: raw, Err: err}
	}
	return c, nil
}

// decodeItem returns the decoded item, or nil if item is empty.
func decodeItem[T any](item json.RawMessage) (*T, error) {
	if item == nil {
		return nil, nil
	}
	v := new(T)
	if err := json.Unmarshal(item, v); err != nil {
		return nil, err
	}
	return v, nil
}
