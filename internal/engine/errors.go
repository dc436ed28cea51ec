package engine

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
)

// Errors of identity. What was addressed and isn't there is feed.ErrNotFound.
var (
	// ErrConflict tells that a create found something of the same id: an item in
	// the same logical partition, a container, a database.
	ErrConflict = errors.New("already exists")
	// ErrPreconditionFailed tells that If-Match named another version of the
	// item than the one that is there, or If-None-Match the one that is.
	ErrPreconditionFailed = errors.New("precondition failed")
	// ErrNotModified is the answer to a read whose If-None-Match names the
	// version that is there.
	ErrNotModified = errors.New("not modified")
	// ErrClosed tells that the store was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrFull tells that a container has given out all of its document rids:
	// 2^28, deleted documents included.
	ErrFull = errors.New("the container has no document ids (_rid) left")
)

// BadRequestKind tells why a request was refused.
type BadRequestKind int

// The kinds of [BadRequestError].
const (
	// BadBody: the document is no JSON object, not UTF-8, nested deeper than
	// [MaxDepth], or says the same thing twice.
	BadBody BadRequestKind = iota + 1
	// BadID: the id is missing, no string, empty, too long, or holds one of / \ ? #.
	BadID
	// BadKey: a partition key component is an object, an array, or a number
	// beyond the range of a float64.
	BadKey
	// KeyMismatch: the key that was given isn't the one in the document, or has
	// the wrong number of components (status 400, sub-status 1001).
	KeyMismatch
	// BadTTL: a time to live that is neither -1 nor between 1 and 2^31-1 seconds.
	BadTTL
	// BadProperties: the properties of a database or container are wrong.
	BadProperties
	// BadContinuation: a continuation that this store didn't write.
	BadContinuation
	// BadBatch: a batch that is empty, too long, or addresses several keys.
	BadBatch
	// BadRange: a range of keys that isn't one, or can't be split or merged so.
	BadRange
)

// String names the kind for messages.
func (k BadRequestKind) String() string {
	switch k {
	case BadBody:
		return "invalid document"
	case BadID:
		return "invalid id"
	case BadKey:
		return "invalid partition key"
	case KeyMismatch:
		return "partition key mismatch"
	case BadTTL:
		return "invalid time to live"
	case BadProperties:
		return "invalid properties"
	case BadContinuation:
		return "invalid continuation"
	case BadBatch:
		return "invalid batch"
	case BadRange:
		return "invalid range of keys"
	}
	return "bad request"
}

// BadRequestError tells that a request can't be carried out as it is; to send
// it again is of no use.
type BadRequestError struct {
	Kind BadRequestKind
	// Detail says what is wrong, and where, in words.
	Detail string
}

func (e *BadRequestError) Error() string { return e.Kind.String() + ": " + e.Detail }

func badRequest(kind BadRequestKind, format string, args ...any) error {
	return &BadRequestError{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// TooLargeError tells that something exceeds a limit of the store.
type TooLargeError struct {
	// What is "document", "partition key", "batch" or "extra properties".
	What string
	// Size is what it has and Limit what it may have, in bytes; for a batch that
	// is too long, in operations.
	Size, Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is too large: %d, at most %d", e.What, e.Size, e.Limit)
}

// BatchError tells which operation of an atomic batch failed. Nothing of the
// batch was applied.
type BatchError struct {
	// Index is the place of the operation in the batch, from 0.
	Index int
	// Err is what the operation failed with: of an [OpChange] the very error that its function returned.
	Err error
	// Partition, End and Charge are as in [Result]; Partition is empty when the batch was refused
	// before it reached one.
	Partition string
	End       int64
	Charge    float64
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("operation %d of the batch: %v", e.Index, e.Err)
}

// Unwrap returns the operation's error.
func (e *BatchError) Unwrap() error { return e.Err }

// FormatError tells that a directory was written by a newer release than this one.
type FormatError struct {
	// Dir is the store's directory.
	Dir string
	// Found is the format of the directory, and Known the newest one that this
	// release reads.
	Found, Known int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("open store %s: it has format %d, and this release knows formats up to %d: use a newer release",
		e.Dir, e.Found, e.Known)
}

// LockedError tells that a directory is open in a process, perhaps this one.
type LockedError struct {
	// Dir is the store's directory.
	Dir string
	// PID is the id of the process that has it open; 0 when it can't be told.
	PID int
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("open store %s: it is in use by another process", e.Dir)
	}
	return fmt.Sprintf("open store %s: it is in use by process %d", e.Dir, e.PID)
}

// DiskError reports that the disk refuses writes: it is full, or it fails. Reads are not
// affected. The store tries the disk again by itself, and takes writes again when that
// succeeds. The write that returned the error may be found to be done; later ones, while the
// disk refuses, are not.
type DiskError struct {
	// Dir is the store's directory; empty in memory.
	Dir string
	// Err is the disk's error, for instance syscall.ENOSPC.
	Err error
}

func (e *DiskError) Error() string {
	if errors.Is(e.Err, syscall.ENOSPC) {
		return fmt.Sprintf("store %s: the disk is full: %v; make room, and writes resume", e.Dir, e.Err)
	}
	return fmt.Sprintf("store %s: the disk refuses writes: %v; reads are served, and writes resume when the disk accepts them", e.Dir, e.Err)
}

// Unwrap returns the disk's error.
func (e *DiskError) Unwrap() error { return e.Err }

// CorruptError tells that what is stored isn't what was written: a damaged file,
// or an invariant that [DB.Check] found broken.
type CorruptError struct {
	// Dir is the store's directory; empty in memory.
	Dir string
	// Detail says what is damaged.
	Detail string
	// Err is the error underneath, if there is one.
	Err error
}

func (e *CorruptError) Error() string {
	where := "store"
	if e.Dir != "" {
		where += " " + e.Dir
	}
	if e.Err != nil {
		return fmt.Sprintf("%s is damaged: %s: %v", where, e.Detail, e.Err)
	}
	return fmt.Sprintf("%s is damaged: %s", where, e.Detail)
}

// Unwrap returns the error underneath.
func (e *CorruptError) Unwrap() error { return e.Err }

// corrupt is the error of something stored that can't have been written so.
func corrupt(format string, args ...any) error {
	return &CorruptError{Detail: fmt.Sprintf(format, args...)}
}

// notFound wraps feed.ErrNotFound, with what wasn't there.
func notFound(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, feed.ErrNotFound)...)
}

// ignoreNotFound drops Pebble's answer for a key that isn't there.
func ignoreNotFound(err error) error {
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	return err
}

// fault is the error of an operation on the files: damage is told apart from
// trouble of the system underneath.
func (db *DB) fault(err error) error {
	if known, ok := errors.AsType[*CorruptError](err); ok {
		if known.Dir == "" {
			return &CorruptError{Dir: db.dir, Detail: known.Detail, Err: known.Err}
		}
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if pebble.IsCorruptionError(err) {
		return &CorruptError{Dir: db.dir, Detail: "a file was changed or cut off", Err: err}
	}
	return fmt.Errorf("store: %w", err)
}

// unixTime is a _ts as a time.
func unixTime(ts int64) time.Time { return time.Unix(ts, 0).UTC() }
