package store_test

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

// hookFS calls before ahead of every operation that changes what is on disk, and makes it
// durable: writes, syncs, and changes of directories. Pebble's own wrapper
// hands out the file underneath once a log is recycled (ReuseForWrite), and its faults
// silently stop there; so this one wraps every way to get a file that is written.
type hookFS struct {
	vfs.FS
	before func(op fileOp)
}

// fileOp is an operation on files.
type fileOp struct {
	// kind is "write", "sync" or "dir".
	kind string
	name string
}

func (h *hookFS) Unwrap() vfs.FS { return h.FS }

func (h *hookFS) wrap(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &hookFile{File: f, name: name, fs: h}, nil
}

func (h *hookFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	h.before(fileOp{"dir", name})
	f, err := h.FS.Create(name, c)
	return h.wrap(f, name, err)
}

func (h *hookFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := h.FS.OpenReadWrite(name, c, o...)
	return h.wrap(f, name, err)
}

func (h *hookFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	h.before(fileOp{"dir", old + " to " + name})
	f, err := h.FS.ReuseForWrite(old, name, c)
	return h.wrap(f, name, err)
}

func (h *hookFS) OpenDir(name string) (vfs.File, error) {
	f, err := h.FS.OpenDir(name)
	return h.wrap(f, name, err)
}

func (h *hookFS) Link(old, name string) error {
	h.before(fileOp{"dir", name})
	return h.FS.Link(old, name)
}

func (h *hookFS) Remove(name string) error {
	h.before(fileOp{"dir", name})
	return h.FS.Remove(name)
}

func (h *hookFS) Rename(old, name string) error {
	h.before(fileOp{"dir", name})
	return h.FS.Rename(old, name)
}

type hookFile struct {
	vfs.File
	name string
	fs   *hookFS
}

func (f *hookFile) Write(p []byte) (int, error) {
	f.fs.before(fileOp{"write", f.name})
	return f.File.Write(p)
}

func (f *hookFile) WriteAt(p []byte, at int64) (int, error) {
	f.fs.before(fileOp{"write", f.name})
	return f.File.WriteAt(p, at)
}

func (f *hookFile) Sync() error {
	f.fs.before(fileOp{"sync", f.name})
	return f.File.Sync()
}

func (f *hookFile) SyncData() error {
	f.fs.before(fileOp{"sync", f.name})
	return f.File.SyncData()
}

func (f *hookFile) SyncTo(length int64) (bool, error) {
	f.fs.before(fileOp{"sync", f.name})
	return f.File.SyncTo(length)
}
