// Package engine is the storage engine under package store, on Pebble. Package store is
// the users' view of it; package server works on the engine itself.
//
// A write passes the sequencer, which assigns LSNs and commits groups. Reads and feeds use
// the snapshot that the sequencer published last. FORMAT.md describes the keys and
// values on disk.
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
)

// Options configure a store. The zero value of a field is its default.
type Options struct {
	// FS is the file system of the store. If nil, the operating system's is used.
	FS vfs.FS
	// Memory bounds the block cache and the memtables together, in bytes. If zero, 128 MiB
	// is used by [Open] and 16 MiB by [OpenMemory]. The minimum is 4 MiB.
	Memory int64
	// MaxOpenFiles is the number of tables that may be open at a time, besides some 20
	// other files. If zero, 1,000 is used.
	MaxOpenFiles int
	// PurgeInterval is the time between two runs of the background work that removes
	// expired items and versions past their retention. Neither is ever returned, purged or
	// not. If zero, 1 s is used. -1 disables the background work.
	PurgeInterval time.Duration
	// IgnoreThroughput disables the limits of [ContainerProperties].Throughput: no request
	// returns a *feed.ThrottledError.
	IgnoreThroughput bool
	// Logger logs background events. If nil, nothing is logged.
	Logger *slog.Logger
}

// The defaults and the floor of Options.
const (
	defaultMemory       = 128 << 20
	defaultMemoryInRAM  = 16 << 20
	minMemory           = 4 << 20
	defaultPurge        = time.Second
	maxMemTable         = 32 << 20
	minMemTable         = 1 << 20
	memTables           = 4 // writes stall when so many wait to be flushed
	memTableShare       = 4 // a memtable is at most this part of the memory
	baseLevelSize       = 64 << 20
	firstLevelFile      = 4 << 20
	bloomBits           = 10
	compactAtL0, stopL0 = 4, 24
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
	dir     string // empty in memory
	options Options
	id      string
	lock    *pebble.Lock
	cache   *pebble.Cache     // of all engines
	files   *pebble.FileCache // of all engines; nil: each has one of its own
	clock   *clock
	queue   queue

	// closing is closed when Close begins, for those who wait.
	closing    chan struct{}
	background sync.WaitGroup // sequencer and purger
	retiring   sync.WaitGroup // engines that were replaced and are not closed yet
	kick       chan struct{}  // of capacity 1: the purger looks at the containers again
	requests   sync.Pool      // *request; per store, since a channel belongs to its synctest bubble
	// scan is the memory of a scan that is over, for the next one; nil: none, or it is in use.
	scan atomic.Pointer[chunkScan]

	mu      sync.Mutex // guards current and closed
	current *view
	closed  bool

	// The rest is the sequencer's own. A writeState stands at its container's slot; nil: free.
	writeStates   []*writeState
	numbers       numbersRecord
	pebble        *pebbleDB
	recovery      recovery
	sstPartitions sstPartitions
}

// Close stops the background work, waits for requests that are under way, and closes the
// files. Reads that wait for a change return ErrClosed, and so does every later call. A
// second Close does nothing.
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
	err := db.pebble.end()
	db.retiring.Wait()
	db.releaseCaches()
	return errors.Join(err, unlockDirectory(db.options.FS, db.path(), db.lock))
}

// ID returns a name that no other open store has. Every Open generates a new one: a copy of a
// store is another store, and its containers have the same resource ids.
func (db *DB) ID() string { return db.id }

// Now returns the time of the store's clock, which sets _ts and decides which items have
// expired. It never goes back, not even over a restart. The clock starts at the wall clock,
// or at the last _ts if that is later, and follows the monotonic clock. It catches up with a
// wall clock that is more than a second ahead, as after the machine was suspended.
func (db *DB) Now() time.Time { return db.clock.now() }

// memoryDir is the directory of a store in memory.
const memoryDir = "store"

func (db *DB) path() string {
	if db.dir == "" {
		return memoryDir
	}
	return db.dir
}

// writeState returns c's; nil: it was deleted. For the sequencer alone.
func (db *DB) writeState(c *Container) *writeState {
	if l := db.writeStates[c.slot]; l != nil && l.c == c {
		return l
	}
	return nil
}

