package store

import "github.com/changefeed-go/changefeed/internal/engine"

// Limits of containers and documents.
const (
	// MaxPartitions is the largest number of physical partitions that a container can be
	// created with.
	MaxPartitions = engine.MaxPartitions
	// MaxDocumentSize is the size in bytes of the largest document. The system properties
	// that the store appends do not count.
	MaxDocumentSize = engine.MaxDocumentSize
)

// Sentinel errors. A missing item, container or database is feed.ErrNotFound.
var (
	// ErrConflict is returned if the item, container or database to create exists.
	ErrConflict = engine.ErrConflict
	// ErrPreconditionFailed is returned if IfMatch or IfNoneMatch does not hold.
	ErrPreconditionFailed = engine.ErrPreconditionFailed
	// ErrNotModified is returned by a read if the item still has the ETag of IfNoneMatch.
	ErrNotModified = engine.ErrNotModified
	// ErrClosed is returned after the store was closed.
	ErrClosed = engine.ErrClosed
	// ErrFull is returned if a container has used all of its 2^28 resource ids of
	// documents. Ids of deleted documents are not used again.
	ErrFull = engine.ErrFull
)

// BadRequestError reports that a request is not valid. Sending it again does not help.
// Its Kind.String() is the reason: "invalid document", "invalid id", "invalid partition
// key", "partition key mismatch", "invalid time to live", "invalid properties", "invalid
// continuation", "invalid batch" or "invalid range of keys". Its Detail describes the
// defect and its position.
type BadRequestError = engine.BadRequestError

// BatchError reports which operation of a batch failed. No operation of the batch was
// applied. Its Index is the operation's, from 0, and its Err the operation's error.
// Partition, End and Charge are as in [Result]. Partition is empty if the batch was
// refused before it reached a partition.
type BatchError = engine.BatchError

// TooLargeError reports that a request exceeds a limit. Its field What is "document",
// "partition key", "batch" or "extra properties". Its Size and Limit are in bytes. For a
// batch of too many operations they are numbers of operations.
type TooLargeError = engine.TooLargeError

// UniqueKeyError reports that two items of one logical partition have equal values in a
// unique key. It wraps [ErrConflict]. Container is the container's name, and Paths are
// the paths of the unique key. ID is the item that was written, and Other the item that
// has the values. In an error of [DB.Check] both items are stored.
type UniqueKeyError = engine.UniqueKeyError

// DiskError reports that the disk is full or fails, so that it refuses writes. Its Dir is
// the store's directory, and its Err the disk's error, for instance syscall.ENOSPC. Reads
// are served. The store retries and resumes writes when the disk accepts them. The write
// that returned the first DiskError may later prove to be stored. Later writes that
// return it are not stored.
type DiskError = engine.DiskError

// FormatError reports that another release wrote a directory, in a format that this one does
// not read. Its Dir is the directory. Its Found is the directory's format, and its Known the
// format that this release reads.
type FormatError = engine.FormatError

// LockedError reports that a process, perhaps this one, has a directory open. Its Dir is
// the directory. Its PID is the id of the process, or 0 if it is unknown.
type LockedError = engine.LockedError

// CorruptError reports that stored data differs from the data that was written. Either a
// file is damaged, or [DB.Check] found a broken invariant. Its Dir is the store's
// directory, empty in memory. Its Detail describes the damage. Its Err is the underlying
// error, or nil.
type CorruptError = engine.CorruptError
