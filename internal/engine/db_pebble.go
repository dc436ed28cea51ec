package engine

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// engine is one opening of the Pebble database. The store opens the next one in its place when
// the disk has refused what Pebble cannot do without: see disk and recovery.
type engine struct {
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

// openEngine opens Pebble. If the disk refuses to write, it returns the disk's error; a patient
// opening waits for room instead, until the engine's disk is cut off. started is called at the
// beginning.
func (db *DB) openEngine(patient bool, started func(*engine)) (*engine, error) {
	e := &engine{logger: db.options.Logger, progress: make(chan struct{}, 1)}
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
func (e *engine) end() error {
	e.views.Wait()
	e.disk.stop()
	return e.Close()
}

// happened counts an event and wakes the sequencer.
func (e *engine) happened() {
	e.events.Add(1)
	select {
	case e.progress <- struct{}{}:
	default: // it was told already
	}
}

// listen has Pebble's events come to the engine. Pebble holds its lock meanwhile.
func (e *engine) listen(l *pebble.EventListener) {
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
func (e *engine) refusal() error {
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
func (e *engine) look() {
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
