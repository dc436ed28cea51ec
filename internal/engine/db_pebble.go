package engine

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleDB is one opening of the Pebble database. The store opens the next one in its place when
// the disk has refused what Pebble cannot do without: see disk and recovery.
type pebbleDB struct {
	*pebble.DB
	disk     *disk
	views    sync.WaitGroup // views whose snapshots are open
	memTable uint64         // the size of a memtable
	logger   *slog.Logger

	// events counts logs that were created, and flushes and compactions that ended. full is
	// whether the engine was full after the first seen of them; both are the sequencer's own.
	events   atomic.Uint64
	seen     uint64
	full     bool
	progress chan struct{} // of capacity 1: there was an event

	mu sync.Mutex // guards what follows
	// lastFlush is the error of the last flush that did not succeed; to Pebble, a flush that
	// makes no table is one of these. flush and compaction are the errors of failures without
	// a success since.
	lastFlush, flush, compaction error
}

// openPebble opens Pebble. If the disk refuses to write, it returns the disk's error; a patient
// opening waits for room instead, until the engine's disk is cut off. started is called at the
// beginning.
func (db *DB) openPebble(patient bool, started func(*pebbleDB)) (*pebbleDB, error) {
	e := &pebbleDB{logger: db.options.Logger, progress: make(chan struct{}, 1)}
	e.disk = newDisk(db.options.FS, patient, e.happened)
	o := db.pebbleOptions(e)
	e.memTable = o.MemTableSize
	started(e)
	p, err := pebble.Open(db.path(), o)
	e.disk.opened()
	if cause := e.disk.refusal(); cause != nil {
		if err == nil {
			_ = p.Close() // nothing of it reaches the disk
		}
		e.disk.clean()
		return nil, cause
	}
	e.DB = p
	return e, err
}

// end closes Pebble. All views of the engine must be released.
func (e *pebbleDB) end() error {
	e.views.Wait()
	e.disk.stop()
	return e.Close()
}

// happened counts an event and wakes the sequencer.
func (e *pebbleDB) happened() {
	e.events.Add(1)
	select {
	case e.progress <- struct{}{}:
	default: // it was told already
	}
}

// listen has Pebble's events come to the engine. Pebble holds its lock meanwhile.
func (e *pebbleDB) listen(l *pebble.EventListener) {
	report := (&repeats{logger: e.logger}).background
	l.WALCreated = func(pebble.WALCreateInfo) { e.happened() }
	l.FlushEnd = func(i pebble.FlushInfo) {
		e.mu.Lock()
		e.lastFlush = i.Err
		if i.Err == nil {
			e.flush = nil
			e.disk.written(flushTable)
		}
		e.mu.Unlock()
		e.disk.flushed(i.Err == nil)
		e.happened()
	}
	l.CompactionEnd = func(i pebble.CompactionInfo) {
		if i.Err == nil {
			e.disk.written(compactionTable)
		}
		if !errors.Is(i.Err, pebble.ErrCancelledCompaction) {
			e.mu.Lock()
			e.compaction = i.Err
			e.mu.Unlock()
		}
		e.happened()
	}
	l.BackgroundError = func(err error) {
		e.mu.Lock()
		if e.lastFlush != nil && errors.Is(err, e.lastFlush) {
			e.flush = err
		}
		e.mu.Unlock()
		e.happened()
		report(err)
	}
}

// refusal returns the error by which the engine takes no writes now; nil: it takes them. If
// Pebble is busy with what was written before, refusal waits for it. For the sequencer.
//
// So the sequencer never waits in Pebble, which would hold it for as long as the disk is full.
func (e *pebbleDB) refusal() error {
	for {
		if err := e.disk.refusal(); err != nil {
			return err
		}
		events := e.events.Load()
		if events != e.seen {
			e.seen = events
			e.look()
		}
		e.mu.Lock()
		flush, compaction := e.flush, e.compaction
		e.mu.Unlock()
		switch {
		case flush != nil:
			return flush
		case !e.full:
			return nil
		case compaction != nil:
			return compaction
		}
		<-e.progress
	}
}

// look finds out whether the engine is full: whether as many memtables wait to be flushed, or as
// many tables to be compacted, as there may be.
func (e *pebbleDB) look() {
	m := e.Metrics()
	e.full = m.MemTable.Size >= memTables*e.memTable || m.Levels[0].Sublevels >= stopL0
	if m.MemTable.Count <= 1 {
		e.mu.Lock()
		e.flush = nil // nothing waits to be flushed
		e.mu.Unlock()
	}
}

