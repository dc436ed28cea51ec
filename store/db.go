package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options says how a store is opened. The zero value is the default of every
// field.
type Options struct {
	// FS is the file system the store lives in. Default: the operating system's.
	FS vfs.FS
	// Memory is how many bytes the store may use for its block cache and its
	// memtables together. Default: 128 MiB for [Open], 16 MiB for [OpenMemory];
	// never less than 4 MiB.
	Memory int64
	// PurgeInterval is the time between two rounds of the background work that
	// removes expired items and versions past their retention. Neither is ever
	// shown, purged or not. Default: 1 s; -1: no background work.
	PurgeInterval time.Duration
	// Logger gets what happens in the background. Default: none.
	Logger *slog.Logger
}

// DB is an open store. Its methods may be called concurrently.
type DB struct{}

// Open opens the store in the directory dir, and makes it if there is none.
//
// Errors: *[LockedError] names the process that has it open; *[FormatError]
// tells that a newer version of this package wrote it; *[CorruptError] that a
// file is damaged or missing.
func Open(dir string, o Options) (*DB, error) { panic("to do") }

// OpenMemory opens a new, empty store in memory. What it holds ends with Close.
func OpenMemory(o Options) (*DB, error) { panic("to do") }

// Close ends all background work, waits for writes that are under way, and
// closes the files. Reads that wait for a change return [ErrClosed], as does
// every later call. The second Close does nothing.
func (db *DB) Close() error { panic("to do") }

// Check verifies every invariant of the store: that index and logs agree in both
// directions, that LSNs are unique and in order, that no counter is behind, that
// partitions tile the key space and list every segment, that every document
// lies in its partition and parses. It reads the whole store, from one snapshot,
// and may run beside writers. The error joins what was found (the first 20).
func (db *DB) Check(ctx context.Context) error { panic("to do") }

// Now is the store's clock: the wall clock when the store was opened, or the
// last _ts written if that is later, plus the monotonic time since. It stamps
// _ts and decides what has expired. It never goes back, not over a restart either.
func (db *DB) Now() time.Time { panic("to do") }
