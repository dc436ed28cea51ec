// Package slowsync is a file system whose logs take a fixed time to sync. It is for
// measurements, because the time of a real sync varies too much. Wrap the file system of
// a store in an [FS].
package slowsync

import (
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS replaces every sync of a log (*.log) in another file system by a pause. It also
// wraps files that Pebble recycles.
type FS struct {
	vfs.FS
	// Sync is the duration of a sync.
	Sync time.Duration
}

// Unwrap returns the wrapped file system.
func (s FS) Unwrap() vfs.FS { return s.FS }

func (s FS) wrap(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return file{f, s.Sync}, nil
}

// Create creates a file. Each sync of a log takes s.Sync.
func (s FS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	return s.wrap(f, name, err)
}

// ReuseForWrite recycles an old file. Each sync of a log takes s.Sync.
func (s FS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(old, name, c)
	return s.wrap(f, name, err)
}

type file struct {
	vfs.File
	sync time.Duration
}

func (f file) wait() error {
	pause(f.sync)
	return nil
}

func (f file) Sync() error                { return f.wait() }
func (f file) SyncData() error            { return f.wait() }
func (f file) SyncTo(int64) (bool, error) { return true, f.wait() }
