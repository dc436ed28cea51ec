// Package engine is the storage engine of package store, on Pebble. Package store is its
// public API. Package server uses the engine directly.
//
// [Open] and [OpenMemory] return a [DB]. A DB creates and finds databases and containers.
// A [Container] writes, reads and lists items, returns pages of the change feed, and
// splits and merges partitions.
//
// Every write passes the sequencer, which is the only goroutine that writes. It assigns
// LSNs and commits groups of writes. Reads and feeds use a view, which is the snapshot
// that the sequencer published last.
//
// Package layout has the keys and values on disk, and package disk opens Pebble. The prefix of a
// file's name is its subject:
//
//   - catalog: databases, containers, partitions, and their statistics
//   - check: the verification of a whole store
//   - db: opening, recovery, the clock, and the purge
//   - doc: documents, their keys, and operations on single items
//   - feed: pages of the change feed
//   - leases: the lease container
//   - scan: pages of items
//   - write: the sequencer, transactions, and unique keys
package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/disk"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// Options are the options of package store, which documents them. Each zero field has its
// default.
type Options struct {
	FS                vfs.FS
	Memory            int64
	MaxOpenFiles      int
	PurgeInterval     time.Duration
	EnforceThroughput bool
	Logger            *slog.Logger
}

// Defaults and limits of Options.
const (
	defaultMemory      = 128 << 20
	defaultMemoryInRAM = 16 << 20
	minMemory          = 4 << 20
	defaultPurge       = time.Second
)

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	o.Memory = max(o.Memory, minMemory)
	if o.PurgeInterval == 0 {
		o.PurgeInterval = defaultPurge
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// DB is an open store. It is safe for concurrent use.
type DB struct {
	dir     *disk.Directory
	config  *disk.Config // of all openings of Pebble
	options Options
	id      string
	// incarnation is the part of the store's incarnation that ETags have.
	incarnation uint16
	clock       *clock
	queue       queue

	// closing is a channel that Close closes first. It wakes the readers that wait for a
	// change.
	closing    chan struct{}
	background sync.WaitGroup // the sequencer and the purger
	retiring   sync.WaitGroup // waits for replaced engines, which close when their last reader is done
	kick       chan struct{}  // wakes the purger when settings or segments change; capacity 1
	requests   sync.Pool      // of *request; each store has its own, because a channel belongs to one synctest bubble
	// scan holds the memory of a finished scan for the next one. It is nil while a scan
	// uses that memory.
	scan atomic.Pointer[chunkScan]

	mu      sync.Mutex // guards current and closed
	current *view
	closed  bool

	// Only the sequencer uses the fields below. writeStates has the writeState of each
	// container at the index Container.slot. An unused slot has nil.
	writeStates   []*writeState
	numbers       numbersRecord
	pebble        *disk.Pebble
	recovery      recovery
	sstPartitions sstPartitions
}

// Close implements store.DB.Close, which documents it.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	db.mu.Unlock()

	close(db.closing)
	db.queue.close()
	db.background.Wait()
	db.current.release()
	err := db.pebble.End()
	db.retiring.Wait()
	db.config.Release()
	return errors.Join(err, db.dir.Unlock())
}

// ID returns the store's ID, which is unique among open stores. Every open generates a
// new ID. So a copy of a store has another ID, although its containers have the same
// resource ids.
func (db *DB) ID() string { return db.id }

// EnforcesThroughput returns the option of that name.
func (db *DB) EnforcesThroughput() bool { return db.options.EnforceThroughput }

// Now implements store.DB.Now, which documents it.
func (db *DB) Now() time.Time { return db.clock.now() }

// writeState returns the writeState of c, or nil if c was deleted. Only the sequencer
// calls it.
func (db *DB) writeState(c *Container) *writeState {
	if l := db.writeStates[c.slot]; l != nil && l.c == c {
		return l
	}
	return nil
}

// view is the state that readers use: a snapshot of the data, and the catalog and
// containers at the same moment.
//
// Pebble shows a batch to readers before the batch is durable. A reader could store a
// continuation after such a write. After a crash another write could take the same LSN,
// and the reader would miss it. So only the sequencer reads the database itself. It
// creates a view for each group of writes, after the group is applied and before the next
// one is. It publishes the view after the group's sync.
//
// All of a view except its reference count is immutable.
type view struct {
	engine  *disk.Pebble // the engine of snap
	snap    *pebble.Snapshot
	catalog *catalog
	// states has the state of each container at the index Container.slot. An unused slot
	// has nil.
	states []*state
	refs   atomic.Int32
}

