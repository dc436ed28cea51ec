package feed

import (
	"context"
	"time"
)

// Source is an engine's change feed. Programs get one from their engine (store.DB.Source,
// for instance) and only pass it on; authors of engines implement it. Its methods are
// safe for concurrent use.
type Source interface {
	// Identity returns the container's identity.
	Identity(ctx context.Context) (Identity, error)

	// Partitions returns the live partitions in the order of their ranges. The list is never
	// a cached one, so that after a *GoneError it has the partitions that replaced the
	// retired one.
	Partitions(ctx context.Context) ([]Partition, error)

	// Read returns one page of a range's feed, or one of these errors: a *GoneError, a
	// *ThrottledError, a *HistoryLostError, ErrNotFound if the container does not exist, an
	// error that wraps ErrUnsupported and names the feature that the engine lacks, or ctx's
	// error if ctx has ended. The caller retries after any other error.
	Read(ctx context.Context, r Request) (Page, error)

	// CheckStart returns an error that wraps ErrUnsupported, with the reason, if the feed
	// cannot be read from such a start. For instance, Azure Cosmos DB cannot start at a time
	// if the account has several write regions. CheckStart reads no changes.
	CheckStart(ctx context.Context, from Start, mode Mode) error

	// SplitRange divides r, which is not empty, into n > 1 parts with equal shares of the
	// key hashes, in order and without gaps. It returns an error if r cannot be divided so
	// often, and one that wraps ErrUnsupported if the source cannot divide ranges at all.
	// Call the function [SplitRange] instead.
	SplitRange(ctx context.Context, r Range, n int) ([]Range, error)
}

// KeyHasher is a [Source] that also knows the hash of a partition key. A processor that writes
// dead letters needs it, so that the letters of a range of keys can be found.
type KeyHasher interface {
	// KeyHash returns the effective partition key of a whole key, in the form of a bound of a
	// [Range].
	KeyHash(ctx context.Context, key PartitionKey) (string, error)
}

// Identity identifies a container to all its hosts. Since the lease IDs contain it, it
// survives a failover, but it changes when the container is deleted and recreated.
type Identity struct {
	// AccountHost is the host in the endpoint's URL as the user wrote it, without the port.
	// It is "localhost" for the embedded store.
	AccountHost string
	// Database and Container are names. DatabaseRID and ContainerRID are the engine's own
	// ids (_rid).
	Database, DatabaseRID   string
	Container, ContainerRID string
	// KeyPaths are the container's partition key paths, such as /customer, or /tenant and
	// /user for a hierarchical key. A processor with several calls at a time finds the key of
	// a change by them. They are empty if the source does not know them.
	KeyPaths []string
}

// Request asks a [Source] for one page from a partition's feed, or from the feed that a
// range of keys has.
type Request struct {
	// Partition is the physical partition to read, named by its ID. Without an ID, as for an
	// EPK lease, the source finds the partition that holds Range. Read returns a *GoneError
	// if the ID is retired, or if Range lies in several partitions.
	Partition Partition
	// Range limits the read to a part of the partition. If zero, all of it is read.
	Range Range
	// Key limits the read to one logical partition key, or to a prefix of a hierarchical
	// key. With neither Partition.ID nor Range, the source finds the partition by Key.
	Key PartitionKey
	// From is where the read starts.
	From Start
	// Mode selects latest version (the zero value), or all versions and deletes.
	Mode Mode
	// MaxItems is a hint for how many changes the page should have. If zero, 100 is used.
	MaxItems int
	// Wait is how long the source may wait for changes at the end of the feed. One that
	// cannot wait returns at once.
	Wait time.Duration
}
