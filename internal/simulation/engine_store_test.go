package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// storeEngine is the embedded store over a file system in memory that can lose power. At
// a power loss everything that was not synced is lost, and the store is reopened from the
// rest. Both happen at one moment of fake time. For the hosts it looks like a failover of
// a service: waiting reads fail, but answered writes are kept.
type storeEngine struct {
	avad bool
	// purge is the interval between two purges. If -1, nothing expires.
	purge time.Duration
	// dialect is the dialect of the lease documents.
	dialect lease.Dialect
	// keyPaths are the key paths of the monitored container, each of one name.
	keyPaths []string

	mu         sync.Mutex // guards the fields below
	fs         *vfs.MemFS
	db         *store.DB
	items      *store.Container
	documents  *store.Container
	generation int
}

var _ expiringEngine = (*storeEngine)(nil)

const (
	storeDirectory = "data"
	storeDatabase  = "sim"
	storeRetention = 240 * time.Hour
)

// newStoreEngine returns an engine whose monitored container has the given properties.
// newStoreEngine adds the name and, if there are none, the retention and key paths. purge
// is the interval between two purges. If -1, nothing expires.
func newStoreEngine(ctx context.Context, mode feed.Mode, items storetype.ContainerProperties, purge time.Duration) (*storeEngine, error) {
	e := &storeEngine{fs: vfs.NewCrashableMem(), avad: mode == feed.AllVersionsAndDeletes, purge: purge}
	db, err := store.Open(storeDirectory, e.options(e.fs))
	if err != nil {
		return nil, err
	}
	items.ID = "items"
	if items.KeyPaths == nil {
		items.KeyPaths = []string{"/pk"}
	}
	e.keyPaths = items.KeyPaths
	if e.avad && items.Retention == 0 {
		items.Retention = storeRetention
	}
	_, err = db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: storeDatabase})
	if err == nil {
		_, err = db.CreateContainer(ctx, storeDatabase, items)
	}
	if err == nil {
		_, err = db.CreateContainer(ctx, storeDatabase, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
	}
	if err == nil {
		err = e.use(ctx, e.fs, db)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return e, nil
}

// options returns options without background work, except for purges in runs whose items expire
// or whose store drops versions. A timer that fires every second of fake time would take most of
// the running time.
func (e *storeEngine) options(fs vfs.FS) store.Options {
	return store.Options{FS: fs, Memory: 4 << 20, PurgeInterval: e.purge}
}

// use makes db the engine's store.
func (e *storeEngine) use(ctx context.Context, fs *vfs.MemFS, db *store.DB) error {
	items, err := db.Container(ctx, storeDatabase, "items")
	if err != nil {
		return err
	}
	documents, err := db.Container(ctx, storeDatabase, "leases")
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fs, e.db, e.items, e.documents = fs, db, items, documents
	e.generation++
	return nil
}

// powerLoss discards everything that the store has not synced, and reopens the store.
func (e *storeEngine) powerLoss(ctx context.Context) error {
	e.mu.Lock()
	fs, old := e.fs, e.db
	e.mu.Unlock()
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := old.Close(); err != nil {
		return fmt.Errorf("cannot close the store after a power loss: %w", err)
	}
	db, err := store.Open(storeDirectory, e.options(left))
	if err != nil {
		return fmt.Errorf("cannot open the store after a power loss: %w", err)
	}
	if err := db.Check(ctx); err != nil {
		return errors.Join(err, db.Close())
	}
	if err := e.use(ctx, left, db); err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

func (e *storeEngine) container() *store.Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.items
}

func (e *storeEngine) source() feed.Source     { return movingSource{e} }
func (e *storeEngine) leases() lease.Container { return movingContainer{e} }

func (e *storeEngine) commit(ctx context.Context, writes ...itemWrite) (int64, time.Time, error) {
	ops := make([]storetype.Operation, len(writes))
	for i, w := range writes {
		if w.document == nil {
			ops[i] = storetype.Operation{Kind: storetype.OpDelete, ID: w.id}
			continue
		}
		body, err := json.Marshal(w.document)
		if err != nil {
			return 0, time.Time{}, err
		}
		ops[i] = storetype.Operation{Kind: storetype.OpUpsert, Body: body}
	}
	results, err := e.container().Batch(ctx, writes[0].key, ops)
	if err != nil {
		return 0, time.Time{}, err
	}
	at := e.now().Truncate(time.Second)
	for _, r := range results {
		if !r.Modified.IsZero() {
			at = r.Modified
		}
	}
	return results[0].LSN, at, nil
}

// expiries implements [expiringEngine].
func (e *storeEngine) expiries(ctx context.Context, after feed.Continuation) (deletes []feed.Change, through feed.Continuation, err error) {
	r := feed.Request{Mode: feed.AllVersionsAndDeletes, From: feed.After(after), Wait: time.Hour}
	page, err := e.container().Feed(ctx, r)
	for errors.Is(err, storetype.ErrClosed) && ctx.Err() == nil {
		time.Sleep(time.Microsecond) // a power loss ends at the moment at which it begins
		page, err = e.container().Feed(ctx, r)
	}
	if err != nil {
		return nil, "", err
	}
	type transaction struct {
		lsn int64
		key string
	}
	alone := map[transaction]bool{} // whether the transaction has only deletes of expired items
	of := func(c feed.Change) transaction { return transaction{c.LSN, e.keyOf(c).String()} }
	for _, c := range page.Changes {
		if old, known := alone[of(c)]; !known || old {
			alone[of(c)] = c.Expired
		}
	}
	for _, c := range page.Changes {
		if alone[of(c)] {
			deletes = append(deletes, c)
		}
	}
	return deletes, page.Continuation, nil
}

// keyOf returns the partition key of a change's item.
func (e *storeEngine) keyOf(c feed.Change) (key feed.PartitionKey) {
	if c.Op == feed.Delete {
		return c.DeletedKey
	}
	var document map[string]any
	if err := json.Unmarshal(c.Current, &document); err != nil {
		return nil
	}
	for _, path := range e.keyPaths {
		value, found := document[strings.TrimPrefix(path, "/")]
		if !found {
			value = feed.Undefined
		}
		key = append(key, value)
	}
	return key
}

func (e *storeEngine) counters() []counter {
	stats, err := e.container().PartitionStats(context.Background())
	if err != nil {
		return nil
	}
	var all []counter
	for _, p := range stats {
		all = append(all, counter{keys: p.Range, lsn: p.LSN})
	}
	return all
}

func (e *storeEngine) partitions() []feed.Partition {
	p, err := e.container().Partitions(context.Background())
	if err != nil {
		return nil
	}
	return p
}

func (e *storeEngine) split(ctx context.Context, id, at string) error {
	_, err := e.container().Split(ctx, id, at)
	return err
}

func (e *storeEngine) merge(ctx context.Context, left, right string) error {
	_, err := e.container().Merge(ctx, left, right)
	return err
}

// epk returns the EPK of a key, or of a prefix of a hierarchical key. For a key of one
// component, it is also the EPK of Hash V2.
func (e *storeEngine) epk(key feed.PartitionKey) string {
	components := make([]epk.Component, len(key))
	for i, v := range key {
		switch v := v.(type) {
		case nil:
			components[i].Kind = epk.Null
		case bool:
			components[i] = epk.OfBool(v)
		case float64:
			components[i] = epk.OfNumber(v)
		case string:
			components[i] = epk.OfString(v)
		}
	}
	return epk.Hex(epk.MultiHash.Append(nil, components))
}

func (e *storeEngine) now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.db.Now()
}

