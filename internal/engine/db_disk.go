package engine

import (
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is the file system of one engine. It decides how a refused write affects Pebble.
//
// Pebble panics in its own goroutines when it cannot write a log or its manifest. So the
// first refusal of such a write cuts the engine off from the disk. From then on, its
// changes seem to succeed but do not reach the disk. The disk then has the state that a
// crash at that moment would leave. The sequencer calls refusal before it acknowledges a
// write, so it detects the refusal. An engine that was cut off can still be read.
//
// Pebble handles a refused table as an error and retries the flush or compaction at once.
// So the next table of that kind is delayed, longer after each refusal in a row.
//
// While Pebble opens, it waits until its logs are flushed, even if the disk refuses the
// tables. A patient opening retries refused writes until there is room. In any other
// opening, the second attempt to write a table cuts the engine off. Tables are then
// written to memory, so that the opening ends.
type disk struct {
	vfs.FS
	// notify is called when the engine is cut off.
	notify func()
	// stopped is closed when the engine is closed. It ends all delays.
	stopped chan struct{}
	stop    func()

	// changes is held for reading by each change of a file. waitForChanges locks it to
	// wait for them.
	changes sync.RWMutex

	mu    sync.Mutex // guards the fields below
	cause error      // the refusal that cut the engine off, or nil
	// opening reports whether Pebble is opening. patient reports whether the opening is
	// patient.
	opening, patient bool
	full             error // the last refusal of a table
	// While Pebble opens, flushing has the tables of the current flush, and garbage has
	// those of flushes that failed.
	flushing, garbage []string
	memory            *vfs.MemFS // the tables of an opening that was cut off
	// delays has a delay for each kind of file that was refused.
	delays map[vfs.DiskWriteCategory]*delay
	// held has the tables that Pebble deleted while holding is true. Another engine may
	// still read them.
	holding bool
	held    []string
}

// delay is the time that the next file of a kind waits.
type delay struct {
	wait  time.Duration
	until time.Time
}

// The delays after a refusal. Each refusal in a row doubles the delay.
const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second
)

// newDisk returns the file system of an engine that opens in fs. The disk of a patient
// engine deletes no tables until unhold is called. notify is called when the engine is
// cut off. It must not block.
func newDisk(fs vfs.FS, patient bool, notify func()) *disk {
	stopped := make(chan struct{})
	return &disk{
		FS: orderedFS{fs}, notify: notify, opening: true, patient: patient, holding: patient,
		stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) }),
		delays: map[vfs.DiskWriteCategory]*delay{},
	}
}

// refusal returns the error that cut the engine off, or nil.
func (d *disk) refusal() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cause
}

// opened records that the opening has ended. The disk is then no longer patient.
func (d *disk) opened() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opening, d.patient = false, false
}

// cut cuts the engine off, unless it was cut off before. It also ends the patience of an
// opening.
func (d *disk) cut(cause error) {
	d.mu.Lock()
	first := d.cause == nil
	if first {
		d.cause = cause
		d.patient = false
		d.memory = vfs.NewMem()
	}
	d.mu.Unlock()
	if first {
		d.notify()
	}
}

// waitForChanges waits for the changes that began before the engine was cut off.
func (d *disk) waitForChanges() {
	d.changes.Lock()
	defer d.changes.Unlock() // the lock is free when all changes have ended
}

// do carries out one change of a file that is not a table. If again is true, a patient
// opening retries the change.
func (d *disk) do(again bool, change func() error) {
	for d.once(again, change) {
		d.await(noTable)
	}
}

// The kinds of files that have delays. Flushes and compactions write tables.
const (
	noTable         vfs.DiskWriteCategory = ""
	flushTable      vfs.DiskWriteCategory = "pebble-memtable-flush"
	compactionTable vfs.DiskWriteCategory = "pebble-compaction"
)

// once makes one attempt of do. It reports whether another attempt must follow.
func (d *disk) once(again bool, change func() error) (retry bool) {
	d.changes.RLock()
	defer d.changes.RUnlock()
	if d.refusal() != nil {
		return false
	}
	err := change()
	if err == nil {
		return false
	}
	d.mu.Lock()
	retry = again && d.patient
	d.mu.Unlock()
	if retry {
		d.refused(noTable)
	} else {
		d.cut(err)
	}
	return retry
}