// repeats thins out the messages of failures that come without pause: Pebble repeats background work that failed at once.
type repeats struct {
	logger *slog.Logger

	mu   sync.Mutex // guards what follows
	last time.Time
	// hidden is how many weren't logged since the last one that was.
	hidden int
}

// repeatEvery is how often such a message is logged at most.
const repeatEvery = time.Second

// background logs an error of background work.
func (r *repeats) background(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.last.IsZero() && time.Since(r.last) < repeatEvery {
		r.hidden++
		return
	}
	r.logger.Error("background work of the store failed, and will be tried again", slog.String("error", err.Error()), slog.Int("not logged before", r.hidden))
	r.last, r.hidden = time.Now(), 0
}

// recovery replaces an engine that was cut off from its disk. It is the sequencer's own.
//
// Meanwhile reads use the engine that was cut off, and every write returns the disk's error.
// The next engine opens what is on disk: all that was acknowledged, and perhaps the group that
// was refused, which nobody was shown. If it cannot be opened, the next attempt is delayed,
// longer after each failure.
type recovery struct {
	// failed is the error of all writes; nil: they are not refused.
	failed error
	wait   time.Duration
	next   <-chan time.Time // the next attempt
	engine *pebbleDB        // that opens; nil: none does
	result chan opened
}

// opened is the result of opening an engine.
type opened struct {
	engine *pebbleDB
	err    error
}

// The delays of recovery. Each doubles the one before it.
const (
	firstRecovery = 100 * time.Millisecond
	maxRecovery   = 10 * time.Second
)

// fail refuses all writes until another engine is open. err is the error of a group.
func (db *DB) fail(err error) error {
	r := &db.recovery
	db.pebble.disk.cut(err)
	r.failed = db.refused(err)
	r.wait = firstRecovery
	r.next = time.After(r.wait)
	db.options.Logger.Error("writes are refused; the store will be opened again", slog.String("error", err.Error()))
	return r.failed
}

// refused is the error of a write that the engine refuses.
func (db *DB) refused(err error) error {
	if fault := db.fault(err); errors.As(fault, new(*CorruptError)) {
		return fault
	}
	return &DiskError{Dir: db.dir, Err: err}
}

// idle waits until a request waits, or recovery has something to do.
func (db *DB) idle() (recovered bool) {
	r := &db.recovery
	select {
	case <-db.queue.wake:
		letWritersQueue()
		return false
	case <-r.next:
		db.reopen()
		return false
	case o := <-r.result:
		return db.reopened(o)
	}
}

// recover carries out what recovery has to do now, without waiting for it.
func (db *DB) recover() (recovered bool) {
	r := &db.recovery
	select {
	case <-r.next:
		db.reopen()
		return false
	case o := <-r.result:
		return db.reopened(o)
	default:
		return false
	}
}

// reopen begins to open the next engine.
func (db *DB) reopen() {
	r := &db.recovery
	r.next = nil
	db.pebble.disk.waitForChanges()
	r.result = make(chan opened, 1)
	started := make(chan *pebbleDB, 1)
	go func(result chan<- opened) {
		e, err := db.openPebble(true, func(e *pebbleDB) { started <- e })
		result <- opened{e, err}
	}(r.result)
	r.engine = <-started
}

// reopened takes the result of reopen. It returns true if writes are taken again.
func (db *DB) reopened(o opened) bool {
	r := &db.recovery
	r.engine, r.result = nil, nil
	err := o.err
	if err == nil {
		if err = db.load(o.engine); err != nil {
			err = errors.Join(err, o.engine.end())
		}
	}
	if err != nil {
		r.wait = min(2*r.wait, maxRecovery)
		r.next = time.After(r.wait)
		db.options.Logger.Error("the store cannot be opened again; retrying", slog.String("error", err.Error()), slog.Duration("delay", r.wait))
		return false
	}
	db.retire(db.pebble, o.engine)
	db.pebble = o.engine
	r.failed = nil
	db.options.Logger.Info("the store was opened again; writes resume")
	return true
}

// retire closes an engine when its last reader is done, and then lets the next engine delete
// tables.
func (db *DB) retire(old, next *pebbleDB) {
	db.retiring.Go(func() {
		_ = old.end() // nothing of it reaches the disk
		if err := next.disk.unhold(); err != nil {
			db.options.Logger.Error("tables cannot be deleted; the next opening deletes them", slog.String("error", err.Error()))
		}
	})
}

// stop ends an opening that is under way.
func (r *recovery) stop() {
	if r.engine == nil {
		return
	}
	r.engine.disk.cut(ErrClosed)
	r.engine.disk.stop()
	if o := <-r.result; o.err == nil {
		_ = o.engine.end() // it was opened before it was cut off; nothing was written to it
	}
}