func (e *storeEngine) close() error {
	e.mu.Lock()
	db := e.db
	e.mu.Unlock()
	return errors.Join(db.Check(context.Background()), db.Close())
}

// movingSource is the change feed of the store that is open now. The store is another one
// after each power loss.
type movingSource struct{ e *storeEngine }

func (s movingSource) current() feed.Source {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return s.e.db.Source(s.e.items)
}

// Identity implements [feed.Source].
func (s movingSource) Identity(ctx context.Context) (feed.Identity, error) {
	return s.current().Identity(ctx)
}

// Partitions implements [feed.Source].
func (s movingSource) Partitions(ctx context.Context) ([]feed.Partition, error) {
	return s.current().Partitions(ctx)
}

// Read implements [feed.Source].
func (s movingSource) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	return s.current().Read(ctx, r)
}

// CheckStart implements [feed.Source].
func (s movingSource) CheckStart(ctx context.Context, from feed.Start, mode feed.Mode) error {
	return s.current().CheckStart(ctx, from, mode)
}

// SplitRange implements [feed.Source].
func (s movingSource) SplitRange(ctx context.Context, r feed.Range, n int) ([]feed.Range, error) {
	return s.current().SplitRange(ctx, r, n)
}

// movingContainer is the lease container of the store that is open now. The store is
// another one after each power loss.
type movingContainer struct{ e *storeEngine }

