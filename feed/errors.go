package feed

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound is returned if the container to read, or the lease document to write, does
	// not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnsupported is returned if the engine cannot do what was requested, which the error
	// that wraps it names. A retry has no effect.
	ErrUnsupported = errors.New("not supported")
	// ErrMisconfigured is returned if the engine refuses every request until the
	// configuration changes: for a wrong key, an untrusted certificate, or a right that a
	// key lacks. The error that wraps it names the remedy. A processor that gets it while it
	// starts stops; later it retries, because a key may be renewed.
	ErrMisconfigured = errors.New("misconfigured")
)

// GoneError reports that a split or a merge retired a partition, or that a range of keys
// lies in more than one. List the partitions again and read the new ones, as a [Reader]
// does by itself.
type GoneError struct {
	// Partition is the retired ID, or empty if the read named a range.
	Partition string
	// Range is the range that was to be read.
	Range Range
}

func (e *GoneError) Error() string {
	if e.Partition != "" {
		return fmt.Sprintf("partition %s is gone: it was split or merged", e.Partition)
	}
	return fmt.Sprintf("range %s lies in more than one partition", e.Range)
}

// ThrottledError reports that the engine did not execute a request, because it would have
// exceeded the provisioned throughput. Repeat it after RetryAfter.
type ThrottledError struct {
	// RetryAfter is the time to wait before the next attempt.
	RetryAfter time.Duration
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("request rate is large: try again after %s", e.RetryAfter)
}

// HistoryLostError reports that a feed does not have the position to read from. Either it
// no longer reaches back so far, and the changes between the position and Oldest cannot
// be read any more. Or it ends before the position, because an older copy was restored;
// then the changes between Oldest and the position are lost at the source, but this
// reader has got them.
type HistoryLostError struct {
	// Reason says why, for instance that the retention has passed.
	Reason string
	// Ended reports whether the feed ends before the position, as after a restore.
	// Otherwise it no longer reaches back to the position.
	Ended bool
	// Oldest is the oldest position from which the feed can still be read, or empty if the
	// engine does not report one. After a restore, all later changes come after it, because
	// what was restored ends there.
	Oldest Continuation
}

func (e *HistoryLostError) Error() string {
	return "the change feed no longer holds this position: " + e.Reason
}