// table carries out one change of a table.
func (d *disk) table(kind vfs.DiskWriteCategory, change func() error) error {
	d.changes.RLock()
	defer d.changes.RUnlock()
	err := d.refusal()
	if err == nil {
		if err = change(); err == nil {
			return nil
		}
	}
	d.refused(kind)
	d.mu.Lock()
	d.full = err
	d.mu.Unlock()
	return err
}

// flushed records the end of a flush. Pebble deletes the tables of a failed flush. In an
// opening that is cut off, it does so too late, so clean deletes them.
func (d *disk) flushed(ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !ok {
		d.garbage = append(d.garbage, d.flushing...)
	}
	d.flushing = nil
}

// clean deletes the tables of failed flushes, which would take the room of the next
// opening. Pebble must be closed.
func (d *disk) clean() {
	d.mu.Lock()
	garbage := d.garbage
	d.mu.Unlock()
	for _, name := range garbage {
		_ = d.FS.Remove(name) // Pebble deleted most of them; the next opening deletes the others
	}
}

// giveUp cuts the engine off if its opening is not patient and a table was refused.
func (d *disk) giveUp() {
	d.mu.Lock()
	err := d.full
	if !d.opening || d.patient {
		err = nil
	}
	d.mu.Unlock()
	if err != nil {
		d.cut(err)
	}
}

// refused delays the next file of a kind.
func (d *disk) refused(kind vfs.DiskWriteCategory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.delays[kind]
	if l == nil {
		l = &delay{wait: firstDelay / 2}
		d.delays[kind] = l
	}
	now := time.Now()
	if now.Before(l.until) {
		return // one file may be refused several times
	}
	l.wait = min(2*l.wait, maxDelay)
	l.until = now.Add(l.wait)
}

// await waits until a file of a kind may be written.
func (d *disk) await(kind vfs.DiskWriteCategory) {
	d.mu.Lock()
	var wait time.Duration
	if l := d.delays[kind]; l != nil {
		wait = time.Until(l.until)
	}
	d.mu.Unlock()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.stopped:
	}
}

// written ends the delays of a kind, after a flush or a compaction succeeded.
func (d *disk) written(kind vfs.DiskWriteCategory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.delays, kind)
}

// unhold deletes the held tables and ends the holding.
func (d *disk) unhold() error {
	d.mu.Lock()
	held := d.held
	d.holding, d.held = false, nil
	d.mu.Unlock()
	var errs []error
	for _, name := range held {
		errs = append(errs, d.Remove(name))
	}
	return errors.Join(errs...)
}

func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }

// Create creates a file. It may delay a table, or return the disk's refusal of a table.
// It returns no error for any other file: if the engine is cut off, that file is empty
// and in memory.
func (d *disk) Create(name string, kind vfs.DiskWriteCategory) (f vfs.File, err error) {
	create := func() (err error) {
		f, err = d.FS.Create(name, kind)
		return err
	}
	if !isTable(name) {
		d.do(true, create)
		return d.file(f)
	}
	d.await(kind)
	d.giveUp()
	if memory := d.tablesInMemory(); memory != nil {
		return createIn(memory, name)
	}
	if err := d.table(kind, create); err != nil {
		return nil, err
	}
	d.mu.Lock()
	if d.opening && kind == flushTable {
		d.flushing = append(d.flushing, name)
	}
	d.mu.Unlock()
	return &tableFile{File: f, d: d, kind: kind}, nil
}

// tablesInMemory returns the file system for the tables of an opening that was cut off.
// It returns nil if tables are written to disk.
func (d *disk) tablesInMemory() *vfs.MemFS {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.opening {
		return nil
	}
	return d.memory
}

func createIn(fs *vfs.MemFS, name string) (vfs.File, error) {
	if err := fs.MkdirAll(fs.PathDir(name), 0o755); err != nil {
		return nil, err
	}
	return fs.Create(name, vfs.WriteCategoryUnspecified)
}

// Open opens a file for reading. The tables of an opening that was cut off are in memory.
func (d *disk) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	d.mu.Lock()
	memory := d.memory
	d.mu.Unlock()
	if memory != nil {
		if f, err := memory.Open(name, o...); err == nil {
			return f, nil
		}
	}
	return d.FS.Open(name, o...)
}

