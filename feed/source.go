package feed

import (
	"context"
	"time"
)

// Source is an engine's change feed. Its methods are safe for concurrent use.
type Source interface {
	// Identity returns the identity of the container.
	Identity(ctx context.Context) (Identity, error)

	// Partitions returns the live partitions in the order of their ranges. It always
	// sends a request to the engine and never returns a cached list. Once a read has
	// returned a *GoneError, Partitions returns the partitions that replaced the retired
	// one.
	Partitions(ctx context.Context) ([]Partition, error)

	// Read returns one page of a range's feed. It returns a *GoneError, a
	// *ThrottledError, a *HistoryLostError, or ErrNotFound if the container does not
	// exist. It returns an error that wraps ErrUnsupported and names the feature that the
	// engine lacks. It returns ctx's error if ctx has ended. The caller retries after any
	// other error.
	Read(ctx context.Context, r Request) (Page, error)

	// CheckStart returns an error that wraps ErrUnsupported, with the reason, if the feed
	// cannot be read from a start of that kind. For instance, Azure Cosmos DB cannot
	// start at a time if the account has several write regions. CheckStart reads no
	// changes.
	CheckStart(ctx context.Context, from Start, mode Mode) error

	// SplitRange divides r, which is not empty, into n > 1 parts, in order and without
	// gaps. The parts are equal in the hashes of the keys. It returns an error if r
	// cannot be divided into n parts. The error wraps ErrUnsupported if the source
	// cannot divide ranges. Callers use the function [SplitRange].
	SplitRange(ctx context.Context, r Range, n int) ([]Range, error)
}

// Identity identifies a container to all of its hosts. It is a part of the lease IDs, so
// it survives a failover. It changes when the container is deleted and recreated.
type Identity struct {
	// AccountHost is the host of the endpoint's URL as the user wrote it, without the
	// port. It is "localhost" for the embedded store.
	AccountHost string
	// Database and Container are names. DatabaseRID and ContainerRID are the engine's own
	// ids (_rid).
	Database, DatabaseRID   string
	Container, ContainerRID string
}

// Request is a request for one page of the feed of a partition, or of a range of keys.
type Request struct {
	// Partition is the physical partition to read, named by its ID. If the ID is retired,
	// Read returns a *GoneError. Without an ID, as for an EPK lease, the source finds the
	// partition that holds Range. Read returns a *GoneError if several partitions hold
	// it.
	Partition Partition
	// Range limits the read to a part of the partition. The zero Range means all of it.
	Range Range
	// Key limits the read to one logical partition key, or to a prefix of a hierarchical
	// key. With neither Partition.ID nor Range, the source finds the partition by Key.
	Key PartitionKey
	// From is the start of the read.
	From Start
	// Mode selects latest version, or all versions and deletes. If zero, it is latest
	// version.
	Mode Mode
	// MaxItems is a hint for the number of changes in the page. If zero, the source's
	// default of 100 is used.
	MaxItems int
	// Wait is the maximum time that the source waits for changes at the end of the feed.
	// A source that cannot wait returns at once.
	Wait time.Duration
}
