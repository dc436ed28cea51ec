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

// DB is an open store. It is safe for concurrent use.
type DB engine.DB

// Options configure a store. A zero field has its default.
type Options struct {
	// FS is the file system of the store. If nil, the operating system's is used.
	FS vfs.FS
	// Memory bounds the block cache and the memtables together, in bytes. If zero, 128
	// MiB is used by [Open] and 16 MiB by [OpenMemory]. The minimum is 4 MiB.
	Memory int64
	// MaxOpenFiles is the number of tables that may be open at a time. About 20 other
	// files are open, too. If zero, 1,000 is used.
	MaxOpenFiles int
	// PurgeInterval is the time between two runs of the purge. The purge deletes expired
	// items and versions past their retention. The store returns neither of them, even
	// before the purge. If zero, 1 s is used. If -1, the purge is disabled.
	PurgeInterval time.Duration
	// EnforceThroughput makes a request return a *feed.ThrottledError when the provisioned
	// throughput of its container is used up, or that of the database, which containers
	// without throughput of their own share. A server in front of the store answers 429
	// then. If false, throughput is only stored and shown.
	EnforceThroughput bool
	// Logger logs background events. If nil, nothing is logged.
	Logger *slog.Logger
}

// Open opens the store in the directory dir. It creates the directory if it does not
// exist. On the operating system's file system, only the owner may read the directory
// (mode 0700) and its files (0600). If others may read an existing directory, Open
// restricts it and logs that. Open does not change a directory of another owner, but logs
// a warning.
//
// Open returns a *[storetype.LockedError] if a process has the directory open, a
// *[storetype.FormatError] if another release wrote it in another format, and a
// *[storetype.CorruptError] if a file is damaged or missing. If the disk refuses to write, Open
// returns an error that wraps the disk's. On a full disk the error names the room that Open
// needs. Open may then be called again.
//
// If the disk refuses writes later, every write returns a *[storetype.DiskError] at once, and reads
// are served. The store retries and resumes writes when the disk accepts them. No
// acknowledged write is lost.
func Open(dir string, o Options) (*DB, error) {
	db, err := engine.Open(dir, engine.Options(o))
	return (*DB)(db), err
}

// OpenMemory opens a new, empty store in memory. Close discards its contents.
func OpenMemory(o Options) (*DB, error) {
	db, err := engine.OpenMemory(engine.Options(o))
	return (*DB)(db), err
}

func (db *DB) engine() *engine.DB { return (*engine.DB)(db) }

// Close stops the background work, waits for the requests in progress, and closes the
// files. Reads that wait for a change return [storetype.ErrClosed]. So does every later call. A
// second Close does nothing.
func (db *DB) Close() error { return db.engine().Close() }

// Now returns the time of the store's clock. The clock sets _ts and decides which items
// have expired. It never goes back, not even after a restart. It starts at the wall clock
// or at the last _ts, whichever is later, and follows the monotonic clock. If the wall
// clock is more than a second ahead, as after the machine was suspended, the clock
// advances to it.
func (db *DB) Now() time.Time { return db.engine().Now() }

// Check verifies every invariant of the store: index and logs, the order of LSNs and
// resource ids, partitions, documents, versions, statistics, and the indexes of unique
// keys. It reads the whole store from one snapshot. Writers may continue meanwhile. The
// returned error joins the first 20 findings, each a *[storetype.CorruptError].
//
// For items with equal values in a unique key, the error joins the first 20 such pairs, each
// a *[storetype.UniqueKeyError].
func (db *DB) Check(ctx context.Context) error { return db.engine().Check(ctx) }

// CreateDatabase creates a database with the ID, Throughput and Extra of p. It returns
// [storetype.ErrConflict] if the database exists. It returns a *[storetype.BadRequestError] or a
// *[storetype.TooLargeError] if p is not valid.
func (db *DB) CreateDatabase(ctx context.Context, p storetype.DatabaseProperties) (storetype.DatabaseProperties, error) {
	return db.engine().CreateDatabase(ctx, p)
}

// Database returns the properties of a database. It returns an error that wraps
// feed.ErrNotFound if the database does not exist.
func (db *DB) Database(ctx context.Context, id string) (storetype.DatabaseProperties, error) {
	return db.engine().Database(ctx, id)
}

// Databases returns the properties of all databases, sorted by name.
func (db *DB) Databases(ctx context.Context) ([]storetype.DatabaseProperties, error) {
	return db.engine().Databases(ctx)
}

