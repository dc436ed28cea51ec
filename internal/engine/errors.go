package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// These are reasons of a [storetype.BadRequestError], found in its Err. They are for
// callers in this module, which answer with another text for each. Its other reasons are a
// *jsonscan.SyntaxError and a *canonical.RangeError.
var (
	// ErrNotObject: the document is JSON, but not an object.
	ErrNotObject = errors.New("not an object")
	// ErrNoID: the document has no id.
	ErrNoID = errors.New("no id")
	// ErrBadName: the name of a database or container has a character that none may have.
	ErrBadName = errors.New("bad name")
	// ErrFewComponents: the partition key has fewer components than the container's.
	ErrFewComponents = errors.New("too few components")
)

func badRequest(kind storetype.BadRequestKind, format string, args ...any) error {
	return &storetype.BadRequestError{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// badRequestBy is like badRequest, with a reason.
func badRequestBy(cause error, kind storetype.BadRequestKind, format string, args ...any) error {
	return &storetype.BadRequestError{Kind: kind, Detail: fmt.Sprintf(format, args...), Err: cause}
}

// corrupt returns a *CorruptError with a formatted Detail. It has no Dir, because
// DB.fault adds that later.
func corrupt(format string, args ...any) error {
	return &storetype.CorruptError{Detail: fmt.Sprintf(format, args...)}
}

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
		return &storetype.CorruptError{Dir: db.dir, Detail: "a file was changed or cut off", Err: damage{err}}
	}
	return fmt.Errorf("store: %w", err)
}

// damage is an error of Pebble about a damaged file. Its text is one line: Pebble joins to the
// error what its listener for damage gets, whose text says nothing, and several readers join
// errors of one file.
type damage struct{ error }

func (d damage) Error() string {
	lines := slices.Compact(slices.DeleteFunc(strings.Split(d.error.Error(), "\n"), func(line string) bool { return line == carrier }))
	return strings.Join(lines, "; ")
}

// Unwrap returns Pebble's error.
func (d damage) Unwrap() error { return d.error }

// carrier is the text of Pebble's error that carries details for its listener.
const carrier = "<corruption detail carrier>"

// unixTime returns a _ts, which is in seconds, as a time in UTC.
func unixTime(ts int64) time.Time { return time.Unix(ts, 0).UTC() }
