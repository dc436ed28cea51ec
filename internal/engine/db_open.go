package engine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/storetype"
)

// Open implements store.Open, which documents it.
func Open(dir string, o Options) (*DB, error) {
	o = o.withDefaults()
	if o.FS == vfs.Default {
		// Within a process, Pebble locks a directory by its name. Without a canonical
		// name, a second open through a symbolic link would succeed.
		name, made, err := realDirectory(dir)
		if err != nil {
			return nil, fmt.Errorf("open store %s: %w", dir, err)
		}
		if !made {
			if _, err := readFormat(vfs.Default, name); errors.As(err, new(*storetype.FormatError)) {
				return nil, err // before anything in the directory changes
			}
			closeToOthers(name, o.Logger)
		}
		dir, o.FS = name, ownerOnlyFS{vfs.Default}
	}
	return open(&DB{dir: dir, options: o})
}

// realDirectory creates the directory dir if it does not exist. It returns its absolute
// name without symbolic links, and reports whether it created the directory.
func realDirectory(dir string) (name string, made bool, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", false, err
	}
	if made, err = makeDirectory(abs); err != nil {
		return "", false, err
	}
	name, err = filepath.EvalSymlinks(abs)
	return name, made, err
}

// OpenMemory opens a new, empty store in memory. Close discards its contents.
func OpenMemory(o Options) (*DB, error) {
	if o.Memory == 0 {
		o.Memory = defaultMemoryInRAM
	}
	o.FS = vfs.NewMem()
	return open(&DB{options: o.withDefaults()})
}

// OpenMemoryAnew opens a store as OpenMemory does, but its resource ids begin at a random
// number. A server needs that, because its clients may outlive it: they would take the
// containers of the next store for those that they know, whose positions are not valid
// there. Tests use OpenMemory, whose ids are always the same.
func OpenMemoryAnew(o Options) (*DB, error) {
	db, err := OpenMemory(o)
	if err != nil {
		return nil, err
	}
	return db, db.control(func(g *group) error {
		// A restart rarely gives a number twice. The numbers stay below 2^23, because the
		// rid of an offer has room for no more, and Java's SDK refuses a longer one.
		const most = 1 << 22
		db.numbers.Database, db.numbers.Container = mathrand.Uint32N(most), mathrand.Uint32N(most)
		return g.putNumbers()
	})
}

func open(db *DB) (*DB, error) {
	db.id = rand.Text()
	fs, dir := db.options.FS, db.path()
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	lock, err := lockDirectory(fs, dir)
	if err != nil {
		return nil, db.withNeed(err)
	}
	db.lock = lock
	if err := db.start(); err != nil {
		return nil, errors.Join(err, unlockDirectory(fs, dir, lock))
	}
	return db, nil
}

// start opens the files of a locked directory and starts the background work.
func (db *DB) start() error {
	if err := db.checkFiles(); err != nil {
		return err
	}
	db.makeCaches()
	e, err := db.openFirst()
	if err != nil {
		db.releaseCaches()
		return db.openFault(err)
	}
	db.pebble = e
	db.closing = make(chan struct{})
	db.kick = make(chan struct{}, 1)
	db.queue.wake = make(chan struct{}, 1)
	// An engine that was cut off from the disk returns no errors. So start also checks
	// whether its disk was cut off.
	err = e.disk.refusal()
	if err == nil {
		err = db.load(e)
	}
	if err != nil {
		err = errors.Join(db.startFault(err), e.end())
		db.releaseCaches()
		return err
	}
	db.background.Add(2)
	go db.sequence()
	go db.clean()
	return nil
}

// checkFiles checks the files by their witnesses and changes nothing if it refuses them,
// because Pebble would delete what a damaged manifest does not name. It then writes the
// format of this release into a directory that is new.
func (db *DB) checkFiles() error {
	fs, dir := db.options.FS, db.path()
	found, err := readFormat(fs, dir)
	if err != nil {
		return db.withNeed(err)
	}
	if err := checkLogs(fs, dir); err != nil {
		return db.openFault(err)
	}
	if err := checkManifest(fs, dir); err != nil {
		return db.openFault(err)
	}
	if found == 0 {
		if err := writeFormat(fs, dir); err != nil {
			return db.withNeed(fmt.Errorf("create store %s: %w", dir, err))
		}
	}
	return nil
}

// openFirst opens the first engine. If Pebble fails to open on a full disk, it may have
// flushed some logs into tables and deleted them. openFirst retries as long as an attempt
// makes the logs smaller.
func (db *DB) openFirst() (*pebbleDB, error) {
	for {
		before, _ := db.logSize() // on an error, before is 0 and there is no retry
		e, err := db.openPebble(false, func(*pebbleDB) {})
		if !errors.Is(err, syscall.ENOSPC) {
			return e, err
		}
		if after, listErr := db.logSize(); listErr != nil || after >= before {
			return e, err
		}
	}
}