// Dialect implements [lease.Container].
func (c movingContainer) Dialect() lease.Dialect { return c.e.dialect }

// Open implements [lease.Container].
func (c movingContainer) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	s := &movingStore{e: c.e, key: k}
	_, err := s.current(ctx)
	return s, err
}

// movingStore is one processor's lease store in the store that is open now.
type movingStore struct {
	e   *storeEngine
	key lease.Key

	mu         sync.Mutex // guards the fields below
	generation int
	open       lease.Store
}

func (s *movingStore) current(ctx context.Context) (lease.Store, error) {
	s.e.mu.Lock()
	generation, container := s.e.generation, s.e.db.Leases(s.e.documents).In(s.e.dialect)
	s.e.mu.Unlock()
	s.mu.Lock()
	open, known := s.open, s.generation
	s.mu.Unlock()
	if known == generation {
		return open, nil
	}
	open, err := container.Open(ctx, s.key)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.generation = open, generation
	return open, nil
}

// List implements [lease.Store].
func (s *movingStore) List(ctx context.Context) (lease.Listing, error) {
	open, err := s.current(ctx)
	if err != nil {
		return lease.Listing{}, err
	}
	return open.List(ctx)
}

// SetInitialized implements [lease.Store].
func (s *movingStore) SetInitialized(ctx context.Context, initialised bool) error {
	open, err := s.current(ctx)
	if err != nil {
		return err
	}
	return open.SetInitialized(ctx, initialised)
}

// Create implements [lease.Store].
func (s *movingStore) Create(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	open, err := s.current(ctx)
	if err != nil {
		return lease.Lease{}, err
	}
	return open.Create(ctx, l)
}

// Update implements [lease.Store].
func (s *movingStore) Update(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	open, err := s.current(ctx)
	if err != nil {
		return lease.Lease{}, err
	}
	return open.Update(ctx, l)
}

// Delete implements [lease.Store].
func (s *movingStore) Delete(ctx context.Context, l lease.Lease) error {
	open, err := s.current(ctx)
	if err != nil {
		return err
	}
	return open.Delete(ctx, l)
}

// storeEvery is the number of seeds of which one runs on the embedded store.
const storeEvery = 20

// eventPowerLoss makes the store, which all seeds with such events have, lose everything
// that is not synced.
var eventPowerLoss = &eventKind{func(ctx context.Context, r *run, _ event) {
	if err := r.world.engine.(*storeEngine).powerLoss(ctx); err != nil {
		r.world.fails("%v", err)
	}
	r.world.occurs(powerLosses)
	r.world.trace.add("operator", "power loss", "", "", 0)
}}

// engine returns the engine of a scenario: the embedded store or the engine in memory.
func (s *scenario) engine(ctx context.Context) (engine, error) {
	if !s.has(onStore) {
		return s.memory(), nil
	}
	items := storetype.ContainerProperties{Partitions: s.partitions, DefaultTTL: s.lifetimes().standard, Retention: s.retention, KeyPaths: s.paths()}
	purge := s.lifetimes().purge
	if purge == 0 {
		purge = -1
	}
	e, err := newStoreEngine(ctx, s.mode, items, purge)
	if err == nil {
		e.dialect = s.dialect
	}
	return e, err
}

// A delete of an expired item and the write that replaces the item are one transaction only
// if both have the same key, so a missing member must be undefined, and not null.
func TestKeyOfADocumentIsThatOfItsDelete(t *testing.T) {
	e := &storeEngine{keyPaths: []string{"/tenant", "/user"}}
	for document, key := range map[string]feed.PartitionKey{
		`{"tenant":"t1","user":true}`: {"t1", true},
		`{"tenant":"t1","user":null}`: {"t1", nil},
		`{"tenant":"t1"}`:             {"t1", feed.Undefined},
	} {
		written, deleted := e.keyOf(feed.Change{Current: []byte(document)}), e.keyOf(feed.Change{Op: feed.Delete, DeletedKey: key})
		if written.String() != deleted.String() {
			t.Errorf("%s has the key %s; the delete has %s", document, written, deleted)
		}
	}
}
