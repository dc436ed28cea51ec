package changefeedtest

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

// memLeases is a lease container in memory: documents with ETags, stamped by a
// clock that the simulation skews.
type memLeases struct {
	clock *storeClock
	// clockless makes a store that can't tell its clock: Listing.Now is zero.
	clockless bool

	mu     sync.Mutex // guards what follows; held for lookups only
	docs   map[string]lease.Lease
	marker map[string]time.Time // by prefix
	etag   int
}

func newMemLeases(clock *storeClock) *memLeases {
	return &memLeases{clock: clock, docs: map[string]lease.Lease{}, marker: map[string]time.Time{}}
}

// Open implements [lease.Container].
func (m *memLeases) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	prefix := k.Processor + "@" + k.Identity.AccountHost + "_" + k.Identity.DatabaseRID + "_" + k.Identity.ContainerRID
	return &memStore{memLeases: m, prefix: prefix}, nil
}

// memStore is the leases of one processor in a memLeases.
type memStore struct {
	*memLeases
	prefix string
}

const memSeparator = ".."

// List implements [lease.Store].
func (m *memStore) List(ctx context.Context) (lease.Listing, error) {
	if err := ctx.Err(); err != nil {
		return lease.Listing{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := lease.Listing{Initialized: m.marker[m.prefix]}
	if !m.clockless {
		l.Now = m.clock.now()
	}
	for id, doc := range m.docs {
		if strings.HasPrefix(id, m.prefix+memSeparator) {
			l.Leases = append(l.Leases, doc)
		}
	}
	sort.Slice(l.Leases, func(i, j int) bool { return l.Leases[i].ID < l.Leases[j].ID })
	return l, nil
}

// Mark implements [lease.Store].
func (m *memStore) Mark(ctx context.Context, initialised bool) error {
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
		m.marker[m.prefix] = m.clock.stamp()
	}
	return nil
}

var errMemToken = errors.New("a lease needs a token")

// Create implements [lease.Store].
func (m *memStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	if err := ctx.Err(); err != nil {
		return lease.Lease{}, err
	}
	if l.Token == "" {
		return lease.Lease{}, errMemToken
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l.ID = m.prefix + memSeparator + l.Token
	if current, ok := m.docs[l.ID]; ok {
		return lease.Lease{}, &lease.ConflictError{Current: current}
	}
	return m.put(l), nil
}

// Update implements [lease.Store].
func (m *memStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
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
func (m *memStore) Delete(ctx context.Context, l lease.Lease) error {
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

// match is the If-Match of a write.
func (m *memStore) match(l lease.Lease) error {
	current, ok := m.docs[l.ID]
	if !ok {
		return feed.ErrNotFound
	}
	if current.ETag != l.ETag {
		return &lease.ConflictError{Current: current}
	}
	return nil
}

// put stores l under a new ETag and stamps it.
func (m *memStore) put(l lease.Lease) lease.Lease {
	m.etag++
	l.ETag = `"e` + strconv.Itoa(m.etag) + `"`
	l.Modified = m.clock.stamp()
	m.docs[l.ID] = l
	return l
}
