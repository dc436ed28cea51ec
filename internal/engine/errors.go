package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
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
func (db *DB) fault(err error) error { return db.dir.Fault(err) }

// unixTime returns a _ts, which is in seconds, as a time in UTC.
func unixTime(ts int64) time.Time { return time.Unix(ts, 0).UTC() }
