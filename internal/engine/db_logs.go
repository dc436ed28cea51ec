package engine

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble replays the write-ahead logs that it finds, and does not notice that one is
// missing. So each log has a witness: an empty file that is durable only while its log
// is.
//
//   - A witness is created after its log is durable, and before the log is written to.
//   - A witness is deleted, durably, before its log is deleted or renamed.
//
// A crash at any point leaves a log without a witness, or both, or neither. A witness
// without a log means that something else deleted the log. A log without a witness is
// valid, because older releases created no witnesses.
const (
	logSuffix     = ".log"
	witnessPrefix = "LOG-"
)

// witnessOf returns the path of the witness of the log at path.
func witnessOf(fs vfs.FS, path string) string {
	number := strings.TrimSuffix(fs.PathBase(path), logSuffix)
	return fs.PathJoin(fs.PathDir(path), witnessPrefix+number)
}

// isLog reports whether path names a write-ahead log.
func isLog(path string) bool { return strings.HasSuffix(path, logSuffix) }

// witness creates the witness of the log at path, which was just created. The caller must
// sync the directory, which makes the witness durable.
func witness(fs vfs.FS, path string) error {
	if err := syncDir(fs, fs.PathDir(path)); err != nil {
		return err
	}
	f, err := fs.Create(witnessOf(fs, path), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return f.Close()
}

// forget deletes the witness of the log at path, and syncs the directory.
func forget(fs vfs.FS, path string) error {
	err := fs.Remove(witnessOf(fs, path))
	if errors.Is(err, os.ErrNotExist) {
		return nil // without a witness: an earlier release created the log
	}
	return errors.Join(err, syncDir(fs, fs.PathDir(path)))
}

// checkLogs returns a *CorruptError if a log is missing although its witness exists. The
// error names the oldest such log.
func checkLogs(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		number, ok := strings.CutPrefix(name, witnessPrefix)
		if ok && !slices.Contains(names, number+logSuffix) {
			return corrupt("its write-ahead log %s is missing; restore the directory as a whole from a copy", number+logSuffix)
		}
	}
	return nil
}

// orderedFS adds the order of writes that a store needs to survive a crash.
//
// A marker file names Pebble's current manifest. Pebble creates and syncs the manifest,
// creates the marker, and then syncs the directory. A file system may write directory
// entries in any order. After a power loss it could then have the marker and not the
// manifest, and such a store cannot be opened. So orderedFS syncs the directory before it
// creates a marker. That happens at the opening and once per manifest.
//
// It also maintains the witnesses of the write-ahead logs. See witnessPrefix.
type orderedFS struct{ vfs.FS }

// Create creates a file. Before it creates a marker, it makes the manifest that the
// marker names durable. After it has created a log, it creates the log's witness.
func (fs orderedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(fs.PathBase(name), "marker.") {
		if err := syncDir(fs.FS, fs.PathDir(name)); err != nil {
			return nil, err
		}
	}
	f, err := fs.FS.Create(name, category)
	return fs.created(name, f, err)
}

// created creates the witness of the new file f, if f is a log. A non-nil err is returned
// unchanged.
func (fs orderedFS) created(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !isLog(name) {
		return f, err
	}
	if err := witness(fs.FS, name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReuseForWrite gives an obsolete log the name of the next one. It deletes the old
// witness first and creates the new one.
func (fs orderedFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if isLog(old) {
		if err := forget(fs.FS, old); err != nil {
			return nil, err
		}
	}
	f, err := fs.FS.ReuseForWrite(old, name, category)
	return fs.created(name, f, err)
}

// Remove deletes a file. If the file is a log, it deletes the log's witness first.
func (fs orderedFS) Remove(name string) error {
	if isLog(name) {
		if err := forget(fs.FS, name); err != nil {
			return err
		}
	}
	return fs.FS.Remove(name)
}

// Unwrap returns the wrapped file system. Pebble calls it to find the file system of the
// operating system.
func (fs orderedFS) Unwrap() vfs.FS { return fs.FS }
