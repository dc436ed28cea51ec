package demo

import (
	"context"
	"errors"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// gate stands before everything a host reaches: source, lease store and copy.
// When the host crashes it shuts for good: no later call is carried out, and
// none is answered, nor those under way. The host can then neither write nor
// release, and nobody hears of it again, as after a crash of its machine; what it
// had sent already may still be carried out, as there.
type gate struct {
	shut chan struct{}
	// over is closed at the end of the run, so that the calls that wait at the
	// gate return and the host's goroutines can end.
	over chan struct{}
}

func newGate() *gate {
	return &gate{shut: make(chan struct{}), over: make(chan struct{})}
}

var errCrashed = errors.New("this host has crashed")

// crash shuts the gate. It may be called once, as abandon.
func (g *gate) crash() { close(g.shut) }

// abandon ends the waiting of a crashed host's calls.
func (g *gate) abandon() { close(g.over) }

// crashed reports whether the gate is shut.
func (g *gate) crashed() bool {
	select {
	case <-g.shut:
		return true
	default:
		return false
	}
}

// hang waits, behind a shut gate, until the caller gives up.
func (g *gate) hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.over:
		return errCrashed
	}
}

// through makes call on the host's behalf.
func through[T any](ctx context.Context, g *gate, call func() (T, error)) (T, error) {
	var none T
	if g.crashed() {
		return none, g.hang(ctx)
	}
	v, err := call()
	if g.crashed() {
		return none, g.hang(ctx)
	}
	return v, err
}

// gatedSource is a source behind a host's gate.
type gatedSource struct {
	feed.Source
	gate *gate
}

func (s gatedSource) Identity(ctx context.Context) (feed.Identity, error) {
	return through(ctx, s.gate, func() (feed.Identity, error) { return s.Source.Identity(ctx) })
}

func (s gatedSource) Partitions(ctx context.Context) ([]feed.Partition, error) {
	return through(ctx, s.gate, func() ([]feed.Partition, error) { return s.Source.Partitions(ctx) })
}

func (s gatedSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	return through(ctx, s.gate, func() (feed.Page, error) { return s.Source.Read(ctx, r) })
}

// gatedLeases is a lease container behind a host's gate.
type gatedLeases struct {
	lease.Container
	gate *gate
}

func (c gatedLeases) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	s, err := through(ctx, c.gate, func() (lease.Store, error) { return c.Container.Open(ctx, k) })
	if err != nil {
		return nil, err
	}
	return gatedStore{store: s, gate: c.gate}, nil
}

// gatedStore is a lease store behind a host's gate.
type gatedStore struct {
	store lease.Store
	gate  *gate
}

func (s gatedStore) List(ctx context.Context) (lease.Listing, error) {
	return through(ctx, s.gate, func() (lease.Listing, error) { return s.store.List(ctx) })
}

func (s gatedStore) Mark(ctx context.Context, initialised bool) error {
	_, err := through(ctx, s.gate, func() (struct{}, error) { return struct{}{}, s.store.Mark(ctx, initialised) })
	return err
}

func (s gatedStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return through(ctx, s.gate, func() (lease.Lease, error) { return s.store.Create(ctx, l) })
}

func (s gatedStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return through(ctx, s.gate, func() (lease.Lease, error) { return s.store.Update(ctx, l) })
}

func (s gatedStore) Delete(ctx context.Context, l lease.Lease) error {
	_, err := through(ctx, s.gate, func() (struct{}, error) { return struct{}{}, s.store.Delete(ctx, l) })
	return err
}
