package feed

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound tells that what was addressed does not exist: the container
	// of a read, the document of a lease write.
	ErrNotFound = errors.New("not found")
	// ErrUnsupported tells that the engine can't do what was asked. It is
	// wrapped by an error that names it. To try again is of no use.
	ErrUnsupported = errors.New("not supported")
	// ErrMisconfigured reports that the engine will refuse every request until
	// somebody changes the configuration: a wrong key, a certificate that is not
	// trusted, a right that a key does not have. It is wrapped by an error that
	// names the remedy. A processor ends when it meets one at its start. Later,
	// when a key may be renewed, it retries.
	ErrMisconfigured = errors.New("misconfigured")
)

// GoneError tells that a partition was retired by a split or a merge, or that a
// range of keys lies in more than one partition. The caller asks for the
// partitions again and reads those.
type GoneError struct {
	// Partition is the ID of the retired partition; empty when Range was asked for.
	Partition string
	// Range is the range that was asked for.
	Range Range
}

func (e *GoneError) Error() string {
	if e.Partition != "" {
		return fmt.Sprintf("partition %s is gone: it was split or merged", e.Partition)
	}
	return fmt.Sprintf("range %s lies in more than one partition", e.Range)
}

// ThrottledError tells that the request was not carried out, because it would
// have exceeded the provisioned throughput.
type ThrottledError struct {
	// RetryAfter is how long to wait before the next attempt.
	RetryAfter time.Duration
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("request rate is large: try again after %s", e.RetryAfter)
}

// HistoryLostError tells that the feed no longer reaches back to the position
// that was asked for. Changes between it and Oldest can't be read any more.
type HistoryLostError struct {
	// Reason says why, in words: past the retention, for instance.
	Reason string
	// Oldest is the oldest position from which the feed can still be read;
	// empty when the engine doesn't say.
	Oldest Continuation
}

func (e *HistoryLostError) Error() string {
	return "the change feed no longer holds this position: " + e.Reason
}
