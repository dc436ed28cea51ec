package feed

import (
	"context"
	"time"
)

// Source is an engine's change feed. Its methods may be called concurrently.
type Source interface {
	// Identity tells which container this is.
	Identity(ctx context.Context) (Identity, error)

	// Partitions returns the live partitions, in the order of their ranges. It
	// always asks the engine and never answers from a cache. From the moment a
	// read is answered with *GoneError, it shows the partitions that replaced
	// the retired one.
	Partitions(ctx context.Context) ([]Partition, error)

	// Read returns one page of a range's feed. Its errors are *GoneError,
	// *ThrottledError, *HistoryLostError, ErrNotFound (the container is gone),
	// ErrUnsupported (wrapped; the text names what isn't supported), ctx's
	// error, or any other: a failure that the caller retries.
	Read(ctx context.Context, r Request) (Page, error)

	// CheckStart returns an error that wraps ErrUnsupported, and says why, if the feed
	// cannot be read from a start of that kind: Azure Cosmos DB cannot start at a time if
	// the account has several write regions. It reads no changes.
	CheckStart(ctx context.Context, from Start, mode Mode) error

	// SplitRange divides r, which is not empty, into n parts, n > 1, in order and without
	// gaps, evenly in the hashes of the keys. It returns an error if r cannot be divided
	// that far, and one that wraps ErrUnsupported if the source divides no ranges. Callers
	// use the function [SplitRange].
	SplitRange(ctx context.Context, r Range, n int) ([]Range, error)
}

// Identity names a container across all of its hosts. It names the leases, so it
// survives a failover, and differs when the container is deleted and made anew.
type Identity struct {
	// AccountHost is the host of the endpoint's URL as the user wrote it,
	// without port; "localhost" for the embedded store.
	AccountHost string
	// Database and Container are names, DatabaseRID and ContainerRID the
	// engine's own ids (_rid).
	Database, DatabaseRID   string
	Container, ContainerRID string
}

// Request asks for one page of the feed of a partition, or of a range of keys.
type Request struct {
	// Partition names the physical partition to read, by its ID; a retired one
	// is answered with *GoneError. Without an ID (an EPK lease) the source finds
	// the partition that holds Range, and answers *GoneError when more than one
	// does.
	Partition Partition
	// Range narrows the read inside the partition. The zero Range is all of it.
	Range Range
	// Key narrows the read to one logical partition key, or to a prefix of a
	// hierarchical one. With neither Partition.ID nor Range it also finds the
	// partition.
	Key PartitionKey
	// From is where to start.
	From Start
	// Mode is latest version or all versions and deletes.
	Mode Mode
	// MaxItems is a hint of how many changes to return; 0 means the source's
	// default, 100.
	MaxItems int
	// Wait is how long to hold a read that finds nothing new, at most. A source
	// that can't wait answers at once.
	Wait time.Duration
}
