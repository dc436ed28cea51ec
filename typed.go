package changefeed

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Change is a change whose documents are decoded into T.
type Change[T any] struct {
	// Current is the item after the change; nil for a delete.
	Current *T
	// Previous is the item before the change, where the engine keeps it (all
	// versions and deletes mode only); nil otherwise.
	Previous *T
	// Op is what happened; feed.Upsert in latest version mode.
	Op feed.Op
	// ID is the id of the item.
	ID string
	// LSN is the position of the transaction that made the change. Kept beside
	// what a handler derives from the change, it tells a redelivery.
	LSN int64
	// Time is the time of the write, in whole seconds.
	Time time.Time
	// Raw is the change as it came: the JSON of both documents, the partition key
	// of a delete, and whether the time to live made it.
	Raw feed.Change
}

// DecodeError tells that a change could not be decoded. It reaches the user inside
// a [HandlerError]. Like any error of a handler it stops its lease at the batch
// until the handler returns nil; a handler that is to go on past a document that
// it can't decode takes the batch raw.
type DecodeError struct {
	// ID is the item's id, empty when the change has none that can be read.
	ID string
	// Change is the change as it came, with the raw bytes.
	Change feed.Change
	// Err is what the decoder said.
	Err error
}

// Error names the item.
func (e *DecodeError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("decode the change at LSN %d: %v", e.Change.LSN, e.Err)
	}
	return fmt.Sprintf("decode item %q at LSN %d: %v", e.ID, e.Change.LSN, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// Each makes a [Handler] of a function that gets one change at a time, decoded
// with encoding/json. When it returns an error, or a change can't be decoded
// ([DecodeError]), the whole batch is handled again, from its first change on. The
// error of a change names its item, that of a panic too.
// When ctx ends, the changes that are left are not handled.
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

// handleOne calls handle, and adds the item to a panic of it.
func handleOne[T any](ctx context.Context, handle func(context.Context, Change[T]) error, c Change[T]) error {
	defer namePanic(&c.Raw)
	return handle(ctx, c)
}

// namePanic must be deferred. It continues a panic with an error that names the item
// of a change. The stack still shows where the panic began.
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

// Batches makes a [Handler] of a function that gets all changes of a batch,
// decoded with encoding/json, and the batch itself. When a change can't be decoded
// ([DecodeError]) the function isn't called.
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

// decode decodes one change. T may have an UnmarshalJSON that panics.
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

// decodeItem decodes an item; nil when there is none.
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
