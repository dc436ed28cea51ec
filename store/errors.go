package store

import "github.com/changefeed-go/changefeed/internal/engine"

// Limits of containers and documents.
const (
	// MaxPartitions is the largest number of physical partitions of a new container.
	MaxPartitions = engine.MaxPartitions
	// MaxDocumentSize is the largest document, in bytes, without the system properties that
	// the store appends.
	MaxDocumentSize = engine.MaxDocumentSize
)

// Errors of identity. A missing item, container or database is feed.ErrNotFound.
var (
	// ErrConflict reports that the item, container or database to create exists.
	ErrConflict = engine.ErrConflict
	// ErrPreconditionFailed reports that IfMatch or IfNoneMatch did not hold.
	ErrPreconditionFailed = engine.ErrPreconditionFailed
	// ErrNotModified reports that the item still has the ETag of IfNoneMatch.
	ErrNotModified = engine.ErrNotModified
	// ErrClosed reports that the store was closed.
	ErrClosed = engine.ErrClosed
	// ErrFull reports that a container has used all of its 2^28 resource ids of documents,
	// those of deleted documents included.
	ErrFull = engine.ErrFull
)

// BadRequestError reports that a request is not valid as it is. Sending it again does not
// help. Its Kind.String() is the reason: "invalid document", "invalid id", "invalid partition
// key", "partition key mismatch", "invalid time to live", "invalid properties", "invalid
// continuation", "invalid batch" or "invalid range of keys". Its Detail describes the defect
// and its position.
type BadRequestError = engine.BadRequestError

// BatchError reports the operation of a batch that failed. Nothing of the batch was applied.
// Its Index is the operation's, from 0, and its Err the operation's error. Partition, End and
// Charge are as in [Result]. Partition is empty if the batch was refused before it reached a
// partition.
type BatchError = engine.BatchError

// TooLargeError reports that a request exceeds a limit. Its What is "document", "partition
// key", "batch" or "extra properties". Its Size and Limit are in bytes; for a batch of too
// many operations, in operations.
type TooLargeError = engine.TooLargeError

// UniqueKeyError reports that two items of one logical partition have equal values in a
// unique key. It wraps [ErrConflict]. Container is the container's name, and Paths are the
// paths of the unique key. ID is the item that was written, and Other the item that has the
// values. In an error of [DB.Check] both items are stored.
type UniqueKeyError = engine.UniqueKeyError

// DiskError reports that the disk refuses writes: it is full, or it fails. Its Dir is the
// store's directory, and its Err the disk's error, for instance syscall.ENOSPC. Reads are
// served. The store retries by itself and resumes writes when the disk accepts them. The
// write that returned the first error may prove to be done; later ones are not.
type DiskError = engine.DiskError

// FormatError reports that a newer release wrote a directory. Its Dir is the directory, Found
// its format, and Known the newest format that this release reads.
type FormatError = engine.FormatError

// LockedError reports that a directory is open in a process, perhaps this one. Its Dir is the
// directory. Its PID is the id of the process, or 0 if it is unknown.
type LockedError = engine.LockedError

// CorruptError reports that stored data differs from written data: a file is damaged, or
// [DB.Check] found an invariant broken. Its Dir is the store's directory, empty in memory.
// Its Detail describes the damage. Its Err is the underlying error, or nil.
type CorruptError = engine.CorruptError
