package feed

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound is returned if the container of a read, or the document of a lease
	// write, does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnsupported is returned if the engine cannot do a request. The error that wraps
	// it names the request. A retry has no effect.
	ErrUnsupported = errors.New("not supported")
	// ErrMisconfigured is returned if the engine refuses every request until its
	// configuration changes: for a wrong key, an untrusted certificate, or a right that a
	// key lacks. The error that wraps it names the remedy. A processor stops if it gets
	// this error while it starts. Later it retries, because a key may be renewed.
	ErrMisconfigured = errors.New("misconfigured")
)

// GoneError reports that a split or a merge retired a partition, or that a range of keys
// lies in more than one partition. The caller lists the partitions again and reads the
// new ones.
type GoneError struct {
	// Partition is the ID of the retired partition. It is empty if the read named a
	// range.
	Partition string
	// Range is the range of the read.
	Range Range
}

func (e *GoneError) Error() string {
	if e.Partition != "" {
		return fmt.Sprintf("partition %s is gone: it was split or merged", e.Partition)
	}
	return fmt.Sprintf("range %s lies in more than one partition", e.Range)
}

// ThrottledError reports that the engine did not execute a request, because the request
// would have exceeded the provisioned throughput.
type ThrottledError struct {
	// RetryAfter is the time to wait before the next attempt.
	RetryAfter time.Duration
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("request rate is large: try again after %s", e.RetryAfter)
}

// HistoryLostError reports that the feed does not have the position of a read: it no
// longer reaches back to the position, or it ends before it, because an older copy of the
// data was restored. In the first case, the changes between the position and Oldest cannot
// be read any more. In the second, the changes between Oldest and the position are lost at
// the source, though their reader has got them.
type HistoryLostError struct {
	// Reason is the reason in words, for instance that the retention has passed.
	Reason string
	// Ended reports whether the feed ends before the position, as after a restore.
	// Otherwise it no longer reaches back to the position.
	Ended bool
	// Oldest is the oldest position from which the feed can still be read. After a restore
	// it is the end of what was restored, after which come all later changes. It is empty
	// if the engine does not report one.
	Oldest Continuation
}

func (e *HistoryLostError) Error() string {
	return "the change feed no longer holds this position: " + e.Reason
}
