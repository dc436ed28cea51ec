package cosmos

import (
	"context"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/lease"
)

// SourceOptions configures how a container's feed is read. The zero value is good for
// most programs.
type SourceOptions struct {
	// Dialect is the dialect of the leases for which the feed is read. A processor refuses a
	// Source whose dialect isn't its lease container's.
	//
	// The dialect decides which capabilities a read announces, as that dialect's own hosts
	// do: .NET's announces that it can read merged partitions, JavaHandleChanges nothing,
	// and JavaLatestVersion also that a start at a time stays valid after a merge.
	Dialect lease.Dialect
	// SessionToken is a write's session token, or several partitions' tokens, separated by
	// commas. With session consistency, reads then return that write and all earlier ones.
	// If empty, a read returns at least what this Source's earlier reads returned.
	SessionToken string
}

// Source is a container's change feed. It implements [feed.Source], and its methods are
// safe for concurrent use.
//
// A Source belongs to the container that it finds at its first use. Once that is deleted
// and recreated, every method returns a [*RecreatedError].
//
// A read without changes returns at once, whatever its [feed.Request.Wait], because
// Cosmos DB cannot wait.
type Source struct {
	address
	options SourceOptions
	// turn is held by the one call that requests the container. Other calls wait for it.
	turn chan struct{}

	mu sync.Mutex // guards the fields below
	// properties are the container's properties. They are nil before the first use.
	properties *properties
	// partitions are the live partitions as they were last listed. They only serve to
	// find the partition of a read. When the service reports that they are old, they are
	// listed again.
	partitions []feed.Partition
	// sessions are the session tokens of responses, by partition.
	sessions map[string]string
}

// Source returns a container's feed. The container is first requested when the Source is
// used.
func (a *Account) Source(database, container string, o SourceOptions) *Source {
	return &Source{
		address: address{a, database, container}, options: o,
		turn: make(chan struct{}, 1), sessions: map[string]string{},
	}
}

// Dialect returns the dialect of the leases that the source reads for. Processors and
// estimators refuse a lease container in another one.
func (s *Source) Dialect() lease.Dialect { return s.options.Dialect }

// Identity returns the container's identity, which it requests once. The error is
// [feed.ErrNotFound], or names a missing right.
func (s *Source) Identity(ctx context.Context) (feed.Identity, error) {
	p, err := s.known(ctx)
	if err != nil {
		return feed.Identity{}, err
	}
	return feed.Identity{
		AccountHost: s.account.host, Database: s.database, DatabaseRID: p.databaseRID,
		Container: s.container, ContainerRID: p.rid, KeyPaths: p.paths(),
	}, nil
}

// ContainerID implements [feed.Identifier]. It returns the errors of Identity.
func (s *Source) ContainerID(ctx context.Context) (feed.ContainerID, error) {
	p, err := s.known(ctx)
	if err != nil {
		return feed.ContainerID{}, err
	}
	account, err := s.account.client.accountName(ctx)
	return feed.ContainerID{Account: account, RID: p.rid}, err
}

// KeyHash implements [feed.KeyHasher]. It also returns the errors of [Source.Identity].
func (s *Source) KeyHash(ctx context.Context, key feed.PartitionKey) (string, error) {
	p, err := s.known(ctx)
	if err != nil {
		return "", err
	}
	components, _, err := p.keyComponents(key)
	if err != nil {
		return "", err
	}
	return epk.Hex(p.hash.Append(nil, components)), nil
}

// SplitRange divides a range into parts with equal shares of the key hashes, for
// [feed.SplitRange]. It also returns the errors of [Source.Identity].
func (s *Source) SplitRange(ctx context.Context, r feed.Range, n int) ([]feed.Range, error) {
	p, err := s.known(ctx)
	if err != nil {
		return nil, err
	}
	r = r.OrFull()
	borders, err := p.hash.Divide(r.Min, r.Max, n)
	if err != nil {
		return nil, err
	}
	return r.Cut(borders), nil
}

// properties are the properties of a container that a Source needs.
type properties struct {
	rid, databaseRID string
	hash             epk.Hash
	keyPaths         []keyPath
	// systemKey reports whether the container was created without a partition key.
	systemKey bool
}
