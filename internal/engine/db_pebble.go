package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/storetype"
)

// pebbleDB is an engine: one opening of the Pebble database. A store usually has one
// engine. If the disk refuses a write that Pebble cannot do without, recovery opens
// another one.
type pebbleDB struct {
	*pebble.DB
	disk     *disk
	views    sync.WaitGroup // waits for the views whose snapshots are open
	memTable uint64         // the size of a memtable in bytes
	logger   *slog.Logger

	// events counts the events after which the engine may be full or no longer full:
	// created logs, and ended flushes and compactions. seen is its value at the last call
	// of updateFull, and full the result of that call. Only the sequencer uses seen and
	// full.
	events   atomic.Uint64
	seen     uint64
	full     bool
	progress chan struct{} // receives a value after an event; capacity 1

	mu sync.Mutex // guards the fields below
	// lastFlush is the error of the last flush, or nil. It may be harmless: Pebble also
	// returns an error for a flush that makes no table. flush and compaction are the
	// errors of the last flush and compaction that failed. A later success sets them to
	// nil.
	lastFlush, flush, compaction error
}

// openPebble opens Pebble. If the disk refuses to write, it returns the disk's error. A
// patient opening instead waits for room, until the engine's disk is cut off. started is
// called with the engine before Pebble opens.
func (db *DB) openPebble(patient bool, started func(*pebbleDB)) (*pebbleDB, error) {
	e := &pebbleDB{logger: db.options.Logger, progress: make(chan struct{}, 1)}
	e.disk = newDisk(db.options.FS, patient, e.signalEvent)
	o := db.pebbleOptions(e)
	e.memTable = o.MemTableSize
	started(e)
	p, err := pebble.Open(db.path(), o)
	e.disk.opened()
	if cause := e.disk.refusal(); cause != nil {
		if err == nil {
			_ = p.Close() // the disk is cut off, so the close writes nothing
		}
		e.disk.clean()
		return nil, cause
	}
	e.DB = p
	return e, err
}

// end waits until all views of the engine are released, and closes Pebble.
func (e *pebbleDB) end() error {
	e.views.Wait()
	e.disk.stop()
	return e.Close()
}

// signalEvent counts an event and wakes the sequencer.
func (e *pebbleDB) signalEvent() {
	e.events.Add(1)
	select {
	case e.progress <- struct{}{}:
	default: // a signal is pending
	}
}

// listen sets the functions in l through which Pebble reports its events to the engine.
// Pebble holds its lock while it calls them, so they must not call Pebble.
func (e *pebbleDB) listen(l *pebble.EventListener) {
	report := (&repeats{logger: e.logger}).background
	l.WALCreated = func(pebble.WALCreateInfo) { e.signalEvent() }
	l.FlushEnd = func(i pebble.FlushInfo) {
		e.mu.Lock()
		e.lastFlush = i.Err
		if i.Err == nil {
			e.flush = nil
			e.disk.written(flushTable)
		}
		e.mu.Unlock()
		e.signalEvent()
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
		e.signalEvent()
	}
	l.BackgroundError = func(err error) {
		e.mu.Lock()
		if e.lastFlush != nil && errors.Is(err, e.lastFlush) {
			e.flush = err
		}
		e.mu.Unlock()
		e.signalEvent()
		report(err)
	}
}

