package cosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// missing marks an error as a [feed.ErrNotFound] without changing its text.
type missing struct{ error }

// Is reports whether target is [feed.ErrNotFound].
func (missing) Is(target error) bool { return target == feed.ErrNotFound }

// containerProperties are the properties of a container that decide whether it can hold
// leases or letters.
type containerProperties struct {
	ID           string       `json:"id"`
	RID          string       `json:"_rid,omitempty"`
	PartitionKey partitionKey `json:"partitionKey"`
	TTL          *int32       `json:"defaultTtl,omitempty"`
	// Indexing is the indexing policy of a container to create. If nil, everything is indexed.
	Indexing any `json:"indexingPolicy,omitempty"`
}

// defaultTTL returns the default time to live in seconds, or 0 if the container has none.
func (p containerProperties) defaultTTL() int {
	if p.TTL == nil {
		return 0
	}
	return int(*p.TTL)
}

// partitionKey is the definition of a partition key.
type partitionKey struct {
	Paths   []string `json:"paths"`
	Kind    string   `json:"kind"`
	Version int      `json:"version"`
	// System reports whether the container was created without a partition key.
	System bool `json:"systemKey,omitempty"`
}

// read requests the container.
func (c *address) read(ctx context.Context, op string) (*answer, error) {
	return c.account.client.do(ctx, &call{span: "Container.Read", op: op, path: c.path(), writes: true, free: true, early: true})
}

// decode reads the JSON of a response.
func (c *address) decode(op string, a *answer, into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("%s: the response of %s: %w", op, c.account.host, err)
	}
	return nil
}

// wantedContainer is a container of leases or letters that is to be opened.
type wantedContainer struct {
	// noun is "lease" or "letter".
	noun string
	// create reports whether a missing container is created, with properties and throughput.
	create     bool
	properties containerProperties
	throughput int32
	// remedy is the end of the error if the container is missing.
	remedy string
}

// ensure reads the container's properties, or creates the container if w says so.
func (c *address) ensure(ctx context.Context, w wantedContainer) (p containerProperties, err error) {
	op := "read the " + w.noun + " container"
	a, err := c.read(ctx, op)
	switch {
	case err != nil:
		return p, err
	case a.isMissing() && w.create:
		return c.create(ctx, w)
	case a.isMissing():
		return p, missing{fmt.Errorf("there is no container %s in a database %s of %s for the %ss; %s", c.container, c.database, c.account.host, w.noun, w.remedy)}
	case a.failure != nil:
		return p, c.refusal(actionMetadata).failure(op, a)
	}
	return p, c.decode(op, a, &p)
}

// create creates the container. Another host may create it at the same time.
func (c *address) create(ctx context.Context, w wantedContainer) (p containerProperties, err error) {
	op := "create the " + w.noun + " container"
	w.properties.ID = c.container
	body, err := json.Marshal(w.properties)
	if err != nil {
		return p, fmt.Errorf("%s: %w", op, err)
	}
	q := &call{span: "Container.Create", op: op, method: http.MethodPost, path: c.parent(), body: body, header: http.Header{}, writes: true, free: true}
	if w.throughput > 0 {
		q.header.Set(wire.HeaderOfferThroughput, strconv.Itoa(int(w.throughput)))
	}
	a, err := c.account.client.do(ctx, q)
	switch {
	case err != nil:
		return p, err
	case a.isMissing():
		return p, missing{fmt.Errorf("there is no database %s in %s for the %ss; create it first", c.database, c.account.host, w.noun)}
	case a.status == http.StatusConflict:
		w.create = false
		return c.ensure(ctx, w)
	case a.failure != nil:
		return p, c.refusal(actionContainer).failure(op, a)
	}
	return p, c.decode(op, a, &p)
}

// presenceFor is the time for which [presence] reuses its last result. If the container
// was deleted, requests for all of its documents fail at nearly the same time.
const presenceFor = 2 * time.Second

// presence finds out whether a container of leases or letters exists, and reuses the result for a
// short time. It is safe for concurrent use.
type presence struct {
	container *address
	// noun is "lease" or "letter", for errors.
	noun string
	// turn is held by the one call that reads the container.
	turn chan struct{}

	mu sync.Mutex // guards the fields below
	// until is the time until which the last result, there, is reused.
	until time.Time
	there bool
}

func newPresence(container *address, noun string) *presence {
	return &presence{container: container, noun: noun, turn: make(chan struct{}, 1)}
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
	op := "read the " + p.noun + " container"
	a, err := p.container.read(ctx, op)
	switch {
	case err != nil:
		return false, err
	case a.failure != nil && !a.isMissing():
		return false, p.container.refusal(actionMetadata).failure(op, a)
	}
	until := time.Now().Add(presenceFor)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there, p.until = a.failure == nil, until
	return p.there, nil
}
