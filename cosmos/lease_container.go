package cosmos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// LeaseOptions configures a lease container. The zero value is good for most programs.
type LeaseOptions struct {
	// Dialect is the format of the documents. If zero, it is .NET's, which Azure
	// Functions and KEDA read too.
	Dialect lease.Dialect
	// Create makes Open create a missing container, partitioned by /id, with time to live
	// enabled and no default. With Entra ID this requires a right that the built-in data
	// roles lack. If false, a missing container is an error.
	Create bool
	// Throughput is the provisioned throughput of a container that Create creates, in
	// RU/s. If zero, it is the database's shared throughput, or the service's minimum.
	Throughput int32
}

// Leases is a lease container of an account. It implements [lease.Container]. It may be
// in another account than the monitored container. Its methods are safe for concurrent
// use.
//
// The container must be partitioned by /id or by /partitionKey. It must not let items
// expire by default.
//
// All reads and writes go to the account's write region. [Options.PreferredRegions] and
// [Options.Consistency] are ignored, because a host that takes a lease must see the
// writes of the other hosts. If the account has several write regions, Leases uses the
// first, until it fails. While writes fail over, hosts may use different regions for a
// moment, and two may take one lease. That causes a redelivery.
//
// Leases does not retry a request that the service throttles or refuses. The processor
// does, because it tracks how long its lease lasts.
type Leases struct {
	documents documents
	options   LeaseOptions
}

// Leases returns the lease container with that name. The container is first requested
// when it is opened.
func (a *Account) Leases(database, container string, o LeaseOptions) *Leases {
	return &Leases{documents: documents{account: a, database: database, container: container}, options: o}
}

// Dialect returns the dialect in the options.
func (l *Leases) Dialect() lease.Dialect { return l.options.Dialect }

// Open implements [lease.Container].
func (l *Leases) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	p, err := l.properties(ctx)
	if err != nil {
		return nil, err // the callers of Open add its name
	}
	keyed, err := l.check(p)
	if err != nil {
		return nil, err
	}
	codec, err := lease.NewCodec(l.options.Dialect, k, keyed)
	if err != nil {
		return nil, err
	}
	return &leaseStore{leases: l, codec: codec, rid: p.ResourceID, presence: newPresence(&l.documents)}, nil
}

// missing marks an error as a [feed.ErrNotFound] without changing its text.
type missing struct{ error }

// Is reports whether target is [feed.ErrNotFound].
func (missing) Is(target error) bool { return target == feed.ErrNotFound }

const leaseRemedy = "use a container that is partitioned by /id for the leases"

// check returns an error if the container cannot hold leases. keyed reports whether it is
// partitioned by /partitionKey.
func (l *Leases) check(p azcosmos.ContainerProperties) (keyed bool, err error) {
	paths := p.PartitionKeyDefinition.Paths
	keyed = slices.Equal(paths, []string{"/partitionKey"})
	if !keyed && !slices.Equal(paths, []string{"/id"}) {
		by := strings.Join(paths, ", ")
		if by == "" {
			by = "nothing (a fixed collection)"
		}
		return false, &lease.DialectError{
			Found:  fmt.Sprintf("the container %s is partitioned by %s, so leases cannot be found by their ids", l.documents.container, by),
			Remedy: leaseRemedy + ", or by /partitionKey (accounts of the API for Gremlin do not allow /id)",
		}
	}
	if ttl := p.DefaultTimeToLive; ttl != nil && *ttl > 0 {
		return false, &lease.DialectError{
			Found:  fmt.Sprintf("the container %s lets items expire after %d s, and an expired lease loses its position", l.documents.container, *ttl),
			Remedy: "set its default time to live to -1 (enabled without a default), or " + leaseRemedy,
		}
	}
	return keyed, nil
}

// properties reads the container's properties, or creates the container if
// LeaseOptions.Create is set.
func (l *Leases) properties(ctx context.Context) (azcosmos.ContainerProperties, error) {
	d := &l.documents
	p, err := d.read(ctx)
	if isMissing(err) {
		if !l.options.Create {
			return p, missing{fmt.Errorf("there is no container %s in a database %s of %s for the leases; create it, partitioned by /id and with "+
				"a default time to live of -1, or set LeaseOptions.Create", d.container, d.database, d.account.host)}
		}
		return l.create(ctx)
	}
	if err != nil {
		return p, d.failure("read container", actionMetadata, err)
	}
	return p, nil
}

