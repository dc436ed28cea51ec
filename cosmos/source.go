package cosmos

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/lease"
)

// SourceOptions say how a container's feed is read. The zero value is good for most.
type SourceOptions struct {
	// Dialect is that of the leases that the feed is read for; a processor refuses a Source and a lease container that
	// disagree. It decides which capabilities a read announces, as the hosts of the dialect do: with .NET's, that merged
	// partitions are understood; with JavaHandleChanges none; with JavaLatestVersion also that a start at a time holds on
	// after a merge.
	Dialect lease.Dialect
	// SessionToken is the session token of a write, or of several partitions, separated by commas: reads under session
	// consistency show it and all before it. Default: a read shows at least what earlier reads of this Source showed.
	SessionToken string
}

// Source is the change feed of a container, a [feed.Source]. Its methods may be called concurrently.
//
// A Source is of the container that it finds when it is first used. When that is deleted and made anew, every method returns
// *[RecreatedError] from then on.
//
// A read that finds nothing new is answered at once: [feed.Request.Wait] has no meaning in Cosmos DB.
type Source struct {
	account             *Account
	database, container string
	options             SourceOptions
	// turn is held by the one call that asks for the container.
	turn chan struct{}

	mu sync.Mutex // guards the rest
	// properties of the container, nil before the first use.
	properties *properties
	// partitions are those that were live when they were last asked for. They only help to address reads, and
	// are asked for again when the service says that they are old.
	partitions []feed.Partition
	// sessions are the session tokens of answers, by partition.
	sessions map[string]string
}

// Source is the feed of a container, which is first asked for when the Source is used.
func (a *Account) Source(database, container string, o SourceOptions) *Source {
	return &Source{
		account: a, database: database, container: container, options: o,
		turn: make(chan struct{}, 1), sessions: map[string]string{},
	}
}

// Dialect implements [lease.DialectSource].
func (s *Source) Dialect() lease.Dialect { return s.options.Dialect }

// Identity names the container; it is asked for once. Errors: [feed.ErrNotFound]; a missing right, by its name.
func (s *Source) Identity(ctx context.Context) (feed.Identity, error) {
	p, err := s.known(ctx)
	if err != nil {
		return feed.Identity{}, err
	}
	return feed.Identity{
		AccountHost: s.account.host, Database: s.database, DatabaseRID: p.databaseRID,
		Container: s.container, ContainerRID: p.rid,
	}, nil
}

// ContainerID implements [feed.Identifier]. Its errors are those of Identity.
func (s *Source) ContainerID(ctx context.Context) (feed.ContainerID, error) {
	p, err := s.known(ctx)
	if err != nil {
		return feed.ContainerID{}, err
	}
	account, err := s.account.client.accountName(ctx)
	return feed.ContainerID{Account: account, RID: p.rid}, err
}

// SplitRange divides a range evenly in key hashes, for [feed.SplitRange]. Beside its own errors, those of Identity.
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

// what names the container in errors.
func (s *Source) what() string {
	return fmt.Sprintf("container %s of database %s in %s", s.container, s.database, s.account.host)
}

// path is that of the container.
func (s *Source) path() string {
	return "/dbs/" + url.PathEscape(s.database) + "/colls/" + url.PathEscape(s.container)
}

// properties are what has to be known of a container.
type properties struct {
	rid, databaseRID string
	hash             epk.Hash
	keyPaths         []keyPath
}
