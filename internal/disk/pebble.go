package disk

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Pebble is an engine: one opening of the Pebble database. A store usually has one
// engine. If the disk refuses a write that Pebble cannot do without, recovery opens
// another one.
type Pebble struct {
	*pebble.DB
	disk     *disk
	Views    sync.WaitGroup // waits for the views whose snapshots are open
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

// Open opens Pebble in the directory. If the disk refuses to write, it returns the
// disk's error. A patient opening instead waits for room, until the opening is cut off from
// the disk. started is called with the opening before Pebble opens.
func (d *Directory) Open(c *Config, patient bool, started func(*Pebble)) (*Pebble, error) {
	e := &Pebble{logger: c.logger, progress: make(chan struct{}, 1), memTable: c.MemTableSize()}
	e.disk = newDisk(d.FS, patient, e.signalEvent)
	started(e)
	p, err := pebble.Open(d.Path, c.options(e))
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

// OpenFirst opens the first engine. If Pebble fails to open on a full disk, it may have
// flushed some logs into tables and deleted them. OpenFirst retries as long as an attempt
// makes the logs smaller.
func (d *Directory) OpenFirst(c *Config) (*Pebble, error) {
	for {
		before, _ := d.logSize() // on an error, before is 0 and there is no retry
		e, err := d.Open(c, false, func(*Pebble) {})
		if !errors.Is(err, syscall.ENOSPC) {
			return e, err
		}
		if after, listErr := d.logSize(); listErr != nil || after >= before {
			return e, err
		}
	}
}

// End waits until all views of the engine are released, and closes Pebble.
func (e *Pebble) End() error {
	e.Views.Wait()
	e.disk.stop()
	return e.Close()
}

// Cut cuts the opening off from the disk because of the error cause, unless it is already.
func (e *Pebble) Cut(cause error) { e.disk.cut(cause) }

// CutOff returns the error that cut the opening off from the disk, or nil.
func (e *Pebble) CutOff() error { return e.disk.refusal() }

// WaitForChanges waits for the changes of files that began before the opening was cut off.
func (e *Pebble) WaitForChanges() { e.disk.waitForChanges() }

// Unhold lets the opening delete the tables that an earlier one may have been reading.
func (e *Pebble) Unhold() error { return e.disk.unhold() }

// Stop ends all delays of the opening.
func (e *Pebble) Stop() { e.disk.stop() }

// signalEvent counts an event and wakes the sequencer.
func (e *Pebble) signalEvent() {
	e.events.Add(1)
	select {
	case e.progress <- struct{}{}:
	default: // a signal is pending
	}
}

// listen sets the functions in l through which Pebble reports its events to the engine.
// Pebble holds its lock while it calls them, so they must not call Pebble.
func (e *Pebble) listen(l *pebble.EventListener) {
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

// Refusal returns the error with which the engine must refuse writes now, or nil if it
// accepts them. If Pebble is only busy with earlier writes, refusal waits. Only the
// sequencer calls it.
//
// Without refusal, a write on a full disk would wait inside Pebble until the disk has
// room.
func (e *Pebble) Refusal() error {
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
func (e *Pebble) updateFull() {
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
