package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// stuckError tells that Pebble couldn't write what its log has into tables while it opened.
type stuckError struct{ err error }

func (e *stuckError) Error() string {
	return fmt.Sprintf("what the log has can't be written into tables: %v", e.err)
}

func (e *stuckError) Unwrap() error { return e.err }

// opening is a pebble.Open that is under way.
type opening struct {
	mu sync.Mutex // guards what follows
	// over tells that pebble.Open has returned.
	over bool
	// flush is what the last flush ended with: nil, its error, or that it made no table.
	flush error

	// failed gets the error of a flush that failed before it was over.
	failed chan error
}

// openPebble is pebble.Open, but for a disk that refuses writes, a full one for instance: Pebble repeats a flush that
// failed at once and for ever, and waits for its end, whatever happens to the process. Here the first
// such failure is the error, a *stuckError.
//
// Two goroutines of Pebble's then stay for as long as the process lives, since nothing can end them: the one that opens and the
// one that flushes. They are stopped, with Pebble's lock held, so that they write nothing more; and they keep
// the directory locked.
func openPebble(dir string, o *pebble.Options) (*pebble.DB, error) {
	type result struct {
		db  *pebble.DB
		err error
	}
	op := opening{failed: make(chan error, 1)}
	o.EventListener.FlushEnd = op.flushed
	tell := o.EventListener.BackgroundError
	o.EventListener.BackgroundError = func(err error) {
		op.check(err)
		tell(err)
	}
	done := make(chan result, 1)
	go func() {
		db, err := pebble.Open(dir, o)
		op.mu.Lock()
		op.over = true
		op.mu.Unlock()
		done <- result{db, err}
	}()
	var r result
	select {
	case err := <-op.failed:
		return nil, &stuckError{err}
	case r = <-done:
	}
	select {
	case err := <-op.failed: // of a flush that Open left behind
		return nil, &stuckError{err}
	default:
		return r.db, r.err
	}
}

// flushed is told how each flush ended.
func (op *opening) flushed(i pebble.FlushInfo) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.flush = i.Err
}

// check is told of the errors of background work. That of a flush, which hears of it first, makes the opening fail, and
// the flush doesn't get any further. Others don't keep Pebble from opening.
func (op *opening) check(err error) {
	op.mu.Lock()
	if op.over || op.flush == nil || !errors.Is(err, op.flush) {
		op.mu.Unlock()
		return
	}
	op.failed <- err // has place: there is one flush at a time, and none behind this one
	op.mu.Unlock()
	select {} // else Pebble would begin it again
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
	r.logger.Error("background work of the store failed, and will be tried again", slog.Any("error", err), slog.Int("not logged before", r.hidden))
	r.last, r.hidden = time.Now(), 0
}