// view is what readers see: a snapshot of the data, and what belongs to it. The
// sequencer makes one per group of writes, between the group's application and
// the next one's, and publishes it after the group's sync. Pebble shows a batch
// to readers before it is durable; whoever read such a write, and stored a
// continuation behind it, would miss what takes its LSN after a crash. So
// nobody but the sequencer reads the database itself.
//
// Everything in a view is immutable but its count of readers.
type view struct {
	engine  *pebbleDB // that snap is of
	snap    *pebble.Snapshot
	catalog *catalog
	// states are the containers, each at its slot; nil: the slot is free.
	states []*state
	refs   atomic.Int32
}

// state is one container in a view.
type state struct {
	c    *Container
	meta *meta
	// ends has the last LSN of each partition of meta, and grown what was added to each.
	ends  []int64
	grown []growth
}

// catalog is what databases and containers there are, by name.
type catalog struct {
	databases  map[string]*database
	containers map[containerName]*Container
}

// database is immutable; a change of its properties makes a new one.
type database struct {
	number   uint32
	id       string
	modified int64
	revision uint64 // counts the changes of extra, for the ETag
	extra    []byte
}

type containerName struct {
	database uint32
	id       string
}

// acquire returns the current view, unless ctx has ended; release must follow.
func (db *DB) acquire(ctx context.Context) (*view, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return db.acquireView()
}

// acquireView is acquire for the background work, which has no context.
func (db *DB) acquireView() (*view, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, ErrClosed
	}
	db.current.refs.Add(1)
	return db.current, nil
}

// release gives the view back. Its snapshot is closed by the last one to do so.
func (v *view) release() {
	if v.refs.Add(-1) > 0 {
		return
	}
	// Can't fail: it reports only that it was closed before.
	_ = v.snap.Close()
	v.engine.views.Done()
}

// publish makes v what readers see from now on.
func (db *DB) publish(v *view) {
	v.refs.Store(1)
	v.engine.views.Add(1)
	db.mu.Lock()
	old := db.current
	db.current = v
	db.mu.Unlock()
	if old != nil {
		old.release()
	}
}

// state returns c's, or an error when c was deleted.
func (v *view) state(c *Container) (*state, error) {
	if s := v.states[c.slot]; s != nil && s.c == c {
		return s, nil
	}
	return nil, notFound("container %s", c.name)
}

// open acquires the current view and finds c in it.
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

// getValue returns a copy of the value of a key, or pebble.ErrNotFound.
func getValue(r pebble.Reader, key []byte) ([]byte, error) {
	b, closer, err := r.Get(key)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(b), closer.Close()
}

// lookup reads an item's index entry; ok is false when there is none.
func lookup(r pebble.Reader, key []byte) (e entry, ok bool, err error) {
	b, closer, err := r.Get(key)
	if err != nil {
		return e, false, ignoreNotFound(err)
	}
	e, err = decodeEntry(b)
	if cerr := closer.Close(); err == nil {
		err = cerr
	}
	return e, err == nil, err
}

// fetch appends the stored document of an entry to dst.
func (c *Container) fetch(r pebble.Reader, dst []byte, e entry, point []byte) ([]byte, error) {
	var space [logKeySize + 64]byte
	key := appendLogKey(space[:0], spaceLog, c.number, e.segment, e.lsn, e.ordinal)
	return c.fetchKey(r, dst, append(key, point...))
}

// fetchKey appends the stored document of a key of the log to dst.
func (c *Container) fetchKey(r pebble.Reader, dst, key []byte) ([]byte, error) {
	b, closer, err := r.Get(key)
	if err != nil {
		if ignoreNotFound(err) == nil {
			return nil, corrupt("container %s: the index names the document %x at LSN %d, and it is not in the log", c.name, key, logLSN(key))
		}
		return nil, c.db.fault(err)
	}
	dst = append(dst, b[logHeaderSize:]...)
	return dst, closer.Close()
}

// gone is the answer to a request for a partition that isn't live.
func gone(id string, r feed.Range) error { return &feed.GoneError{Partition: id, Range: r} }
