package changefeed

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUsed is returned when [Processor.Run] is called again, because a Processor is
// single-use. So is an estimator's Run.
var ErrUsed = errors.New("changefeed: Run was called before")

// errDrained is the cause with which a handler's context ends when a stop's drain timeout
// is over.
var errDrained = errors.New("changefeed: drain timeout of the stop is over")

// errNotReturned and errInDoubt are the reasons for which a stop leaves a lease
// unreleased.
var (
	errNotReturned = errors.New("the call had not returned when the drain timeout was over")
	errInDoubt     = errors.New("the outcome of an earlier write is unknown")
)

// errDenied reports contradictory answers of the lease store. It answers "not found" to
// an update of a lease, but refuses to create the lease because it exists.
var errDenied = errors.New("the lease store answers that the lease does not exist, and refuses to create it because it does")

// errNoObserver reports that Config.Observer returned neither an observer nor an error.
var errNoObserver = errors.New("Config.Observer returned no observer")

// HandlerError is a failure in your code: the handler, or an observer's Open or Close,
// returned an error, panicked, or ended its goroutine by [runtime.Goexit]. The lease is
// kept, and the call is repeated after a delay, with those of the batch's changes that are not
// handled yet. Only Close is not repeated.
type HandlerError struct {
	// Op is the call that failed: "handle", "open", "close", "filter" or "history lost".
	Op string
	// Err is the returned error, or contains a panic's value (and wraps it, if it is an
	// error).
	Err error
	// Stack is where the call panicked or called runtime.Goexit, or nil if it returned an error.
	Stack []byte
	// FirstLSN and LastLSN are the batch's, or zero if the call had no batch.
	FirstLSN, LastLSN int64

	// partial reports whether a *BatchError says which changes failed. culprit is then the first
	// of those in failed that is not only ErrNotHandled, or -1. cause is the text of the error
	// of that change or of the whole batch, and permanent reports whether Permanent has marked
	// it.
	partial, permanent bool
	culprit            int
	cause              string
	// failed are the indexes of the changes that were not handled. problem says why a
	// *BatchError in Err does not count. stops reports whether Err stops the lease, and gap
	// whether it is ErrGap.
	failed  []int
	problem string
	stops   bool
	gap     bool
}

// Error returns the operation, the LSNs and the error, without the stack.
func (e *HandlerError) Error() string {
	lsns, problem := "", ""
	if e.FirstLSN != 0 {
		lsns = fmt.Sprintf(" LSN %d to %d", e.FirstLSN, e.LastLSN)
	}
	if e.problem != "" {
		problem = " (" + e.problem + ")"
	}
	return fmt.Sprintf("handler: %s%s: %v%s", e.Op, lsns, e.Err, problem)
}

// Unwrap returns Err.
func (e *HandlerError) Unwrap() error { return e.Err }

// SourceError says that a request to the monitored container failed. Err may be a
// feed.ThrottledError, a feed.HistoryLostError, feed.ErrNotFound and so on. The operation is
// retried in place, and the lease is kept.
type SourceError struct {
	// Op names the operation that failed, for messages.
	Op  string
	Err error
}

// Error returns the operation and the error.
func (e *SourceError) Error() string { return "source: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *SourceError) Unwrap() error { return e.Err }

// LeaseStoreError says that a request to the lease container failed. The operation is retried
// while the host may trust its lease.
type LeaseStoreError struct {
	// Op names the operation that failed, for messages.
	Op  string
	Err error
}

// Error returns the operation and the error.
func (e *LeaseStoreError) Error() string { return "lease store: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *LeaseStoreError) Unwrap() error { return e.Err }

// LettersError says that a request to the letters container failed. The operation is retried,
// and the changes that it concerns wait.
type LettersError struct {
	// Op names the operation that failed, for messages.
	Op  string
	Err error
}

// Error returns the operation and the error.
func (e *LettersError) Error() string { return "letters: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *LettersError) Unwrap() error { return e.Err }

// ConfigError is returned by [New] for a Config that cannot work, and by [Processor.Run]
// for one that contradicts the stored leases. Package estimator returns it for its own
// Config.
type ConfigError struct {
	// Field names a field in [Config], or one that contradicts another.
	Field string
	// Problem describes the problem and its remedy.
	Problem string
}

// Error returns the field and the problem.
func (e *ConfigError) Error() string { return "changefeed: Config." + e.Field + ": " + e.Problem }

// StillRunningError is returned by [Processor.Run] if handlers did not return in time.
// Since their leases were not released, other hosts must wait until they expire.
type StillRunningError struct {
	// LeaseTokens are the tokens of the leases whose handlers still run, sorted.
	LeaseTokens []string
	// Err is the error that ended the run, or nil if the context's end did.
	Err error
}

// Error returns the tokens of the leases, and Err if there is one.
func (e *StillRunningError) Error() string {
	text := "changefeed: handlers still run for the leases " + strings.Join(e.LeaseTokens, ", ")
	if e.Err != nil {
		text += ", after: " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *StillRunningError) Unwrap() error { return e.Err }
