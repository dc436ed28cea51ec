package engine

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble replays the write-ahead logs that it finds, and does not notice that one is missing.
// So each log has a witness: an empty file that is durable only while its log is.
//
//   - A witness is created after its log is durable, and before the log is written to.
//   - A witness is deleted, durably, before its log is deleted or renamed.
//
// A crash at any point leaves a log without a witness, or both, or neither. A witness without
// a log means that something else deleted the log. A log without a witness is valid: releases
// before witnesses left such logs behind.
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

// witness creates the witness of the log at path, which was just created. The caller syncs the
// directory, and so makes the witness durable.
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

// forget deletes the witness of the log at path, durably.
func forget(fs vfs.FS, path string) error {
	err := fs.Remove(witnessOf(fs, path))
	if errors.Is(err, os.ErrNotExist) {
		return nil // an earlier release created the log
	}
	return errors.Join(err, syncDir(fs, fs.PathDir(path)))
}

// checkLogs returns a *CorruptError that names the oldest log of which only the witness exists.
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

// orderedFS adds to Pebble's order of writes what a crash needs.
//
// Pebble names its current manifest by a marker file: it makes and syncs the manifest, then
// makes the marker, then syncs the directory. A file system that writes directory entries in
// any order may, after a power loss, have the marker and not the manifest, and such a store
// can't be opened. So the directory is synced before a marker is made, which happens at the
// opening and once per manifest file.
//
// It also maintains the witnesses of the write-ahead logs: see witnessOf.
type orderedFS struct{ vfs.FS }

// Create creates a file: a marker after the file that it names is durable, a log with its
// witness.
func (fs orderedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(fs.PathBase(name), "marker.") {
		if err := syncDir(fs.FS, fs.PathDir(name)); err != nil {
			return nil, err
		}
	}
	f, err := fs.FS.Create(name, category)
	return fs.created(name, f, err)
}

// created creates the witness of f, if f is a log.
func (fs orderedFS) created(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !isLog(name) {
		return f, err
	}
	if err := witness(fs.FS, name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReuseForWrite renames an obsolete log, which becomes the next one.
func (fs orderedFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if isLog(old) {
		if err := forget(fs.FS, old); err != nil {
			return nil, err
		}
	}
	f, err := fs.FS.ReuseForWrite(old, name, category)
	return fs.created(name, f, err)
}

// Remove deletes a file, a log after its witness.
func (fs orderedFS) Remove(name string) error {
	if isLog(name) {
		if err := forget(fs.FS, name); err != nil {
			return err
		}
	}
	return fs.FS.Remove(name)
}

// Unwrap is for Pebble, which looks for the file system underneath.
func (fs orderedFS) Unwrap() vfs.FS { return fs.FS }
