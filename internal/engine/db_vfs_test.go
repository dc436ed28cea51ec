package engine_test

import (
	"github.com/cockroachdb/pebble/v2/vfs"
)

// hookFS runs the function before at the start of every operation that changes files or
// makes them durable: writes, syncs, and changes of directories. If the function refuse
// returns an error, the operation fails with that error.
//
// Pebble has a similar wrapper. But it returns the underlying file when a log is recycled
// (ReuseForWrite), and injects no faults into that file. So hookFS wraps the files that
// every method returns.
type hookFS struct {
	vfs.FS
	before func(op fileOp)
	refuse func(op fileOp) error
}

// operate calls before and refuse with one operation on files. It returns the error of
// refuse.
func (h *hookFS) operate(kind, name string) error {
	op := fileOp{kind, name}
	if h.before != nil {
		h.before(op)
	}
	if h.refuse != nil {
		return h.refuse(op)
	}
	return nil
}

// fileOp describes one operation on a file or directory.
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
	if err := h.operate("dir", name); err != nil {
		return nil, err
	}
	f, err := h.FS.Create(name, c)
	return h.wrap(f, name, err)
}

func (h *hookFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := h.FS.OpenReadWrite(name, c, o...)
	return h.wrap(f, name, err)
}

func (h *hookFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := h.operate("dir", old+" to "+name); err != nil {
		return nil, err
	}
	f, err := h.FS.ReuseForWrite(old, name, c)
	return h.wrap(f, name, err)
}

func (h *hookFS) OpenDir(name string) (vfs.File, error) {
	f, err := h.FS.OpenDir(name)
	return h.wrap(f, name, err)
}

func (h *hookFS) Link(old, name string) error {
	if err := h.operate("dir", name); err != nil {
		return err
	}
	return h.FS.Link(old, name)
}

func (h *hookFS) Remove(name string) error {
	if err := h.operate("dir", name); err != nil {
		return err
	}
	return h.FS.Remove(name)
}

func (h *hookFS) Rename(old, name string) error {
	if err := h.operate("dir", name); err != nil {
		return err
	}
	return h.FS.Rename(old, name)
}

type hookFile struct {
	vfs.File
	name string
	fs   *hookFS
}

func (f *hookFile) Write(p []byte) (int, error) {
	if err := f.fs.operate("write", f.name); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *hookFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.fs.operate("write", f.name); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}

func (f *hookFile) Sync() error {
	if err := f.fs.operate("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *hookFile) SyncData() error {
	if err := f.fs.operate("sync", f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *hookFile) SyncTo(length int64) (bool, error) {
	if err := f.fs.operate("sync", f.name); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}