// create creates the container. Another host may create it at the same time.
func (l *Leases) create(ctx context.Context) (azcosmos.ContainerProperties, error) {
	d := &l.documents
	ttl := int32(-1)
	p := azcosmos.ContainerProperties{
		ID: d.container, DefaultTimeToLive: &ttl,
		// Version 2 hashes whole ids. Version 1 would hash only the first 100 bytes,
		// which the ids of one processor's leases have in common.
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}, Kind: azcosmos.PartitionKeyKindHash, Version: 2},
	}
	o := &azcosmos.CreateContainerOptions{}
	if l.options.Throughput > 0 {
		t := azcosmos.NewManualThroughputProperties(l.options.Throughput)
		o.ThroughputProperties = &t
	}
	var made azcosmos.ContainerResponse
	err := d.manage(ctx, func(ctx context.Context, db *azcosmos.DatabaseClient) (err error) {
		made, err = db.CreateContainer(ctx, p, o)
		return err
	})
	switch code, _ := status(err); {
	case code == 404:
		return p, missing{fmt.Errorf("there is no database %s in %s for the leases; create it first", d.database, d.account.host)}
	case code == 409:
		again := &Leases{documents: documents{account: d.account, database: d.database, container: d.container}}
		return again.properties(ctx)
	case err != nil:
		return p, d.failure("create container", actionContainer, err)
	}
	return *made.ContainerProperties, nil
}

// manage executes a call that does not read or write a document. azcosmos may retry such
// a call.
func (d *documents) manage(ctx context.Context, do func(ctx context.Context, db *azcosmos.DatabaseClient) error) error {
	client, err := d.open(ctx)
	if err != nil {
		return err
	}
	db, err := client.NewDatabase(d.database)
	if err != nil {
		return err
	}
	x := &exchange{}
	err = do(context.WithValue(ctx, exchangeKey{}, x), db)
	if err != nil && x.sent.Load() == 0 && ctx.Err() == nil {
		d.drop(client)
	}
	return err
}

var _ lease.Container = (*Leases)(nil)

// presenceFor is the time for which [presence] reuses its last result. If the container
// was deleted, requests for all of its leases fail at nearly the same time.
const presenceFor = 2 * time.Second

// presence finds out whether the lease container exists, and reuses the result for a
// short time. It is safe for concurrent use.
type presence struct {
	documents *documents
	// turn is held by the one call that reads the container.
	turn chan struct{}

	mu sync.Mutex // guards the fields below
	// until is the time until which the last result, there, is reused.
	until time.Time
	there bool
}

func newPresence(d *documents) *presence {
	return &presence{documents: d, turn: make(chan struct{}, 1)}
}

// known returns the last result. fresh reports whether it may still be used.
func (p *presence) known() (there, fresh bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.there, now.Before(p.until)
}

// confirm reports whether the container exists. It reads the container unless the last
// result is fresh. If the read fails, confirm returns its error.
func (p *presence) confirm(ctx context.Context) (there bool, err error) {
	if there, fresh := p.known(); fresh {
		return there, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if there, fresh := p.known(); fresh {
		return there, nil
	}
	_, err = p.documents.read(ctx)
	if err != nil && !isMissing(err) {
		return false, err
	}
	until := time.Now().Add(presenceFor)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there, p.until = err == nil, until
	return p.there, nil
}

// read returns the properties of the container.
func (d *documents) read(ctx context.Context) (azcosmos.ContainerProperties, error) {
	var answer azcosmos.ContainerResponse
	err := d.manage(ctx, func(ctx context.Context, db *azcosmos.DatabaseClient) error {
		c, err := db.NewContainer(d.container)
		if err != nil {
			return err
		}
		answer, err = c.Read(ctx, nil)
		return err
	})
	if err != nil {
		return azcosmos.ContainerProperties{}, err
	}
	return *answer.ContainerProperties, nil
}
