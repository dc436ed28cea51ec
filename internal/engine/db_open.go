package engine

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
)

// Open opens the store in the directory dir. It creates the directory if it does not
// exist. On the operating system's file system, only the owner may read the directory
// (mode 0700) and its files (0600). If others may read an existing directory, Open
// restricts it and logs that. Open does not change a directory of another owner, but logs
// a warning.
//
// Open returns a *[LockedError] if a process has the directory open, a *[FormatError] if
// a newer release wrote it, and a *[CorruptError] if a file is damaged or missing. If the
// disk refuses to write, Open returns an error that wraps the disk's. On a full disk the
// error names the room that Open needs. Open may then be called again.
//
// If the disk refuses writes later, every write returns a *[DiskError] at once, and reads
// are served. The store retries and resumes writes when the disk accepts them. No
// acknowledged write is lost.
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
	if err := checkFormat(db.options.FS, db.path()); err != nil {
		return db.withNeed(err)
	}
	if err := checkLogs(db.options.FS, db.path()); err != nil {
		return db.openFault(err)
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
	err = cmp.Or(db.upgrade(), e.disk.refusal())
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
	if known := (*CorruptError)(nil); errors.As(err, &known) {
		return db.fault(err)
	}
	var refused syscall.Errno
	if errors.As(err, &refused) && refused != syscall.ENOENT {
		return db.withNeed(fmt.Errorf("open store %s: %w", db.path(), err))
	}
	return &CorruptError{Dir: db.dir, Detail: "the files cannot be opened", Err: err}
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
func (db *DB) withNeed(err error) error {
	fs := db.options.FS
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	usage, usageErr := fs.GetDiskUsage(db.path())
	logs, logsErr := db.logSize()
	if usageErr != nil || logsErr != nil {
		return err // the file system does not report its usage
	}
	return fmt.Errorf("%w; opening the store may need %d KiB, mostly for tables made from its write-ahead logs, and %d KiB are free",
		err, (logs+openReserve+1<<10-1)>>10, usage.AvailBytes>>10)
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
			db.options.Logger.Error("store file damaged", slog.String("path", i.Path), slog.Any("error", i.Details))
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

// load reads the catalog and the counters from an engine, and publishes its first view.
// Containers and partitions of the current view are kept, so handles to them stay valid.
func (db *DB) load(e *pebbleDB) error {
	old := db.current
	v := &view{engine: e, snap: e.NewSnapshot(), catalog: &catalog{
		databases: map[string]*database{}, containers: map[containerName]*Container{},
	}}
	last, err := db.loadCatalog(v)
	if err != nil {
		return errors.Join(err, v.snap.Close())
	}
	if old == nil {
		db.clock = newClock(last)
	}
	v.states = make([]*state, len(db.writeStates))
	for slot, l := range db.writeStates {
		if l != nil {
			v.states[slot] = l.state()
			l.c.applySettings(l.meta)
		}
	}
	db.publish(v)
	for _, l := range db.writeStates {
		if l == nil {
			continue
		}
		for i, p := range l.meta.partitions {
			p.changed.advance(l.ends[i])
		}
		if old != nil {
			l.c.changed.advance(l.lsn)
		}
	}
	v.retireFrom(old)
	return nil
}

// retireFrom retires the containers and partitions of old that v does not have. That
// wakes their readers.
func (v *view) retireFrom(old *view) {
	if old == nil {
		return
	}
	for _, s := range old.states {
		if s == nil {
			continue
		}
		now, err := v.state(s.c)
		if err != nil {
			s.c.changed.retire()
		}
		for _, p := range s.meta.partitions {
			if now == nil || now.meta.byID(p.id) < 0 {
				p.changed.retire()
			}
		}
	}
}

// keep copies the signals of s's partitions to the same partitions of m.
func (s *state) keep(m *meta) {
	for _, p := range m.partitions {
		if i := s.meta.byID(p.id); i >= 0 {
			p.changed = s.meta.partitions[i].changed
		}
	}
}

// loadCatalog fills v's catalog and the writeStates. It returns the last _ts that was
// written.
func (db *DB) loadCatalog(v *view) (last int64, err error) {
	known := db.resetCatalog()
	var added []*writeState
	if err := getJSON(v.snap, []byte{spaceNumbers}, &db.numbers); err != nil {
		return 0, err
	}
	names := map[uint32]string{}
	err = eachKey(v.snap, []byte{spaceDatabase}, func(key, value []byte) error {
		var r databaseRecord
		if err := json.Unmarshal(value, &r); err != nil || len(key) != containerKeySize {
			return corrupt("database record %x: %v", key, err)
		}
		number := binary.BigEndian.Uint32(key[1:])
		names[number] = r.ID
		v.catalog.databases[r.ID] = r.load(number)
		return nil
	})
	if err != nil {
		return 0, err
	}
	err = eachKey(v.snap, []byte{spaceContainer}, func(key, value []byte) error {
		var r containerRecord
		if err := json.Unmarshal(value, &r); err != nil || len(key) != containerKeySize {
			return corrupt("container record %x: %v", key, err)
		}
		number := binary.BigEndian.Uint32(key[1:])
		c, l, err := db.loadContainer(known[number], number, &r, names[r.Database])
		if err != nil {
			return err
		}
		if known[number] == nil {
			added = append(added, l)
		}
		v.catalog.containers[containerName{r.Database, r.ID}] = c
		for i, p := range l.meta.partitions {
			n, err := loadCounters(v.snap, c, p)
			if err != nil {
				return err
			}
			l.ends[i], l.lsn, l.docs, last = n.lsn, max(l.lsn, n.lsn), max(l.docs, n.docs), max(last, n.ts)
		}
		return nil
	})
	for _, l := range added {
		db.assignSlot(l)
	}
	return last, err
}

// resetCatalog empties the sequencer's catalog. It returns the states of the current
// view's containers by number. Those containers keep their slots.
func (db *DB) resetCatalog() (known map[uint32]*state) {
	db.numbers, db.writeStates = numbersRecord{}, nil
	known = map[uint32]*state{}
	if db.current == nil {
		return known
	}
	for _, s := range db.current.states {
		if s != nil {
			known[s.c.number] = s
		}
	}
	db.writeStates = make([]*writeState, len(db.current.states))
	return known
}

// loadContainer returns the container of a record. It creates one unless known has it.
func (db *DB) loadContainer(known *state, number uint32, r *containerRecord, databaseName string) (*Container, *writeState, error) {
	paths, err := parseKeyPaths(r.KeyPaths)
	if err != nil || databaseName == "" {
		return nil, nil, corrupt("container %d: database %d (%q), key paths %v: %v", number, r.Database, databaseName, r.KeyPaths, err)
	}
	m, err := r.load(number)
	if err != nil {
		return nil, nil, err
	}
	l := &writeState{meta: m, ends: make([]int64, len(m.partitions)), grown: make([]growth, len(m.partitions))}
	if known != nil {
		known.keep(m)
		l.c = known.c
		db.writeStates[l.c.slot] = l
		return l.c, l, nil
	}
	unique, err := parseUniqueKeys(r.UniqueKeys)
	if err != nil {
		return nil, nil, corrupt("container %d: %v", number, err)
	}
	l.c = db.newContainer(number, r.Database, databaseName, r.ID, paths, r.Hash, unique)
	return l.c, l, nil
}

func (db *DB) newContainer(number, database uint32, databaseName, id string, paths keyPaths, hash epk.Hash, unique *uniquePolicy) *Container {
	return &Container{
		db: db, number: number, database: database, databaseName: databaseName, name: id,
		identity: feed.Identity{
			AccountHost: "localhost",
			Database:    databaseName, DatabaseRID: databaseRID(database),
			Container: id, ContainerRID: containerRID(database, number),
		},
		paths: paths, hash: hash, tail: newTailFormat(database, number), unique: unique,
	}
}

// assignSlot assigns the first free slot to the container of a writeState.
func (db *DB) assignSlot(l *writeState) {
	for i, other := range db.writeStates {
		if other == nil {
			l.c.slot = i
			db.writeStates[i] = l
			return
		}
	}
	l.c.slot = len(db.writeStates)
	db.writeStates = append(db.writeStates, l)
}

func loadCounters(r pebble.Reader, c *Container, p *partition) (n counters, err error) {
	b, err := getValue(r, partitionKeyOf(c.number, p.number))
	if errors.Is(err, pebble.ErrNotFound) {
		return n, corrupt("partition %s of container %d has no counters", p.id, c.number)
	}
	if err != nil {
		return n, err
	}
	return decodeCounters(b)
}

// getJSON decodes the value of a key into v. It leaves v unchanged if the key does not
// exist.
func getJSON(r pebble.Reader, key []byte, v any) error {
	b, err := getValue(r, key)
	if err != nil {
		return ignoreNotFound(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return corrupt("record %x: %v", key, err)
	}
	return nil
}

// eachKey calls f for each key that begins with prefix. The arguments of f are valid only
// during the call.
func eachKey(r pebble.Reader, prefix []byte, f func(key, value []byte) error) (err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: successor(prefix)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), value)
		}
		if err != nil {
			return err
		}
	}
	return it.Error()
}
