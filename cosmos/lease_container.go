package cosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
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
	return &leaseStore{Leases: l, codec: codec, rid: p.RID, systemKey: p.PartitionKey.System, presence: newPresence(l)}, nil
}

// missing marks an error as a [feed.ErrNotFound] without changing its text.
type missing struct{ error }

// Is reports whether target is [feed.ErrNotFound].
func (missing) Is(target error) bool { return target == feed.ErrNotFound }

const leaseRemedy = "use a container that is partitioned by /id for the leases"

// leaseProperties are the properties of a lease container that decide whether it can hold
// leases.
type leaseProperties struct {
	ID           string       `json:"id"`
	RID          string       `json:"_rid,omitempty"`
	PartitionKey partitionKey `json:"partitionKey"`
	TTL          *int32       `json:"defaultTtl"`
}

// partitionKey is the definition of a partition key.
type partitionKey struct {
	Paths   []string `json:"paths"`
	Kind    string   `json:"kind"`
	Version int      `json:"version"`
	// System reports whether the container was created without a partition key.
	System bool `json:"systemKey,omitempty"`
}

// check returns an error if the container cannot hold leases. keyed reports whether it is
// partitioned by /partitionKey.
func (l *Leases) check(p leaseProperties) (keyed bool, err error) {
	paths := p.PartitionKey.Paths
	keyed = slices.Equal(paths, []string{"/partitionKey"})
	if !keyed && !p.PartitionKey.System && !slices.Equal(paths, []string{"/id"}) {
		by := strings.Join(paths, ", ")
		if by == "" {
			by = "nothing (a fixed collection)"
		}
		return false, &lease.DialectError{
			Found:  fmt.Sprintf("the container %s is partitioned by %s, so leases cannot be found by their ids", l.container, by),
			Remedy: leaseRemedy + ", or by /partitionKey (accounts of the API for Gremlin do not allow /id)",
		}
	}
	if ttl := p.TTL; ttl != nil && *ttl > 0 {
		return false, &lease.DialectError{
			Found:  fmt.Sprintf("the container %s lets items expire after %d s, and an expired lease loses its position", l.container, *ttl),
			Remedy: "set its default time to live to -1 (enabled without a default), or " + leaseRemedy,
		}
	}
	return keyed, nil
}

// properties reads the container's properties, or creates the container if
// LeaseOptions.Create is set.
func (l *Leases) properties(ctx context.Context) (p leaseProperties, err error) {
	const op = "read the lease container"
	a, err := l.read(ctx, op)
	switch {
	case err != nil:
		return p, err
	case a.isMissing() && l.options.Create:
		return l.create(ctx)
	case a.isMissing():
		return p, missing{fmt.Errorf("there is no container %s in a database %s of %s for the leases; create it, partitioned by /id and with "+
			"a default time to live of -1, or set LeaseOptions.Create", l.container, l.database, l.account.host)}
	case a.failure != nil:
		return p, l.refusal(actionMetadata).failure(op, a)
	}
	return p, l.decode(op, a, &p)
}

// read requests the container.
func (l *Leases) read(ctx context.Context, op string) (*answer, error) {
	return l.account.client.do(ctx, &call{span: "Leases.ReadContainer", op: op, path: l.path(), writes: true, free: true, early: true})
}

// decode reads the JSON of a response.
func (l *Leases) decode(op string, a *answer, into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("%s: the response of %s: %w", op, l.account.host, err)
	}
	return nil
}

// create creates the container. Another host may create it at the same time.
func (l *Leases) create(ctx context.Context) (p leaseProperties, err error) {
	const op = "create the lease container"
	ttl := int32(-1)
	// Version 2 hashes whole ids. Version 1 would hash only the first 100 bytes, which the
	// ids of one processor's leases have in common.
	body, err := json.Marshal(leaseProperties{ID: l.container, PartitionKey: partitionKey{Paths: []string{"/id"}, Kind: "Hash", Version: 2}, TTL: &ttl})
	if err != nil {
		return p, fmt.Errorf("%s: %w", op, err)
	}
	q := &call{span: "Leases.CreateContainer", op: op, method: http.MethodPost, path: l.parent(), body: body, header: http.Header{}, writes: true, free: true}
	if l.options.Throughput > 0 {
		q.header.Set(wire.HeaderOfferThroughput, strconv.Itoa(int(l.options.Throughput)))
	}
	a, err := l.account.client.do(ctx, q)
	switch {
	case err != nil:
		return p, err
	case a.isMissing():
		return p, missing{fmt.Errorf("there is no database %s in %s for the leases; create it first", l.database, l.account.host)}
	case a.status == http.StatusConflict:
		return (&Leases{address: l.address}).properties(ctx)
	case a.failure != nil:
		return p, l.refusal(actionContainer).failure(op, a)
	}
	return p, l.decode(op, a, &p)
}

var _ lease.Container = (*Leases)(nil)

// presenceFor is the time for which [presence] reuses its last result. If the container
// was deleted, requests for all of its leases fail at nearly the same time.
const presenceFor = 2 * time.Second

// presence finds out whether the lease container exists, and reuses the result for a
// short time. It is safe for concurrent use.
type presence struct {
	leases *Leases
	// turn is held by the one call that reads the container.
	turn chan struct{}

	mu sync.Mutex // guards the fields below
	// until is the time until which the last result, there, is reused.
	until time.Time
	there bool
}

func newPresence(l *Leases) *presence {
	return &presence{leases: l, turn: make(chan struct{}, 1)}
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
	const op = "read the lease container"
	a, err := p.leases.read(ctx, op)
	switch {
	case err != nil:
		return false, err
	case a.failure != nil && !a.isMissing():
		return false, p.leases.refusal(actionMetadata).failure(op, a)
	}
	until := time.Now().Add(presenceFor)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there, p.until = a.failure == nil, until
	return p.there, nil
}
