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
	// Current is the item after the change, or nil for a delete.
	Current *T
	// Previous is the item before the change, but nil in latest version mode, and if the engine
	// does not keep it.
	Previous *T
	// Op is the operation, always feed.Upsert in latest version mode.
	Op feed.Op
	// ID is the changed item's id.
	ID string
	// LSN is the position of the change's transaction. Store it with your
	// results to recognise a redelivery.
	LSN int64
	// Time is when the item was written, in whole seconds.
	Time time.Time
	// Raw is the undecoded change, with both documents' JSON, a delete's partition key, and
	// whether the time to live made the change.
	Raw feed.Change
}

// DecodeError reports that a change could not be decoded. A notification has it inside a
// [HandlerError] and, like any handler's error, it keeps the lease where it is until the
// handler returns nil. With [Failure.Letters], the change becomes a letter at once. To skip
// documents that cannot be decoded, take raw batches instead ([HandlerFunc]).
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

// HandlerOption is an option of [Each] and [Batches].
type HandlerOption func(*handlerOptions)

type handlerOptions struct {
	decode func(data []byte, v any) error
}

// DecodeWith makes a handler decode documents with decode instead of [json.Unmarshal]. Reach
// for it if decoding takes much of your handler's time, or if it must be stricter. decode is
// called concurrently, and must not write to data; v is a pointer. If decode is nil, the
// option has no effect.
func DecodeWith(decode func(data []byte, v any) error) HandlerOption {
	return func(o *handlerOptions) {
		if decode != nil {
			o.decode = decode
		}
	}
}

func optionsOf(options []HandlerOption) handlerOptions {
	o := handlerOptions{decode: json.Unmarshal}
	for _, set := range options {
		set(&o)
	}
	return o
}

// Each returns a [Handler] that calls handle with one change at a time, decoded by
// encoding/json or by what [DecodeWith] names. If handle returns an error or a change
// cannot be decoded ([DecodeError]), the handler returns a [BatchError]: the next delivery
// begins with that change, and those before it are not handled again. A panic counts as an
// error, but runtime.Goexit ends the call, so the whole batch is delivered again. Errors and
// panics name the change's item. If ctx ends, the remaining changes are not handled.
//
// If you wrap this handler in one that undoes a whole batch after an error, return
// an error that does not wrap this one's, because that says that some changes were handled.
func Each[T any](handle func(ctx context.Context, c Change[T]) error, options ...HandlerOption) Handler {
	o := optionsOf(options)
	return HandlerFunc(func(ctx context.Context, b *Batch) error {
		for i := range b.Changes {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := handleOne(ctx, o, handle, b.Changes[i]); err != nil {
				return failedAt(len(b.Changes), i, err)
			}
		}
		return nil
	})
}

// failedAt returns the error of a batch of n changes whose handler got as far as change i,
// which failed with err.
func failedAt(n, i int, err error) *BatchError {
	failed := map[int]error{i: err}
	for later := i + 1; later < n; later++ {
		failed[later] = ErrNotHandled
	}
	return &BatchError{Errors: failed, of: n}
}

// handleOne decodes raw and calls handle with it. The error names the item, also if handle
// panics.
func handleOne[T any](ctx context.Context, o handlerOptions, handle func(context.Context, Change[T]) error, raw feed.Change) (err error) {
	c, err := decode[T](o, raw)
	if err != nil {
		return err
	}
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", itemOf(&raw), err)
		}
	}()
	return handle(ctx, c)
}

// itemOf names the item of a change, for messages.
func itemOf(change *feed.Change) string {
	if id, err := change.ID(); err == nil {
		return fmt.Sprintf("item %q at LSN %d", id, change.LSN)
	}
	return fmt.Sprintf("the change at LSN %d", change.LSN)
}

// Batches returns a [Handler] that calls handle once for each batch, with its changes
// decoded by encoding/json or by what [DecodeWith] names, and the batch itself. Reach for
// it rather than [Each] when several changes are cheaper together, as in a bulk write, or to
// call [Batch.Checkpoint]. If changes cannot be decoded, handle is not called, and the
// handler returns a [BatchError] with a [DecodeError] for each of them.
func Batches[T any](handle func(ctx context.Context, changes []Change[T], b *Batch) error, options ...HandlerOption) Handler {
	o := optionsOf(options)
	return HandlerFunc(func(ctx context.Context, b *Batch) error {
		changes := make([]Change[T], len(b.Changes))
		var failed *BatchError
		for i := range b.Changes {
			var err error
			if changes[i], err = decode[T](o, b.Changes[i]); err != nil {
				if failed == nil {
					failed = failedAt(len(b.Changes), 0, ErrNotHandled)
				}
				failed.Errors[i] = err
			}
		}
		if failed != nil {
			return failed
		}
		return handle(ctx, changes, b)
	})
}

// decode returns raw with its documents decoded into T. A panic of the decoder, for
// instance in an UnmarshalJSON method of T, is an error like any other.
func decode[T any](o handlerOptions, raw feed.Change) (c Change[T], err error) {
	c = Change[T]{Op: raw.Op, LSN: raw.LSN, Time: raw.Time, Raw: raw}
	if c.ID, err = raw.ID(); err != nil {
		return c, &DecodeError{Change: raw, Err: err}
	}
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
		if err != nil {
			err = &DecodeError{ID: c.ID, Change: raw, Err: err}
		}
	}()
	if c.Current, err = decodeItem[T](o, raw.Current); err == nil {
		c.Previous, err = decodeItem[T](o, raw.Previous)
	}
	return c, err
}

// decodeItem returns the decoded item, or nil if item is empty.
func decodeItem[T any](o handlerOptions, item json.RawMessage) (*T, error) {
	if item == nil {
		return nil, nil
	}
	v := new(T)
	if err := o.decode(item, v); err != nil {
		return nil, err
	}
	return v, nil
}
