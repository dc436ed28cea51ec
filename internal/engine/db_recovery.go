package engine

import (
	"errors"
	"log/slog"
	"time"

	"github.com/changefeed-go/changefeed/internal/disk"
	"github.com/changefeed-go/changefeed/storetype"
)

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
	engine *disk.Pebble     // the engine that is being opened, or nil
	result chan opened
}

// opened is the result of an attempt to open an engine: the engine, or the error.
type opened struct {
	engine *disk.Pebble
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
	db.pebble.Cut(err)
	r.failed = err
	r.wait = firstRecovery
	r.next = time.After(r.wait)
	db.options.Logger.Error("writes refused; reopening the store", slog.String("error", err.Error()))
	return db.dir.Refused(err)
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
	db.pebble.WaitForChanges()
	r.result = make(chan opened, 1)
	started := make(chan *disk.Pebble, 1)
	go func(result chan<- opened) {
		e, err := db.dir.Open(db.config, true, func(e *disk.Pebble) { started <- e })
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
			err = errors.Join(err, o.engine.End())
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
func (db *DB) retire(old, next *disk.Pebble) {
	db.retiring.Go(func() {
		_ = old.End() // the disk is cut off, so the close writes nothing
		if err := next.Unhold(); err != nil {
			db.options.Logger.Error("table deletion failed; the next opening deletes the tables", slog.String("error", err.Error()))
		}
	})
}

// stop ends the opening of an engine, if there is one, and closes the engine.
func (r *recovery) stop() {
	if r.engine == nil {
		return
	}
	r.engine.Cut(storetype.ErrClosed)
	r.engine.Stop()
	if o := <-r.result; o.err == nil {
		_ = o.engine.End() // this opening had already succeeded; nothing was written to the engine
	}
}
