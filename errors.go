package changefeed

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUsed is returned by a second [Processor.Run]: a Processor is of single use.
var ErrUsed = errors.New("changefeed: Run was called before")

// errDrained is the cause of a handler's context that ended because the drain
// timeout of a stop was over.
var errDrained = errors.New("changefeed: the drain timeout of the stop is over")

// errNotReturned and errInDoubt are why a lease could not be released.
var (
	errNotReturned = errors.New("the call had not returned when the drain timeout was over")
	errInDoubt     = errors.New("the outcome of the write before it is unknown")
)

// errDenied is an answer "not found" to a write of a lease that exists.
var errDenied = errors.New("the lease store answers that the lease does not exist, and refuses to create it because it does")

// HandlerError is a failure of the user's code: the handler, or an observer's Open or
// Close, returned an error, panicked, or ended its goroutine by [runtime.Goexit]. The
// same call is made again, with the same batch, after a delay, and the lease is kept;
// only Close is not repeated.
type HandlerError struct {
	// Op is what was called: "handle", "open", "close", "filter" or "history lost".
	Op string
	// Err is what was returned. For a panic it contains the value, and wraps it if it is
	// an error.
	Err error
	// Stack is the stack of the panic or of the call of runtime.Goexit; else nil.
	Stack []byte
	// FirstLSN and LastLSN tell which batch it was; 0 when there was none.
	FirstLSN, LastLSN int64
}

// Error describes the failure, without the stack.
func (e *HandlerError) Error() string {
	if e.FirstLSN == 0 {
		return fmt.Sprintf("handler: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("handler: %s LSN %d to %d: %v", e.Op, e.FirstLSN, e.LastLSN, e.Err)
}

// Unwrap returns Err.
func (e *HandlerError) Unwrap() error { return e.Err }

// SourceError is a failure of the monitored container: Err says which one
// (feed.ThrottledError, feed.HistoryLostError, feed.ErrNotFound, ...). What
// failed is tried again, in place, and the lease is kept.
type SourceError struct {
	// Op is what was tried, for messages.
	Op  string
	Err error
}

// Error describes the failure.
func (e *SourceError) Error() string { return "source: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *SourceError) Unwrap() error { return e.Err }

// LeaseStoreError is a failure of the lease container. What failed is tried
// again as long as the host may trust its lease.
type LeaseStoreError struct {
	// Op is what was tried, for messages.
	Op  string
	Err error
}

// Error describes the failure.
func (e *LeaseStoreError) Error() string { return "lease store: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *LeaseStoreError) Unwrap() error { return e.Err }

// ConfigError is returned by [New] for a Config that can't work, and by
// [Processor.Run] when that shows only beside what is stored.
type ConfigError struct {
	// Field is the name of the field of [Config], or of the pair that doesn't go
	// together.
	Field string
	// Problem says what is wrong, and what would be right.
	Problem string
}

// Error names the field and the problem.
func (e *ConfigError) Error() string { return "changefeed: Config." + e.Field + ": " + e.Problem }

// StillRunningError is returned by [Processor.Run] when handlers had not
// returned in time. Their leases were not released; they expire.
type StillRunningError struct {
	// LeaseTokens name the leases, sorted.
	LeaseTokens []string
	// Err is what ended the run, when that was not its context; else nil.
	Err error
}

// Error names the leases.
func (e *StillRunningError) Error() string {
	text := "changefeed: handlers still run for the leases " + strings.Join(e.LeaseTokens, ", ")
	if e.Err != nil {
		text += ", after: " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *StillRunningError) Unwrap() error { return e.Err }
