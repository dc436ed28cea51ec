package cosmos

import (
	"context"

	"github.com/changefeed-go/changefeed/lease"
)

// LeaseOptions configures a lease container. The zero value is good for most programs.
type LeaseOptions struct {
	// Dialect is the documents' format. If zero, it is .NET's, which Azure Functions and
	// KEDA read too.
	Dialect lease.Dialect
	// Create makes [Leases.Open] create a missing container, partitioned by /id, with time
	// to live enabled and no default. With Entra ID this requires a right that the built-in
	// data roles lack. If false, a missing container is an error.
	Create bool
	// Throughput is the provisioned throughput for a created container, in RU/s. If zero, it
	// shares the database's, or gets the service's minimum.
	Throughput int32
}

// Leases is a lease container in an account, perhaps another one than the monitored
// container's. It implements [lease.Container], and its methods are safe for concurrent
// use.
//
// The container must be partitioned by /id or by /partitionKey, or have been created
// without a partition key, and must not let items expire by default.
//
// Because a host that takes a lease must see what other hosts wrote, all reads and writes
// go to the account's write region, and Options.PreferredRegions and Options.Consistency
// are ignored. If there are several write regions, Leases uses the first, until it fails.
// While writes fail over, hosts may use different regions for a moment and two may take
// one lease, which causes a redelivery.
//
// Leases does not retry a request that the service throttles or refuses, but the
// processor does, because it knows how long its lease lasts.
type Leases struct {
	address
	options LeaseOptions
}

// Leases returns the lease container with that name, which is first requested when it is
// opened.
func (a *Account) Leases(database, container string, o LeaseOptions) *Leases {
	return &Leases{address{a, database, container}, o}
}

// Dialect returns the dialect in the options.
func (l *Leases) Dialect() lease.Dialect { return l.options.Dialect }

// Open implements [lease.Container].
func (l *Leases) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	p, err := l.ensure(ctx, l.wanted())
	if err != nil {
		return nil, err // the callers of Open add its name
	}
	keyed, err := lease.CheckContainer(l.container, p.PartitionKey.Paths, p.PartitionKey.System, p.defaultTTL())
	if err != nil {
		return nil, err
	}
	codec, err := lease.NewCodec(l.options.Dialect, k, keyed)
	if err != nil {
		return nil, err
	}
	return &leaseStore{
		Leases: l, codec: codec, rid: p.RID, systemKey: p.PartitionKey.System, documentClient: newDocumentClient(&l.address, "lease"),
	}, nil
}

// wanted returns the container that Open may create.
func (l *Leases) wanted() wantedContainer {
	ttl := int32(-1)
	return wantedContainer{
		noun: "lease", create: l.options.Create, throughput: l.options.Throughput,
		// Version 2 hashes whole ids. Version 1 would hash only the first 100 bytes, which the
		// ids of one processor's leases have in common.
		properties: containerProperties{PartitionKey: partitionKey{Paths: []string{"/id"}, Kind: "Hash", Version: 2}, TTL: &ttl},
		remedy:     "create it, partitioned by /id and with a default time to live of -1, or set LeaseOptions.Create",
	}
}

var _ lease.Container = (*Leases)(nil)
