package memory

import (
	"context"
	"errors"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Leases is a lease container in memory. It implements [lease.Container].
type Leases struct {
	now func() time.Time

	mu     sync.Mutex // guards the fields below; held for lookups only
	docs   map[string]lease.Lease
	marker map[string]time.Time // time at which the marker was written, by the prefix of the processor's ids
	etag   int
}

// NewLeases returns an empty lease container. now is its clock, which stamps writes and
// listings. If nil, time.Now is used.
func NewLeases(now func() time.Time) *Leases {
	if now == nil {
		now = time.Now
	}
	return &Leases{now: now, docs: map[string]lease.Lease{}, marker: map[string]time.Time{}}
}

// Dialect implements [lease.Container].
func (m *Leases) Dialect() lease.Dialect { return lease.DotNet }

// Open implements [lease.Container].
func (m *Leases) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	prefix := k.Processor + "@" + k.Identity.AccountHost + "_" + k.Identity.DatabaseRID + "_" + k.Identity.ContainerRID
	return &leaseStore{Leases: m, prefix: prefix}, nil
}

// leaseStore is the lease store of one processor.
type leaseStore struct {
	*Leases
	prefix string
}

const separator = ".."

// List implements [lease.Store].
func (m *leaseStore) List(ctx context.Context) (lease.Listing, error) {
	if err := ctx.Err(); err != nil {
		return lease.Listing{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := lease.Listing{Initialized: m.marker[m.prefix], Now: m.now().Round(0).UTC()}
	for id, doc := range m.docs {
		if strings.HasPrefix(id, m.prefix+separator) {
			l.Leases = append(l.Leases, doc)
		}
	}
	sort.Slice(l.Leases, func(i, j int) bool { return l.Leases[i].ID < l.Leases[j].ID })
	return l, nil
}

// SetInitialized implements [lease.Store].
func (m *leaseStore) SetInitialized(ctx context.Context, initialised bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !initialised {
		delete(m.marker, m.prefix)
		return nil
	}
	if m.marker[m.prefix].IsZero() {
		m.marker[m.prefix] = m.now().UTC().Truncate(time.Second)
	}
	return nil
}

var errToken = errors.New("a lease needs a token")

// Create implements [lease.Store].
func (m *leaseStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	if err := ctx.Err(); err != nil {
		return lease.Lease{}, err
	}
	if l.Token == "" {
		return lease.Lease{}, errToken
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l.ID = m.prefix + separator + l.Token
	if current, ok := m.docs[l.ID]; ok {
		return lease.Lease{}, &lease.ConflictError{Current: current}
	}
	return m.put(l), nil
}

// Update implements [lease.Store].
func (m *leaseStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	if err := ctx.Err(); err != nil {
		return lease.Lease{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.match(l); err != nil {
		return lease.Lease{}, err
	}
	return m.put(l), nil
}

// Delete implements [lease.Store].
func (m *leaseStore) Delete(ctx context.Context, l lease.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.match(l); err != nil {
		return err
	}
	delete(m.docs, l.ID)
	return nil
}

// match returns an error if the store has no lease with l's ID, or if that lease has
// another ETag than l.
func (m *leaseStore) match(l lease.Lease) error {
	current, ok := m.docs[l.ID]
	if !ok {
		return feed.ErrNotFound
	}
	if current.ETag != l.ETag {
		return &lease.ConflictError{Current: current}
	}
	return nil
}

// put stores l with a new ETag and the current time, and returns the stored lease.
func (m *leaseStore) put(l lease.Lease) lease.Lease {
	m.etag++
	l.ETag = `"e` + strconv.Itoa(m.etag) + `"`
	l.Modified = m.now().UTC().Truncate(time.Second)
	m.docs[l.ID] = l
	return l
}