// refusal returns the error with which the engine must refuse writes now, or nil if it
// accepts them. If Pebble is only busy with earlier writes, refusal waits. Only the
// sequencer calls it.
//
// Without refusal, a write on a full disk would wait inside Pebble until the disk has
// room.
func (e *pebbleDB) refusal() error {
	for {
		if err := e.disk.refusal(); err != nil {
			return err
		}
		events := e.events.Load()
		if events != e.seen {
			e.seen = events
			e.updateFull()
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

// updateFull sets full. An engine is full if Pebble would block a write, because too many
// memtables are not flushed or too many tables are not compacted.
func (e *pebbleDB) updateFull() {
	m := e.Metrics()
	e.full = m.MemTable.Size >= memTables*e.memTable || m.Levels[0].Sublevels >= stopL0
	if m.MemTable.Count <= 1 {
		e.mu.Lock()
		e.flush = nil // no memtable is waiting for a flush, so the error is out of date
		e.mu.Unlock()
	}
}

// repeats limits how often an error of background work is logged. Pebble retries such
// work at once, so the same message could repeat without a pause.
type repeats struct {
	logger *slog.Logger

	mu   sync.Mutex // guards the fields below
	last time.Time
	// hidden is the number of errors since the last logged one.
	hidden int
}

// repeatEvery is the shortest time between two logged messages.
const repeatEvery = time.Second

// background logs an error of background work, unless it logged another one less than
// repeatEvery ago.
func (r *repeats) background(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.last.IsZero() && time.Since(r.last) < repeatEvery {
		r.hidden++
		return
	}
	r.logger.Error("background work failed; retrying", slog.String("error", err.Error()), slog.Int("not logged before", r.hidden))
	r.last, r.hidden = time.Now(), 0
}

// recovery opens another engine after the disk has cut the current one off. Only the
// sequencer uses it.
//
// Until another engine is open, reads use the old one, and every write returns the disk's
// error. The new engine opens the files on disk. They hold all acknowledged writes, and
// perhaps those of the refused group, which no reader has seen. If an opening fails, the
// next attempt is delayed, longer after each failure.
type recovery struct {
	// failed is why the engine was cut off, and nil if writes are accepted. wait is the
	// delay before the next attempt.
	failed error
	wait   time.Duration
	next   <-chan time.Time // receives a value when the next attempt is due
	engine *pebbleDB        // the engine that is being opened, or nil
	result chan opened
}

// opened is the result of an attempt to open an engine: the engine, or the error.
type opened struct {
	engine *pebbleDB
	err    error
}

// The delays of recovery. Each failure doubles the delay.
const (
	firstRecovery = 100 * time.Millisecond
	maxRecovery   = 10 * time.Second
)

// fail cuts the engine off from the disk because of the error err of a group, and makes
// recovery open another one. It returns the error that all writes return until then.
func (db *DB) fail(err error) error {
	r := &db.recovery
	db.pebble.disk.cut(err)
	r.failed = err
	r.wait = firstRecovery
	r.next = time.After(r.wait)
	db.options.Logger.Error("writes refused; reopening the store", slog.String("error", err.Error()))
	return db.refused(err)
}

// refused returns the error of a write that the engine refuses because of err: a
// *[storetype.CorruptError] if err reports damage, and otherwise a *[storetype.DiskError].
func (db *DB) refused(err error) error {
	if fault := db.fault(err); errors.As(fault, new(*storetype.CorruptError)) {
		return fault
	}
	return &storetype.DiskError{Dir: db.dir, Err: db.withRoom(err, "writing")}
}

// idle waits until a request is queued, an attempt of recovery is due, or an engine has
// been opened. It reports whether recovery has replaced the engine.
func (db *DB) idle() (recovered bool) {
	r := &db.recovery
	select {
	case <-db.queue.wake:
		yieldToWriters()
		return false
	case <-r.next:
		db.reopen()
		return false
	case o := <-r.result:
		return db.reopened(o)
	}
}

// recover starts an attempt that is due, or takes over an engine that has been opened. It
// does not wait. It reports whether recovery has replaced the engine.
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

// reopen starts a goroutine that opens the next engine. The files no longer change,
// because reopen waits for the changes of the old engine first.
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

// reopened takes over the engine that reopen has opened, or delays the next attempt if
// the opening failed. It reports whether writes are accepted again.
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
		db.options.Logger.Error("store reopening failed; retrying", slog.String("error", err.Error()), slog.Duration("delay", r.wait))
		return false
	}
	db.retire(db.pebble, o.engine)
	db.pebble = o.engine
	r.failed = nil
	db.options.Logger.Info("store reopened; writes resume")
	return true
}

// retire closes the engine old in the background, when its last reader is done. It then
// lets the engine next delete tables.
func (db *DB) retire(old, next *pebbleDB) {
	db.retiring.Go(func() {
		_ = old.end() // the disk is cut off, so the close writes nothing
		if err := next.disk.unhold(); err != nil {
			db.options.Logger.Error("table deletion failed; the next opening deletes the tables", slog.String("error", err.Error()))
		}
	})
}

// stop ends the opening of an engine, if there is one, and closes the engine.
func (r *recovery) stop() {
	if r.engine == nil {
		return
	}
	r.engine.disk.cut(storetype.ErrClosed)
	r.engine.disk.stop()
	if o := <-r.result; o.err == nil {
		_ = o.engine.end() // this opening had already succeeded; nothing was written to the engine
	}
}

// pebbleLogger passes Pebble's messages to the store's logger.
type pebbleLogger struct{ l *slog.Logger }

func (p pebbleLogger) Infof(format string, args ...any) {
	if p.l.Enabled(context.Background(), slog.LevelDebug) {
		p.l.Debug(fmt.Sprintf(format, args...))
	}
}

func (p pebbleLogger) Errorf(format string, args ...any) { p.l.Error(fmt.Sprintf(format, args...)) }

// Fatalf panics. Pebble calls it when it no longer knows the state of the disk, for
// instance after a failed sync. Fatalf must not return, because no write may be
// acknowledged after that.
func (p pebbleLogger) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.l.Error(text)
	panic("store: cannot write to the files: " + text)
}
