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
)

// pebbleDB is an engine: one opening of the Pebble database. When the disk refuses a
// write that Pebble cannot do without, the store opens another engine. See disk and
// recovery.
type pebbleDB struct {
	*pebble.DB
	disk     *disk
	views    sync.WaitGroup // views whose snapshots are open
	memTable uint64         // the size of a memtable
	logger   *slog.Logger

	// events counts created logs, and ended flushes and compactions. seen is the count at
	// the last call of updateFull, and full is its result. Only the sequencer uses seen
	// and full.
	events   atomic.Uint64
	seen     uint64
	full     bool
	progress chan struct{} // signals an event; capacity 1

	mu sync.Mutex // guards the fields below
	// lastFlush is the error of the last flush, or nil. Pebble also returns an error for
	// a flush that makes no table. flush and compaction are the errors of the last failed
	// flush and compaction. A later success sets them to nil.
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

// end closes Pebble. All views of the engine must be released.
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

// listen sets the functions through which the engine receives Pebble's events. Pebble
// holds its lock while it calls them.
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
		e.disk.flushed(i.Err == nil)
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

// refusal returns the error with which the engine refuses writes now, or nil if it
// accepts them. If Pebble is busy with earlier writes, refusal waits for it. Only the
// sequencer calls it.
//
// Without refusal, the sequencer would wait inside Pebble for as long as the disk is
// full.
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

// updateFull sets full. The engine is full if the limit of unflushed memtables or the
// limit of uncompacted tables is reached.
func (e *pebbleDB) updateFull() {
	m := e.Metrics()
	e.full = m.MemTable.Size >= memTables*e.memTable || m.Levels[0].Sublevels >= stopL0
	if m.MemTable.Count <= 1 {
		e.mu.Lock()
		e.flush = nil // no memtable waits for a flush
		e.mu.Unlock()
	}
}

// repeats limits the log of background failures. Pebble retries failed background work at
// once, so the same message could repeat without a pause.
type repeats struct {
	logger *slog.Logger

	mu   sync.Mutex // guards the fields below
	last time.Time
	// hidden is the number of messages that were not logged since the last one that was.
	hidden int
}

// repeatEvery is the shortest time between two logged messages.
const repeatEvery = time.Second

// background logs an error of background work.
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

// recovery replaces an engine that was cut off from its disk. Only the sequencer uses it.
//
// Until another engine is open, reads use the engine that was cut off, and every write
// returns the disk's error. The next engine opens the files on disk. They hold all
// acknowledged writes, and perhaps the refused group, which no reader has seen. If
// opening fails, the next attempt is delayed, longer after each failure.
type recovery struct {
	// failed is the error of all writes. It is nil if writes are accepted.
	failed error
	wait   time.Duration
	next   <-chan time.Time // fires at the next attempt
	engine *pebbleDB        // the engine that opens, or nil
	result chan opened
}

// opened is the result of opening an engine.
type opened struct {
	engine *pebbleDB
	err    error
}

// The delays of recovery. Each failure doubles the delay.
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
	db.options.Logger.Error("writes refused; reopening the store", slog.String("error", err.Error()))
	return r.failed
}

// refused returns the error of a write that the engine refuses because of err.
func (db *DB) refused(err error) error {
	if fault := db.fault(err); errors.As(fault, new(*CorruptError)) {
		return fault
	}
	return &DiskError{Dir: db.dir, Err: err}
}

// idle waits until a request is queued or recovery has work. It reports whether recovery
// replaced the engine.
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

// recover carries out the work that recovery has now, without waiting. It reports whether
// recovery replaced the engine.
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

// reopen starts to open the next engine.
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

// reopened handles the result of reopen. It reports whether writes are accepted again.
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

// retire closes an engine when its last reader is done. Then it allows the next engine to
// delete tables.
func (db *DB) retire(old, next *pebbleDB) {
	db.retiring.Go(func() {
		_ = old.end() // the disk is cut off, so the close writes nothing
		if err := next.disk.unhold(); err != nil {
			db.options.Logger.Error("table deletion failed; the next opening deletes the tables", slog.String("error", err.Error()))
		}
	})
}

// stop ends an opening that is in progress.
func (r *recovery) stop() {
	if r.engine == nil {
		return
	}
	r.engine.disk.cut(ErrClosed)
	r.engine.disk.stop()
	if o := <-r.result; o.err == nil {
		_ = o.engine.end() // the engine opened before it was cut off; nothing was written to it
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
