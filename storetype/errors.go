package storetype

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Sentinel errors. A missing item, container or database is feed.ErrNotFound.
var (
	// ErrConflict is returned if the item, container or database to create exists.
	ErrConflict = errors.New("already exists")
	// ErrPreconditionFailed is returned if IfMatch or IfNoneMatch does not hold.
	ErrPreconditionFailed = errors.New("precondition failed")
	// ErrNotModified is returned by a read if the item still has the ETag in IfNoneMatch.
	ErrNotModified = errors.New("not modified")
	// ErrClosed is returned after the store was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrFull is returned if a container has used all of its 2^28 document ids (_rid). Those
	// of deleted documents are not used again.
	ErrFull = errors.New("the container has no document ids (_rid) left")
)

// BadRequestKind is why a request is not valid.
type BadRequestKind int

// The kinds of [BadRequestError].
const (
	// BadBody means that the document is not a JSON object, is not UTF-8, is nested
	// deeper than 128 levels, or has a duplicate property.
	BadBody BadRequestKind = iota + 1
	// BadID means that the id is missing, not a string, empty, too long, or contains / \
	// ? or #.
	BadID
	// BadKey means that a partition key component is an object, an array, or a number
	// beyond the range of a float64.
	BadKey
	// KeyMismatch means that the given key differs from the document's, or has the wrong
	// number of components. The service reports it as status 400 with sub-status 1001.
	KeyMismatch
	// BadTTL means that a time to live is neither -1 nor between 1 and 2^31-1 seconds.
	BadTTL
	// BadProperties means that a database's or container's properties are not valid.
	BadProperties
	// BadContinuation means that this store did not write the continuation.
	BadContinuation
	// BadBatch means that the batch is empty, too long, or addresses several keys.
	BadBatch
	// BadRange means that the range of keys is not valid, or cannot be split or merged.
	BadRange
)

// String returns the kind's text in error messages.
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

// BadRequestError reports that a request is not valid, so that sending it again does not
// help.
type BadRequestError struct {
	Kind BadRequestKind
	// Detail says what is wrong, and where.
	Detail string

	// Err is the error that revealed the defect, or nil.
	Err error
}

func (e *BadRequestError) Error() string { return e.Kind.String() + ": " + e.Detail }

// Unwrap returns Err.
func (e *BadRequestError) Unwrap() error { return e.Err }

// TooLargeError reports that a request exceeds a limit.
type TooLargeError struct {
	// The field What is "document", "partition key", "batch" or "extra properties".
	What string
	// Size is the request's size and Limit the largest allowed one, in bytes, or in
	// operations for a batch with too many.
	Size, Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is too large: %d, at most %d", e.What, e.Size, e.Limit)
}

// UniqueKeyError reports that two items in one logical partition have the same values in
// one of their container's unique keys. It wraps [ErrConflict].
type UniqueKeyError struct {
	// Container is the container's name, and Paths are the unique key's.
	Container string
	Paths     []string
	// ID is the item that was written, and Other the item that has the values.
	// In an error of DB.Check both items are stored.
	ID, Other string
}

func (e *UniqueKeyError) Error() string {
	return fmt.Sprintf("unique index constraint violation: item %q of container %s has the values of item %q at %s",
		e.ID, e.Container, e.Other, strings.Join(e.Paths, ", "))
}

// Unwrap returns [ErrConflict].
func (e *UniqueKeyError) Unwrap() error { return ErrConflict }

// FormatError reports that another release wrote a directory, in a format that this one does
// not read.
type FormatError struct {
	// Dir is the store's directory.
	Dir string
	// Found is the directory's format, and Known the one that this release reads.
	Found, Known int
}

func (e *FormatError) Error() string {
	remedy := "use a newer release"
	if e.Found < e.Known {
		remedy = "copy its data with `changefeed replicate` from a server of the release that wrote it"
	}
	return fmt.Sprintf("open store %s: it has format %d, and this release reads format %d only; %s", e.Dir, e.Found, e.Known, remedy)
}

// LockedError reports that a process, perhaps this one, has the directory open.
type LockedError struct {
	// Dir is the store's directory.
	Dir string
	// PID is the process's id, or 0 if unknown.
	PID int
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("open store %s: it is in use by another process", e.Dir)
	}
	return fmt.Sprintf("open store %s: it is in use by process %d", e.Dir, e.PID)
}

// DiskError reports that the disk is full or fails, and refuses writes. Reads are still
// served, and the store retries until the disk accepts writes again. The write that
// returned the first DiskError may later prove to be stored; later ones that return it
// are not stored.
type DiskError struct {
	// Dir is the store's directory. It is empty in memory.
	Dir string
	// Err is the disk's error, for instance syscall.ENOSPC.
	Err error
}

func (e *DiskError) Error() string {
	if errors.Is(e.Err, syscall.ENOSPC) {
		return fmt.Sprintf("store %s: the disk is full: %v; make room, and writes resume by themselves", e.Dir, e.Err)
	}
	return fmt.Sprintf("store %s: the disk refuses writes: %v; reads are served, and writes resume when the disk accepts them", e.Dir, e.Err)
}

// Unwrap returns the disk's error.
func (e *DiskError) Unwrap() error { return e.Err }

// CorruptError reports that stored data differs from what was written: either a file is
// damaged, or DB.Check found a broken invariant.
type CorruptError struct {
	// Dir is the store's directory. It is empty in memory.
	Dir string
	// Detail describes the damage.
	Detail string
	// Err is the underlying error, or nil.
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

// Unwrap returns the underlying error.
func (e *CorruptError) Unwrap() error { return e.Err }