// ReplaceDatabase replaces the Throughput and the Extra of a database. It returns an error
// that wraps feed.ErrNotFound if the database does not exist. It returns
// [storetype.ErrPreconditionFailed] if p.ETag is neither empty, nor "*", nor the current ETag.
func (db *DB) ReplaceDatabase(ctx context.Context, p storetype.DatabaseProperties) (storetype.DatabaseProperties, error) {
	return db.engine().ReplaceDatabase(ctx, p)
}

// DeleteDatabase deletes a database and all its containers. It returns an error that
// wraps feed.ErrNotFound if the database does not exist.
func (db *DB) DeleteDatabase(ctx context.Context, id string) error {
	return db.engine().DeleteDatabase(ctx, id)
}

// CreateContainer creates a container. It returns [storetype.ErrConflict] if the container exists,
// and an error that wraps feed.ErrNotFound if the database does not exist. It returns a
// *[storetype.BadRequestError] or a *[storetype.TooLargeError] if p is not valid.
func (db *DB) CreateContainer(ctx context.Context, database string, p storetype.ContainerProperties) (*Container, error) {
	c, err := db.engine().CreateContainer(ctx, database, p)
	return (*Container)(c), err
}

// Container returns the handle to a container. It returns an error that wraps
// feed.ErrNotFound if the container does not exist.
func (db *DB) Container(ctx context.Context, database, id string) (*Container, error) {
	c, err := db.engine().Container(ctx, database, id)
	return (*Container)(c), err
}

// Containers returns the handles to all containers of a database, sorted by name.
func (db *DB) Containers(ctx context.Context, database string) ([]*Container, error) {
	all, err := db.engine().Containers(ctx, database)
	handles := make([]*Container, len(all))
	for i, c := range all {
		handles[i] = (*Container)(c)
	}
	return handles, err
}

// ReplaceContainer replaces DefaultTTL, Retention, Throughput and Extra of a container.
// When Retention becomes zero, all kept versions are dropped. When it becomes positive,
// versions are kept from then on. ReplaceContainer returns [storetype.ErrPreconditionFailed] if
// p.ETag is not the container's.
func (db *DB) ReplaceContainer(ctx context.Context, database string, p storetype.ContainerProperties) (*Container, error) {
	c, err := db.engine().ReplaceContainer(ctx, database, p)
	return (*Container)(c), err
}

// DeleteContainer deletes a container and all its items. It returns an error that wraps
// feed.ErrNotFound if the container does not exist.
func (db *DB) DeleteContainer(ctx context.Context, database, id string) error {
	return db.engine().DeleteContainer(ctx, database, id)
}

// Source returns the change feed of a container.
//
// A continuation of the feed is a decimal LSN in double quotes. For a merged partition, it
// may have an LSN for each range of keys. It is valid for the part of the container that
// was read, also after splits and merges, and for any part of that. A start time in the
// future means now. A read with Wait returns when the first change arrives. When the store
// is closed, it returns [storetype.ErrClosed].
//
// In all versions and deletes mode, a start from the beginning or from a time returns
// feed.ErrUnsupported. So does every read of a container without Retention. A position
// before the retention returns a *feed.HistoryLostError, whose Oldest is the first
// readable position. So does, in both modes, a position that the log never reached or that
// was lost when an older copy of the store was restored. There Oldest is the end of what
// was restored.
func (db *DB) Source(c *Container) feed.Source { return db.engine().Source(c.engine()) }

// Leases returns the lease container over c. Each lease is a document of c in the format
// of the .NET change feed processor. It can be read and changed like any other item.
// [Leases.In] selects another format.
//
// The container c must be partitioned by /id or /partitionKey, or have no partition key
// (SystemKey). Its DefaultTTL must not be above zero. Otherwise Open returns a
// *lease.DialectError. Each write is one request to the store. A write whose condition
// fails returns the current document. A listing is one request, which reads one snapshot:
// every id of c, and the documents of the leases. The Now of a listing is [DB.Now].
func (db *DB) Leases(c *Container) Leases { return Leases(db.engine().Leases(c.engine())) }

// Leases is a [lease.Container]. [DB.Leases] returns it. It is safe for concurrent use.
type Leases engine.Leases

// In returns a copy of l whose documents have the given dialect. Processors of other
// implementations can share such leases.
func (l Leases) In(d lease.Dialect) Leases { return Leases(engine.Leases(l).In(d)) }

// Dialect returns the dialect of the lease documents.
func (l Leases) Dialect() lease.Dialect { return engine.Leases(l).Dialect() }

// Open implements [lease.Container].
func (l Leases) Open(ctx context.Context, k lease.Key) (lease.Store, error) {
	return engine.Leases(l).Open(ctx, k)
}
