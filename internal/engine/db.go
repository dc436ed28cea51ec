package engine

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options says how a store is opened. The zero value is the default of every
// field.
type Options struct {
	// FS is the file system the store lives in. Default: the operating system's.
	FS vfs.FS
	// Memory is how many bytes the store may use for its block cache and its
	// memtables together. Default: 128 MiB for [Open], 16 MiB for [OpenMemory];
	// never less than 4 MiB.
	Memory int64
	// MaxOpenFiles is how many of the store's tables may be open at a time. Some 20 further files are. If zero, 1,000 is used.
	MaxOpenFiles int
	// PurgeInterval is the time between two rounds of the background work that
	// removes expired items and versions past their retention. Neither is ever
	// shown, purged or not. Default: 1 s; -1: no background work.
	PurgeInterval time.Duration
	// IgnoreThroughput says that the throughput of containers is recorded, and not enforced: no
	// request is ever answered with *feed.ThrottledError.
	IgnoreThroughput bool
	// Logger gets what happens in the background. Default: none.
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

// DB is an open store. Its methods may be called concurrently.
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
	background sync.WaitGroup // sequencer and janitor
	retiring   sync.WaitGroup // engines that were replaced and are not closed yet
	kick       chan struct{}  // of capacity 1: the janitor looks at the containers again
	requests   sync.Pool      // *request; per store, since a channel belongs to its synctest bubble
	// scan is the memory of a scan that is over, for the next one; nil: none, or it is in use.
	scan atomic.Pointer[bulk]

	mu      sync.Mutex // guards current and closed
	current *view
	closed  bool

	// The rest is the sequencer's own. A ledger stands at its container's slot; nil: free.
	ledgers  []*ledger
	numbers  numbersRecord
	pebble   *engine
	recovery recovery
	busy     busySegments
}

// Close ends all background work, waits for writes and reads that are under way, and
// closes the files. Reads that wait for a change return [ErrClosed], as does
// every later call. The second Close does nothing.
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

// ID returns a name that no other open store has. Every Open makes a new one: a copy of a store is another store, and its
// containers have the same resource ids.
func (db *DB) ID() string { return db.id }

// Now returns the time of the store's clock: the wall clock when the store was opened, or the
// last _ts written if that is later, plus the monotonic time since. It catches up with a wall
// clock that is more than a second ahead, as after the machine was suspended. It stamps
// _ts and decides what has expired. It never goes back, not over a restart either.
func (db *DB) Now() time.Time { return db.clock.now() }

// memoryDir is the directory of a store in memory.
const memoryDir = "store"

func (db *DB) path() string {
	if db.dir == "" {
		return memoryDir
	}
	return db.dir
}

// ledger returns c's; nil: it was deleted. For the sequencer alone.
func (db *DB) ledger(c *Container) *ledger {
	if l := db.ledgers[c.slot]; l != nil && l.c == c {
		return l
	}
	return nil
}
