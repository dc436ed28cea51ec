package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
)

// corrupt is the error of something stored that can't have been written so.
func corrupt(format string, args ...any) error {
	return &CorruptError{Detail: fmt.Sprintf(format, args...)}
}

// notFound wraps feed.ErrNotFound, with what wasn't there.
func notFound(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, feed.ErrNotFound)...)
}

// ignoreNotFound drops Pebble's answer for a key that isn't there.
func ignoreNotFound(err error) error {
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	return err
}

// fault is the error of an operation on the files: damage is told apart from
// trouble of the system underneath.
func (db *DB) fault(err error) error {
	var known *CorruptError
	if errors.As(err, &known) {
		if known.Dir == "" {
			return &CorruptError{Dir: db.dir, Detail: known.Detail, Err: known.Err}
		}
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if pebble.IsCorruptionError(err) {
		return &CorruptError{Dir: db.dir, Detail: "a file was changed or cut off", Err: err}
	}
	return fmt.Errorf("store: %w", err)
}

// unixTime is a _ts as a time.
func unixTime(ts int64) time.Time { return time.Unix(ts, 0).UTC() }
