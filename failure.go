package changefeed

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Failure configures what happens after the handler has failed. The lease keeps its place
// meanwhile: the changes that failed are delivered again, and later ones wait.
type Failure struct {
	// Delay is the time from the first failure of a batch to its next delivery. It doubles
	// with each further failure, up to MaxDelay, plus or minus 20 %. If a delivery handles
	// some of the changes, the delays begin anew. If zero, 1 s is used.
	Delay time.Duration
	// MaxDelay is the longest delay between two deliveries. If zero, 30 s is used, or Delay
	// if that is longer.
	MaxDelay time.Duration
}

// ErrNotHandled stands in a [BatchError] for a change that the handler did not get to, for
// instance because one before it failed. The change is delivered again, and this is no
// failure of its own.
var ErrNotHandled = errors.New("changefeed: the change was not handled, because an earlier one failed")

// BatchError is returned by a handler that knows which changes of a batch failed. All the
// others count as handled, so the next delivery holds the failed ones alone. A handler that
// returns any other error has failed with the whole batch.
//
// The changes of one partition key should be handled in order. So a handler that goes on
// after a failure leaves later changes of that key out, and reports them as [ErrNotHandled].
//
// After a crash, or when the lease moves to another host, the whole batch is delivered
// again, because the position of a lease cannot lie within a batch.
type BatchError struct {
	// Errors has the error of each change that failed, by its index in Batch.Changes. A nil
	// error means that the change was handled, so a BatchError without errors means success.
	// An index that the batch does not have fails the whole batch.
	Errors map[int]error
}

// failed returns the indexes of the changes that failed, in order.
func (e *BatchError) failed() []int {
	failed := make([]int, 0, len(e.Errors))
	for i, err := range e.Errors {
		if err != nil {
			failed = append(failed, i)
		}
	}
	slices.Sort(failed)
	return failed
}

// Error returns the number of changes that failed, and the error of the first one.
func (e *BatchError) Error() string {
	failed := slices.DeleteFunc(e.failed(), func(i int) bool { return errors.Is(e.Errors[i], ErrNotHandled) })
	switch len(failed) {
	case 0:
		return "no change of the batch failed"
	case 1:
		return fmt.Sprintf("the change at index %d: %v", failed[0], e.Errors[failed[0]])
	}
	return fmt.Sprintf("%d changes failed, first the one at index %d: %v", len(failed), failed[0], e.Errors[failed[0]])
}

// Unwrap returns the errors of the changes, in the order of the batch.
func (e *BatchError) Unwrap() []error {
	var all []error
	for _, i := range e.failed() {
		all = append(all, e.Errors[i])
	}
	return all
}

// Stop marks err as an error after which the lease must not go on before somebody has acted.
// The handler is not called again. The lease keeps its position and its owner, and the host
// notifies [Stopped]. When an operator resumes the lease, with `changefeed leases resume`,
// what had failed is delivered again. The text of the error remains that of err, and
// errors.Is and errors.As find err. Stop returns nil if err is nil.
//
// The lease document records the stop, so it outlives a restart, a hand-over and a split.
// Hosts of .NET and Java do not know of it: if one acquires the lease, it goes on.
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return &stopError{err}
}

// stopError is an error that Stop has made.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

// stops reports whether Stop made err or an error in it.
func stops(err error) bool {
	_, is := errors.AsType[*stopError](err)
	return is
}
