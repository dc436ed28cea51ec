package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/storetype"
)

// DB is an open store, safe for concurrent use.
type DB engine.DB

// Options configure a store. A zero field has its default.
type Options struct {
	// FS is the store's file system. If nil, the operating system's is used.
	FS vfs.FS
	// Memory bounds the block cache and the memtables together, in bytes. If zero, 128
	// MiB is used by [Open] and 16 MiB by [OpenMemory]. The minimum is 4 MiB.
	Memory int64
	// MaxOpenFiles is how many tables may be open at a time, besides about 20 other files.
	// If zero, 1,000 is used.
	MaxOpenFiles int
	// PurgeInterval is how often expired items, and versions past their retention, are
	// deleted to make room. (The store returns neither even before that.) If zero, 1 s is
	// used. If -1, they are never deleted.
	PurgeInterval time.Duration
	// EnforceThroughput makes a request return a *feed.ThrottledError when the throughput
	// provisioned for its container is used up, or for the database, which containers
	// without their own share. A server in front of the store then answers 429. If false,
	// throughput is only stored and shown.
	EnforceThroughput bool
	// Logger logs background events. If nil, nothing is logged.
	Logger *slog.Logger
}

// Open opens the store in the directory dir, which it creates if there is none. On the
// operating system's file system, only the owner may read the directory (mode 0700) and
// its files (0600). If others may read an existing directory, Open restricts it and logs
// that, unless it has another owner; then Open only logs a warning.
//
// Open returns a *[storetype.LockedError] if a process has the directory open, a
// *[storetype.FormatError] if another release wrote it in another format, and a
// *[storetype.CorruptError] if a file is damaged or missing. If the disk refuses to
// write, the error wraps the disk's; on a full disk it names the room that Open needs.
// Call Open again when the disk accepts writes.
//
// If the disk refuses writes later, reads are still served, but every write returns a
// *[storetype.DiskError] at once until the store's own retries find that the disk accepts
// writes again. No acknowledged write is lost.
func Open(dir string, o Options) (*DB, error) {
	db, err := engine.Open(dir, engine.Options(o))
	return (*DB)(db), err
}

// OpenMemory opens a new, empty store in memory, whose contents Close discards.
func OpenMemory(o Options) (*DB, error) {
	db, err := engine.OpenMemory(engine.Options(o))
	return (*DB)(db), err
}

func (db *DB) engine() *engine.DB { return (*engine.DB)(db) }

// Close stops the background work, waits for the requests in progress, and closes the
// files. Reads that wait for a change, and all later calls, return [storetype.ErrClosed].
// A second Close does nothing.
func (db *DB) Close() error { return db.engine().Close() }

// Now returns the time by the store's clock, which sets _ts and decides which items have
// expired. The clock never goes back, not even after a restart, because it starts at the
// wall clock or the last _ts, whichever is later, and follows the monotonic clock. Only
// if the wall clock is more than a second ahead, as after the machine was suspended, the
// clock advances to it.
func (db *DB) Now() time.Time { return db.engine().Now() }

// Check verifies every invariant of the store: index and logs, the order of LSNs and
// resource ids, partitions, documents, versions, statistics, and the indexes of unique
// keys. It reads the whole store from one snapshot while writers continue. The error
// joins the first 20 findings, each a *[storetype.CorruptError].
//
// Items with equal values in a unique key are found too: the error joins the first 20
// pairs, each a *[storetype.UniqueKeyError].
func (db *DB) Check(ctx context.Context) error { return db.engine().Check(ctx) }

// CreateDatabase creates a database with p's ID, Throughput and Extra. The errors are
// [storetype.ErrConflict] if the database exists, and a *[storetype.BadRequestError] or
// *[storetype.TooLargeError] if p is not valid.
func (db *DB) CreateDatabase(ctx context.Context, p storetype.DatabaseProperties) (storetype.DatabaseProperties, error) {
	return db.engine().CreateDatabase(ctx, p)
}

// Database returns a database's properties, or an error that wraps feed.ErrNotFound if
// there is none.
func (db *DB) Database(ctx context.Context, id string) (storetype.DatabaseProperties, error) {
	return db.engine().Database(ctx, id)
}

// Databases returns every database's properties, sorted by name.
func (db *DB) Databases(ctx context.Context) ([]storetype.DatabaseProperties, error) {
	return db.engine().Databases(ctx)
}

