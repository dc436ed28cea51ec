package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// notFound returns an error that names a missing database, container or item and wraps
// feed.ErrNotFound.
func notFound(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, feed.ErrNotFound)...)
}

// ignoreNotFound returns nil if err is Pebble's error of a missing key, and err
// otherwise.
func ignoreNotFound(err error) error {
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	return err
}

// fault returns the error to report for an error of reading or writing the store's files.
// It returns a *[storetype.CorruptError] for damage. It returns the error of a context unchanged.
func (db *DB) fault(err error) error {
	if known, ok := errors.AsType[*storetype.CorruptError](err); ok {
		if known.Dir == "" {
			return &storetype.CorruptError{Dir: db.dir, Detail: known.Detail, Err: known.Err}
		}
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if pebble.IsCorruptionError(err) {
		return &storetype.CorruptError{Dir: db.dir, Detail: "a file was changed or cut off", Err: err}
	}
	return fmt.Errorf("store: %w", err)
}

// unixTime returns a _ts, which is in seconds, as a time in UTC.
func unixTime(ts int64) time.Time { return time.Unix(ts, 0).UTC() }
