package engine

import (
	"errors"
	"log/slog"
	"time"
)

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
	engine *engine          // that opens; nil: none does
	result chan opened
}

// opened is the result of opening an engine.
type opened struct {
	engine *engine
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
	db.pebble.disk.settle()
	r.result = make(chan opened, 1)
	started := make(chan *engine, 1)
	go func(result chan<- opened) {
		e, err := db.openEngine(true, func(e *engine) { started <- e })
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
func (db *DB) retire(old, next *engine) {
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