// state is the state of one container in a view.
type state struct {
	c    *Container
	meta *meta
	// version is higher than in earlier states of the container since the store was
	// opened.
	version int64
	// ends has the last LSN of each partition in meta. grown has the growth of each
	// partition since the store was opened or the partition was created.
	ends  []int64
	grown []growth
}

// catalog holds all databases and containers by name.
type catalog struct {
	databases  map[string]*database
	containers map[containerName]*Container
}

// database holds the properties of one database. It is immutable: a change of its
// properties creates a new value.
type database struct {
	number   uint32
	id       string
	modified int64
	revision uint64 // the number of changes of the properties, from which the ETag is made
	extra    []byte
	// throughput is in RU/s; 0 means none. bucket is the same one in all revisions, because
	// containers keep it.
	throughput int
	bucket     *bucket
}

type containerName struct {
	database uint32
	id       string
}

// acquire returns the current view. The caller must release it. It returns ctx's error if
// ctx has ended, and [storetype.ErrClosed] if the store is closed.
func (db *DB) acquire(ctx context.Context) (*view, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return db.acquireView()
}

// acquireView returns the current view for background work, which has no context. The
// caller must release the view. It returns [storetype.ErrClosed] if the store is closed.
func (db *DB) acquireView() (*view, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, storetype.ErrClosed
	}
	db.current.refs.Add(1)
	return db.current, nil
}

// release ends one use of the view. The last release closes the snapshot.
func (v *view) release() {
	if v.refs.Add(-1) > 0 {
		return
	}
	// Close returns an error only if the snapshot was closed before.
	_ = v.snap.Close()
	v.engine.Views.Done()
}

// publish makes v the view that new reads use. It releases the view before.
func (db *DB) publish(v *view) {
	v.refs.Store(1)
	v.engine.Views.Add(1)
	db.mu.Lock()
	old := db.current
	db.current = v
	db.mu.Unlock()
	if old != nil {
		old.release()
	}
}

// state returns the state of c in v. It returns an error if c was deleted.
func (v *view) state(c *Container) (*state, error) {
	if s := v.states[c.slot]; s != nil && s.c == c {
		return s, nil
	}
	return nil, notFound("container %s", c.name)
}

// open returns the current view and the state of c in it. The caller must release the
// view.
func (c *Container) open(ctx context.Context) (*view, *state, error) {
	v, err := c.db.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := v.state(c)
	if err != nil {
		v.release()
		return nil, nil, err
	}
	return v, s, nil
}

// getValue returns a copy of a key's value. It returns pebble.ErrNotFound if the key does
// not exist.
func getValue(r pebble.Reader, key []byte) ([]byte, error) {
	b, closer, err := r.Get(key)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(b), closer.Close()
}

// lookup returns the index entry under an index key. ok reports whether the key exists.
func lookup(r pebble.Reader, key []byte) (e layout.Entry, ok bool, err error) {
	b, closer, err := r.Get(key)
	if err != nil {
		return e, false, ignoreNotFound(err)
	}
	e, err = layout.DecodeEntry(b)
	if cerr := closer.Close(); err == nil {
		err = cerr
	}
	return e, err == nil, err
}

// fetch appends to dst the stored document that index entry e refers to. point is the
// point of the item's key.
func (c *Container) fetch(r pebble.Reader, dst []byte, e layout.Entry, point []byte) ([]byte, error) {
	var space [layout.LogKeySize + 64]byte
	key := layout.AppendLogKey(space[:0], layout.SpaceLog, c.number, e.Segment, e.LSN, e.Ordinal)
	return c.fetchKey(r, dst, append(key, point...))
}

// fetchKey appends to dst the stored document under a log key. It returns a
// *[storetype.CorruptError] if the key does not exist.
func (c *Container) fetchKey(r pebble.Reader, dst, key []byte) ([]byte, error) {
	b, closer, err := r.Get(key)
	if err != nil {
		if ignoreNotFound(err) == nil {
			return nil, layout.Corrupt("container %s: document %x at LSN %d is in the index but not in the log", c.name, key, layout.LogLSN(key))
		}
		return nil, c.db.fault(err)
	}
	dst = append(dst, b[layout.LogHeaderSize:]...)
	return dst, closer.Close()
}

// gone returns the *feed.GoneError of a request for a partition ID or a range that no
// single live partition has.
func gone(id string, r feed.Range) error { return &feed.GoneError{Partition: id, Range: r} }