// file returns the file that Pebble receives for the created file f. If f is nil, because
// nothing reaches the disk, it returns an empty file in memory.
func (d *disk) file(f vfs.File) (vfs.File, error) {
	if f == nil {
		var err error
		if f, err = vfs.NewMem().Create("discarded", vfs.WriteCategoryUnspecified); err != nil {
			return nil, err
		}
	}
	return &diskFile{File: f, d: d}, nil
}

// ReuseForWrite renames an obsolete log and returns it. Pebble does not call it while it
// opens.
func (d *disk) ReuseForWrite(old, name string, kind vfs.DiskWriteCategory) (f vfs.File, err error) {
	d.do(false, func() (err error) {
		f, err = d.FS.ReuseForWrite(old, name, kind)
		return err
	})
	return d.file(f)
}

// OpenDir opens a directory, which Pebble syncs.
func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d}, nil
}

// change carries out a change of the directory. Pebble tolerates its error.
func (d *disk) change(change func() error) error {
	d.changes.RLock()
	defer d.changes.RUnlock()
	if d.refusal() != nil {
		return nil
	}
	return change()
}

// Remove deletes a file. While tables are held, it only records the name of a table.
func (d *disk) Remove(name string) error {
	if isTable(name) {
		d.mu.Lock()
		holding := d.holding
		if holding {
			d.held = append(d.held, name)
		}
		d.mu.Unlock()
		if holding {
			return nil
		}
	}
	return d.change(func() error { return d.FS.Remove(name) })
}

// Rename renames a file, unless the engine is cut off.
func (d *disk) Rename(old, name string) error {
	return d.change(func() error { return d.FS.Rename(old, name) })
}

// Link creates a hard link, unless the engine is cut off.
func (d *disk) Link(old, name string) error {
	return d.change(func() error { return d.FS.Link(old, name) })
}

// Lock does nothing: the store itself holds the lock on the directory, for all of its
// engines.
func (d *disk) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap returns the underlying file system. Pebble looks for it.
func (d *disk) Unwrap() vfs.FS { return d.FS }

// diskFile is a log, a manifest, another small file, or a directory.
type diskFile struct {
	vfs.File
	d *disk
}

func (f *diskFile) Write(p []byte) (int, error) {
	rest := p
	f.d.do(true, func() error {
		n, err := f.File.Write(rest)
		rest = rest[n:]
		return err
	})
	return len(p), nil
}

func (f *diskFile) WriteAt(p []byte, at int64) (int, error) {
	f.d.do(true, func() error { _, err := f.File.WriteAt(p, at); return err })
	return len(p), nil
}

// Sync syncs the file. A failed sync is not retried, because the state of the disk is
// then unknown.
func (f *diskFile) Sync() error {
	f.d.do(false, func() error { return f.File.Sync() })
	return nil
}

func (f *diskFile) SyncData() error {
	f.d.do(false, func() error { return f.File.SyncData() })
	return nil
}

func (f *diskFile) SyncTo(length int64) (full bool, err error) {
	full = true // if nothing reaches the disk, there is nothing to sync
	f.d.do(false, func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, nil
}

// Preallocate reserves room. If it fails, the later write reports that the room is
// missing.
func (f *diskFile) Preallocate(offset, length int64) error {
	return f.d.change(func() error { return f.File.Preallocate(offset, length) })
}

func (f *diskFile) Close() error {
	if err := f.File.Close(); err != nil {
		f.d.cut(err)
	}
	return nil
}

// tableFile is a table that is being written.
type tableFile struct {
	vfs.File
	d    *disk
	kind vfs.DiskWriteCategory
}

func (f *tableFile) Write(p []byte) (n int, err error) {
	err = f.d.table(f.kind, func() error { n, err = f.File.Write(p); return err })
	return n, err
}

func (f *tableFile) Sync() error     { return f.d.table(f.kind, f.File.Sync) }
func (f *tableFile) SyncData() error { return f.d.table(f.kind, f.File.SyncData) }

func (f *tableFile) SyncTo(length int64) (full bool, err error) {
	err = f.d.table(f.kind, func() error { full, err = f.File.SyncTo(length); return err })
	return full, err
}
