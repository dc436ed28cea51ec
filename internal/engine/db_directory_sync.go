package engine

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// orderedFS adds to Pebble's order of writes what a crash needs.
//
// Pebble names its current manifest by a marker file: it makes and syncs the manifest, then
// makes the marker, then syncs the directory. A file system that writes directory entries in
// any order may, after a power loss, have the marker and not the manifest, and such a store
// can't be opened. So the directory is synced before a marker is made, which happens at the
// opening and once per manifest file.
//
// It also maintains the witnesses of the write-ahead logs: see logs.go.
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