// ReplaceDatabase replaces a database's Throughput and Extra. The errors are one that
// wraps feed.ErrNotFound if there is no such database, and
// [storetype.ErrPreconditionFailed] if p.ETag is neither empty, nor "*", nor the current
// ETag.
func (db *DB) ReplaceDatabase(ctx context.Context, p storetype.DatabaseProperties) (storetype.DatabaseProperties, error) {
	return db.engine().ReplaceDatabase(ctx, p)
}

// DeleteDatabase deletes a database and all its containers. If there is none, the error
// wraps feed.ErrNotFound.
func (db *DB) DeleteDatabase(ctx context.Context, id string) error {
	return db.engine().DeleteDatabase(ctx, id)
}

// CreateContainer creates a container. The errors are [storetype.ErrConflict] if the
// container exists, one that wraps feed.ErrNotFound if the database does not exist, and a
// *[storetype.BadRequestError] or *[storetype.TooLargeError] if p is not valid.
func (db *DB) CreateContainer(ctx context.Context, database string, p storetype.ContainerProperties) (*Container, error) {
	c, err := db.engine().CreateContainer(ctx, database, p)
	return (*Container)(c), err
}

// Container returns the handle to a container, or an error that wraps feed.ErrNotFound if
// there is none.
func (db *DB) Container(ctx context.Context, database, id string) (*Container, error) {
	c, err := db.engine().Container(ctx, database, id)
	return (*Container)(c), err
}

// Containers returns handles to all of a database's containers, sorted by name.
func (db *DB) Containers(ctx context.Context, database string) ([]*Container, error) {
	all, err := db.engine().Containers(ctx, database)
	handles := make([]*Container, len(all))
	for i, c := range all {
		handles[i] = (*Container)(c)
	}
	return handles, err
}

// ReplaceContainer replaces a container's DefaultTTL, Retention, Throughput and Extra.
// When Retention becomes zero, all kept versions are dropped; when it becomes positive,
// versions are kept from then on. If p.ETag is not the container's,
// [storetype.ErrPreconditionFailed] is returned.
func (db *DB) ReplaceContainer(ctx context.Context, database string, p storetype.ContainerProperties) (*Container, error) {
	c, err := db.engine().ReplaceContainer(ctx, database, p)
	return (*Container)(c), err
}

// DeleteContainer deletes a container and all its items. If there is none, the error
// wraps feed.ErrNotFound.
func (db *DB) DeleteContainer(ctx context.Context, database, id string) error {
	return db.engine().DeleteContainer(ctx, database, id)
}

// Source returns a container's change feed, for a processor or a feed.Reader.
//
// A continuation is a decimal LSN in double quotes, or one for each range of keys if the
// partition was merged. Splits and merges do not affect it, and it is valid for any part
// of what was read. A start time in the future means now. A read with Wait returns when
// the first change arrives, or with [storetype.ErrClosed] when the store is closed.
//
// All versions and deletes mode needs a container with Retention and a start from now or
// from a position; anything else returns feed.ErrUnsupported. A position before the
// retention returns a *feed.HistoryLostError, whose Oldest is the first readable
// position. In both modes the same error is returned for a position that the log never
// reached, or that was lost when an older copy of the store was restored; there Oldest is
// the end of what was restored.
func (db *DB) Source(c *Container) feed.Source { return db.engine().Source(c.engine()) }

// Leases returns the lease container over c. Each lease is an ordinary item in c, in the
// .NET change feed processor's format; [Leases.In] selects another.
//
// The container must be partitioned by /id or /partitionKey, or have no partition key
// (SystemKey), and its DefaultTTL must not be above zero; otherwise Open returns a
// *lease.DialectError. Each write is one request, which returns the current document if
// its condition fails. A listing is one request over one snapshot: it reads every id in
// c, and the leases' documents. Its Now is [DB.Now].
func (db *DB) Leases(c *Container) Leases { return Leases(db.engine().Leases(c.engine())) }

// Leases is a lease.Container, which [DB.Leases] returns. It is safe for concurrent use.
type Leases engine.Leases

// In returns a copy of l with documents in the given dialect. Use it to share leases with
// processors of other implementations.
func (l Leases) In(d lease.Dialect) Leases { return Leases(engine.Leases(l).In(d)) }

// Dialect returns the dialect of the lease documents.
func (l Leases) Dialect() lease.Dialect { return engine.Leases(l).Dialect() }

// Open implements [lease.Container].
func (l Leases) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	return engine.Leases(l).Open(ctx, k)
}
