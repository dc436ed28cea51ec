package changefeed

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/letters"
)

// Failure configures what happens after the handler has failed. Without Letters the lease keeps
// its place meanwhile: the changes that failed are delivered again, and later ones wait. With
// Letters, only what Park says waits.
type Failure struct {
	// Delay is how long after its first failure a batch is delivered again. It doubles with
	// each further failure, up to MaxDelay, plus or minus 20 %. If a delivery handles
	// some of the changes, the delays begin anew. If zero, 1 s is used, or MaxDelay if that
	// is shorter.
	Delay time.Duration
	// MaxDelay bounds the delay before the 20 % are added. If zero, 30 s is used, or Delay
	// if that is longer. Only an error that wraps a [feed.ThrottledError] waits for longer,
	// namely as long as the service asks for.
	MaxDelay time.Duration
	// Attempts is how often a host delivers a change before it gives the change up and writes a
	// letter. If zero, only an error of [Permanent] and a [DecodeError] make a letter, at the
	// first attempt, and all other failures are repeated without end. Attempts needs Letters.
	//
	// A batch that fails with a plain error is first divided, until the change or transaction
	// that cannot be handled is found. Its attempts are counted from then on. A batch whose
	// handler returns a [BatchError] is divided by that.
	Attempts int
	// Letters is the container for dead letters: changes that were given up. A letter is
	// written before the position passes its change, and while the container is down, the
	// key waits and nothing is lost. It excludes manual checkpoints. With Letters, a batch has
	// changes of one partition key only, as with a [Config.Concurrency] above 1, so that one key
	// delays no other. [Config.Source] must be a [feed.KeyHasher].
	Letters letters.Container
	// Park says what happens to later changes of what a letter is about: by default, those of
	// the same partition key become letters, too.
	Park Park
	// Breaker says when so many letters are written that it means an outage.
	Breaker Breaker
}

// Park is what happens to the changes that come after one that was given up; see [Failure.Park].
type Park int

const (
	// ParkKey makes all later changes with the same partition key letters, in order, so that none
	// overtakes the one that failed. When that letter is redriven or dropped, they follow.
	ParkKey Park = iota
	// ParkItem does the same with later changes to the same item only. Reach for it if a key's
	// items do not build on each other.
	ParkItem
	// ParkNone lets later changes go on: the handler gets them, although it has not handled the
	// one before. Reach for it if changes do not build on each other, for instance because each
	// has its whole item.
	ParkNone
)

// String returns the name of the choice for messages.
func (p Park) String() string {
	switch p {
	case ParkKey:
		return "key"
	case ParkItem:
		return "item"
	case ParkNone:
		return "none"
	}
	return fmt.Sprintf("park %d", int(p))
}

// ErrNotHandled stands in a [BatchError] for a change that the handler did not get to, for
// instance because one before it failed. The change is delivered again, and this is no
// failure of its own.
var ErrNotHandled = errors.New("changefeed: the change was not handled, because an earlier one failed")

// BatchError is returned by a handler that knows which changes of a batch failed. All the
// others count as handled, so the next delivery holds the failed ones alone. A handler that
// returns any other error has failed with the whole batch.
//
// Changes with the same partition key should be handled in order. So a handler that goes on
// after a failure leaves later changes of that key out, and reports them as [ErrNotHandled].
//
// The error may be wrapped, as by fmt.Errorf with %w. But beside another error, as in
// errors.Join, it fails the whole batch, since the other error may concern all changes.
//
// After a crash, or when the lease moves to another host, the whole batch is delivered
// again, because a lease's position cannot lie within a batch.
type BatchError struct {
	// Errors has the error of each change that failed, by its index in Batch.Changes. A nil
	// error means that the change was handled, so a BatchError without errors means success.
	// An index that the batch does not have fails the whole batch.
	Errors map[int]error

	// of is the number of changes in the batch from which Each or Batches has made the
	// error, or 0. Their error says nothing about a batch of another size.
	of int
}

// failed returns the indexes of the changes that failed, in order.
func (e *BatchError) failed() []int {
	if e == nil { // a nil *BatchError in an error means what an empty one means
		return nil
	}
	failed := make([]int, 0, len(e.Errors))
	for i, err := range e.Errors {
		if err != nil {
			failed = append(failed, i)
		}
	}
	slices.Sort(failed)
	return failed
}

// failedChanges returns the indexes of the changes that were not handled when a handler got n
// changes and returned err. by is the *BatchError that says so, or nil if the whole batch has
// failed. problem says why a *BatchError in err does not count.
//
// It counts alone or wrapped in texts. It does not count in an error that wraps several,
// because the others may concern the whole batch, nor if an empty one is wrapped.
func failedChanges(err error, n int) (failed []int, by *BatchError, problem string) {
	for wrapped := false; err != nil; wrapped = true {
		switch x := err.(type) { //nolint:errorlint // it unwraps the error step by step
		case *BatchError:
			failed = x.failed()
			switch last := len(failed) - 1; {
			case last < 0 && !wrapped:
				return nil, x, ""
			case last >= 0 && (failed[0] < 0 || failed[last] >= n):
				problem = fmt.Sprintf("the batch has %d changes, and the BatchError has an index outside of it, so nothing counts as handled", n)
			case last >= 0 && x.of > 0 && x.of != n:
				problem = fmt.Sprintf("the BatchError is for a batch of %d changes, and this one has %d, so nothing counts as handled", x.of, n)
			case last >= 0:
				return failed, x, ""
			}
			err = nil
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		default:
			err = nil
		}
	}
	failed = make([]int, n)
	for i := range failed {
		failed[i] = i
	}
	return failed, nil, problem
}

// Error returns the number of changes that failed, and the error of the first one.
func (e *BatchError) Error() string {
	all := e.failed()
	failed := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return errors.Is(e.Errors[i], ErrNotHandled) })
	switch {
	case len(all) == 0:
		return "no change of the batch failed"
	case len(failed) == 0:
		return fmt.Sprintf("changes not handled: %d", len(all))
	case len(failed) == 1:
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
// what had failed is delivered again. The result has err's text, and errors.Is and
// errors.As find err. Stop returns nil if err is nil.
//
// The lease document records the stop, so it outlives a restart, a hand-over and a split.
// Hosts of .NET and Java do not know of it: if one acquires the lease, it goes on.
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return &stopError{err}
}

// Permanent marks err as an error that another attempt would not heal. If there is a container
// for letters ([Failure.Letters]), the change is given up at once and written there. Otherwise it
// is delivered again, as after any other error. errors.Is and errors.As find err, and its text
// remains. Permanent returns nil if err is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// permanentError is an error that Permanent has made.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// permanent reports whether another attempt would not heal err.
func permanent(err error) bool {
	_, marked := errors.AsType[*permanentError](err)
	_, undecodable := errors.AsType[*DecodeError](err)
	return marked || undecodable
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