// makeCaches creates the caches that all engines share.
func (db *DB) makeCaches() {
	db.cache = pebble.NewCache(db.options.Memory)
	if n := db.options.MaxOpenFiles; n > 0 {
		// Pebble's own option MaxOpenFiles is never less than about 70.
		db.files = pebble.NewFileCache(min(runtime.GOMAXPROCS(0), n), n)
	}
}

// releaseCaches releases the store's references to the caches.
func (db *DB) releaseCaches() {
	db.cache.Unref()
	if db.files != nil {
		db.files.Unref()
	}
}

// openFault returns the error to report for an error of opening. If the operating system
// refused an operation, it wraps the error of the system. It reports all other errors, a
// missing file included, as damage.
func (db *DB) openFault(err error) error {
	if known := (*storetype.CorruptError)(nil); errors.As(err, &known) {
		return db.fault(err)
	}
	if errors.Is(err, pebble.ErrDBNotPristine) {
		return &storetype.CorruptError{Dir: db.dir, Detail: "its file " + markerPrefix + "format-version.* is missing; " + restoreDirectory}
	}
	var refused syscall.Errno
	if errors.As(err, &refused) && refused != syscall.ENOENT {
		return db.withNeed(fmt.Errorf("open store %s: %w", db.path(), err))
	}
	return &storetype.CorruptError{Dir: db.dir, Detail: "the files cannot be opened", Err: damage{err}}
}

// startFault returns the error of openFault if the operating system refused an operation,
// and the error of fault otherwise.
func (db *DB) startFault(err error) error {
	if errors.As(err, new(syscall.Errno)) {
		return db.openFault(err)
	}
	return db.fault(err)
}

// openReserve is the room in bytes that opening needs for a few small files, besides the
// room for the logs.
const openReserve = 64 << 10

// withNeed adds to the error of a full disk the room that opening may need.
func (db *DB) withNeed(err error) error { return db.withRoom(err, "opening the store") }

// withRoom adds to the error of a full disk the room that a task may need which first
// makes tables from the logs.
func (db *DB) withRoom(err error, task string) error {
	fs := db.options.FS
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	usage, usageErr := fs.GetDiskUsage(db.path())
	logs, logsErr := db.logSize()
	if usageErr != nil || logsErr != nil {
		return err // the file system does not report its usage
	}
	return fmt.Errorf("%w; %s may need %d KiB, mostly for tables made from its write-ahead logs, and %d KiB are free",
		err, task, (logs+openReserve+1<<10-1)>>10, usage.AvailBytes>>10)
}

// logSize returns the size of the write-ahead logs in bytes.
func (db *DB) logSize() (sum int64, err error) {
	fs := db.options.FS
	names, err := fs.List(db.path())
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if isLog(name) {
			if i, err := fs.Stat(fs.PathJoin(db.path(), name)); err == nil {
				sum += i.Size()
			}
		}
	}
	return sum, nil
}

// pebbleOptions returns Pebble's options for e. They are the result of measurements with
// a load that mostly appends to a log. Memtables count towards the cache's size, so
// Memory bounds both.
func (db *DB) pebbleOptions(e *pebbleDB) *pebble.Options {
	o := &pebble.Options{
		FS:                          e.disk,
		FormatMajorVersion:          pebbleFormat,
		Cache:                       db.cache,
		FileCache:                   db.files,
		MemTableSize:                uint64(min(max(db.options.Memory/memTableShare, minMemTable), maxMemTable)),
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       compactAtL0,
		L0StopWritesThreshold:       math.MaxInt, // the sequencer itself waits; see pebbleDB.refusal
		LBaseMaxBytes:               baseLevelSize,
		CompactionConcurrencyRange:  func() (lower, upper int) { return 1, 2 },
		Logger:                      pebbleLogger{db.options.Logger},
	}
	// Without this listener, a damaged table found by background work would end the
	// process. With it, a read of the table returns a *CorruptError, and the rest of the
	// store stays readable.
	o.EventListener = &pebble.EventListener{
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			// The form %+v of the error has a stack, by which a log would break one cause into
			// a page of lines.
			db.options.Logger.Error("store file damaged", slog.String("path", i.Path), slog.String("error", i.Details.Error()))
			db.options.Logger.Debug("details of the damage", slog.String("path", i.Path), slog.String("details", fmt.Sprintf("%+v", i.Details)))
		},
	}
	e.listen(o.EventListener)
	o.TargetFileSizes[0] = firstLevelFile
	db.sstPartitions.window = int(o.MemTableSize) / 2
	o.Experimental.SpanPolicyFunc = db.sstPartitions.span
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
		o.Levels[i].Compression = func() *block.CompressionProfile { return block.SnappyCompression }
	}
	return o
}
