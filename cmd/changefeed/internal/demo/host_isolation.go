package demo

import (
	"context"
	"errors"
	"iter"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// isolation stands between a host and everything that the host calls: the source, the
// lease store and the copy.
//
// After a crash it passes on no further call, and returns no answer, not even to calls in
// flight. So the host can neither write nor release leases, as if its machine had
// crashed. A call that was sent before the crash may still be carried out.
type isolation struct {
	cut chan struct{} // closed by the crash
	// over is closed at the end of the run. Calls that hang then return, so that the
	// host's goroutines end.
	over chan struct{}
}

func newIsolation() *isolation {
	return &isolation{cut: make(chan struct{}), over: make(chan struct{})}
}

var errCrashed = errors.New("this host has crashed")

// crash isolates the host. It may be called once.
func (i *isolation) crash() { close(i.cut) }

// abandon makes all hanging calls return errCrashed. It may be called once.
func (i *isolation) abandon() { close(i.over) }

// crashed reports whether the host is isolated.
func (i *isolation) crashed() bool {
	select {
	case <-i.cut:
		return true
	default:
		return false
	}
}

// hang blocks until ctx ends or abandon is called, and returns the reason.
func (i *isolation) hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-i.over:
		return errCrashed
	}
}

// through carries out a call of the host. After a crash it neither makes the call nor
// returns its result, but hangs.
func through[T any](ctx context.Context, i *isolation, call func() (T, error)) (T, error) {
	var none T
	if i.crashed() {
		return none, i.hang(ctx)
	}
	v, err := call()
	if i.crashed() {
		return none, i.hang(ctx)
	}
	return v, err
}

// isolatedSource is a source that a host reaches through its isolation.
type isolatedSource struct {
	feed.Source
	isolation *isolation
}

func (s isolatedSource) Identity(ctx context.Context) (feed.Identity, error) {
	return through(ctx, s.isolation, func() (feed.Identity, error) { return s.Source.Identity(ctx) })
}

func (s isolatedSource) Partitions(ctx context.Context) ([]feed.Partition, error) {
	return through(ctx, s.isolation, func() ([]feed.Partition, error) { return s.Source.Partitions(ctx) })
}

func (s isolatedSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	return through(ctx, s.isolation, func() (feed.Page, error) { return s.Source.Read(ctx, r) })
}

// KeyHash implements [feed.KeyHasher].
func (s isolatedSource) KeyHash(ctx context.Context, key feed.PartitionKey) (string, error) {
	hasher, is := s.Source.(feed.KeyHasher)
	if !is {
		return "", feed.ErrUnsupported
	}
	return through(ctx, s.isolation, func() (string, error) { return hasher.KeyHash(ctx, key) })
}

// isolatedLeases is a lease container that a host reaches through its isolation.
type isolatedLeases struct {
	lease.Container
	isolation *isolation
}

func (c isolatedLeases) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	s, err := through(ctx, c.isolation, func() (lease.Store, error) { return c.Container.Open(ctx, k) })
	if err != nil {
		return nil, err
	}
	return isolatedStore{store: s, isolation: c.isolation}, nil
}

// isolatedStore is a lease store that a host reaches through its isolation.
type isolatedStore struct {
	store     lease.Store
	isolation *isolation
}

func (s isolatedStore) List(ctx context.Context) (lease.Listing, error) {
	return through(ctx, s.isolation, func() (lease.Listing, error) { return s.store.List(ctx) })
}

func (s isolatedStore) SetInitialized(ctx context.Context, initialised bool) error {
	_, err := through(ctx, s.isolation, func() (struct{}, error) { return struct{}{}, s.store.SetInitialized(ctx, initialised) })
	return err
}

func (s isolatedStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return through(ctx, s.isolation, func() (lease.Lease, error) { return s.store.Create(ctx, l) })
}

func (s isolatedStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return through(ctx, s.isolation, func() (lease.Lease, error) { return s.store.Update(ctx, l) })
}

func (s isolatedStore) Delete(ctx context.Context, l lease.Lease) error {
	_, err := through(ctx, s.isolation, func() (struct{}, error) { return struct{}{}, s.store.Delete(ctx, l) })
	return err
}

// isolatedLetters is a container for letters that a host reaches through its isolation.
type isolatedLetters struct {
	letters.Container
	isolation *isolation
}

func (c isolatedLetters) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	s, err := through(ctx, c.isolation, func() (letters.Store, error) { return c.Container.Open(ctx, k) })
	if err != nil {
		return nil, err
	}
	return isolatedLetterStore{Store: s, isolation: c.isolation}, nil
}

// isolatedLetterStore has the letters that a host reaches through its isolation.
type isolatedLetterStore struct {
	letters.Store
	isolation *isolation
}

func (s isolatedLetterStore) Put(ctx context.Context, l letters.Letter) error {
	_, err := through(ctx, s.isolation, func() (struct{}, error) { return struct{}{}, s.Store.Put(ctx, l) })
	return err
}

func (s isolatedLetterStore) Read(ctx context.Context, q letters.Query) iter.Seq2[letters.Letter, error] {
	return func(yield func(letters.Letter, error) bool) {
		for l, err := range s.Store.Read(ctx, q) {
			if l, err := through(ctx, s.isolation, func() (letters.Letter, error) { return l, err }); !yield(l, err) || err != nil {
				return
			}
		}
	}
}

func (s isolatedLetterStore) Get(ctx context.Context, group, id string) (letters.Letter, error) {
	return through(ctx, s.isolation, func() (letters.Letter, error) { return s.Store.Get(ctx, group, id) })
}

func (s isolatedLetterStore) Update(ctx context.Context, l letters.Letter) (letters.Letter, error) {
	return through(ctx, s.isolation, func() (letters.Letter, error) { return s.Store.Update(ctx, l) })
}

func (s isolatedLetterStore) Delete(ctx context.Context, l letters.Letter) error {
	_, err := through(ctx, s.isolation, func() (struct{}, error) { return struct{}{}, s.Store.Delete(ctx, l) })
	return err
}
