package disk

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// orderedFS adds the order of writes that a store needs to survive a crash.
//
// A marker file names Pebble's current manifest. Pebble creates and syncs the manifest,
// creates the marker, and then syncs the directory. A file system may write directory
// entries in any order. After a power loss it could then have the marker and not the
// manifest, and such a store cannot be opened. So orderedFS syncs the directory before it
// creates a marker. That happens at the opening and once per manifest.
//
// It also maintains the witnesses of the write-ahead logs and the manifests.
type orderedFS struct{ vfs.FS }

// Create creates a file. Before it creates a marker, it makes the manifest that the
// marker names durable. After it has created a log, it creates the log's witness.
func (fs orderedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	base := fs.PathBase(name)
	var err error
	switch {
	case markedManifest(base) != "":
		err = syncDir(fs.FS, fs.PathDir(name))
	case isManifest(base):
		// A creation of the store that was cut off may have left a manifest of this name.
		err = forget(fs.FS, name)
	}
	if err != nil {
		return nil, err
	}
	f, err := fs.FS.Create(name, category)
	if err == nil && isManifest(base) {
		return &manifestFile{File: f, fs: fs.FS, path: name, witnessed: existence}, nil
	}
	return fs.created(name, f, err)
}

// created creates the witness of the new file f, if f is a log. A non-nil err is returned
// unchanged.
func (fs orderedFS) created(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !isLog(name) {
		return f, err
	}
	err = syncDir(fs.FS, fs.PathDir(name))
	if err == nil {
		err = witness(fs.FS, name, existence)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &logFile{File: f, fs: fs.FS, path: name}, nil
}

// ReuseForWrite gives an obsolete log the name of the next one. It deletes the old
// witnesses first and creates the new one.
func (fs orderedFS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if isLog(old) {
		if err := forget(fs.FS, old); err != nil {
			return nil, err
		}
	}
	f, err := fs.FS.ReuseForWrite(old, name, category)
	return fs.created(name, f, err)
}

// Remove deletes a file. If the file is a log or a manifest, it deletes the witnesses
// first. If it is the marker of a manifest that is no longer the current one, Remove also
// deletes the witnesses of that manifest, after it has made the new marker durable.
func (fs orderedFS) Remove(name string) error {
	base := fs.PathBase(name)
	var err error
	if manifest := markedManifest(base); manifest != "" {
		dir := fs.PathDir(name)
		if err = syncDir(fs.FS, dir); err == nil {
			err = forget(fs.FS, fs.PathJoin(dir, manifest))
		}
	} else if isLog(base) || isManifest(base) {
		err = forget(fs.FS, name)
	}
	if err != nil {
		return err
	}
	return fs.FS.Remove(name)
}

// Unwrap returns the wrapped file system. Pebble calls it to find the file system of the
// operating system.
func (fs orderedFS) Unwrap() vfs.FS { return fs.FS }

// logFile is a write-ahead log that Pebble is writing.
type logFile struct {
	vfs.File
	fs   vfs.FS
	path string
	size int64
}

func (f *logFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.size += int64(n)
	return n, err
}

// complete creates the witness that the log is complete. Pebble must have synced the log
// and be about to close it. The next log's creation syncs the directory. If a crash comes
// first, the log just lacks this witness.
func (f *logFile) complete() error { return witness(f.fs, f.path, f.size) }

// manifestFile is a manifest that Pebble is writing.
type manifestFile struct {
	vfs.File
	fs   vfs.FS
	path string
	// size is the number of bytes that were written, and witnessed the size that the
	// manifest's witness claims.
	size, witnessed int64
}

func (f *manifestFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.size += int64(n)
	return n, err
}

// Sync makes the manifest durable, and then the witness of its new size. Only then may
// Pebble delete the files that the last edit has made obsolete.
func (f *manifestFile) Sync() error {
	if err := f.File.Sync(); err != nil || f.size == f.witnessed {
		return err
	}
	old := f.witnessed
	if err := errors.Join(witness(f.fs, f.path, f.size), syncDir(f.fs, f.fs.PathDir(f.path))); err != nil {
		return err
	}
	f.witnessed = f.size
	if old == existence {
		return nil
	}
	return f.fs.Remove(witnessOf(f.fs, f.path, old)) // if a crash brings it back, its claim still holds
}
